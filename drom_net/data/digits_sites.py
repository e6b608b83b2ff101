"""`digits-sites`: 1,797 real handwritten digits, dealt to 12 sites that each have a scanner of their own.

The images are those of scikit-learn's `load_digits` (8 x 8 pixels of 0 to 16; UCI "Optical Recognition of
Handwritten Digits", CC BY 4.0). A permutation deals them: site i gets its positions i, i + 12, ... (150 or
149 images). Site i's scanner makes of each image::

    x = gain * (pixels / 16) ** gamma        gamma ~ U(0.6, 1.6), gain ~ U(0.7, 1.3)
    x[dead row] = 0                          one of the 8 rows
    x = (x - 0.3, 1)                         a shift, and a bias feature
    x = x / |x|                              dim 65

+1 is an odd digit. Every draw comes from `stream(0, "digits-sites", ...)`: the data is always the same, and
a run's seed only orders it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from drom_net.algorithms.features import Matrix
from drom_net.core.seeding import stream
from drom_net.data.dataset import Dataset, TaskData, pick_task
from drom_net.data.faults import extra
from drom_net.data.preprocessing import Preprocessing, unit_rows

NUM_SITES = 12
DIM = 65
SITE_NAMES = tuple(f"site-{number:02d}" for number in range(1, NUM_SITES + 1))


class Scanner(NamedTuple):
    """What a site does to its images."""

    gamma: float
    gain: float
    dead_row: int


def scanner(site: int) -> Scanner:
    """The scanner of a site, from 0."""
    draws = stream(0, "digits-sites", "scanner", site)
    return Scanner(
        gamma=float(draws.uniform(0.6, 1.6)),
        gain=float(draws.uniform(0.7, 1.3)),
        dead_row=int(draws.integers(8)),
    )


def scan(pixels: Matrix, by: Scanner) -> Matrix:
    """Rows of shape (n, 65) and unit norm from images of shape (n, 64), pixels 0 to 16."""
    images = by.gain * (pixels / 16.0) ** by.gamma
    images[:, 8 * by.dead_row : 8 * by.dead_row + 8] = 0.0
    return unit_rows(np.concatenate([images - 0.3, np.ones((len(images), 1))], axis=1))


def load_digits_sites(*, only: str | int | None = None) -> Dataset:
    """The data set, or one site of it.

    Raises:
        UsageError: scikit-learn is missing.
        DataError: There is no site `only`.
    """
    sites = range(NUM_SITES) if only is None else (pick_task(SITE_NAMES, only),)
    with extra("data", "the bundled digits"):
        from sklearn.datasets import load_digits
    pixels, digits = load_digits(return_X_y=True)
    dealt = stream(0, "digits-sites", "deal").permutation(len(pixels))
    tasks = []
    for site in sites:
        mine = dealt[site::NUM_SITES]
        labels = np.where(digits[mine] % 2 == 1, 1.0, -1.0)
        tasks.append(TaskData(SITE_NAMES[site], scan(pixels[mine], scanner(site)), labels))
    scanners = "; ".join(
        f"{SITE_NAMES[site]} gamma {by.gamma:.2f}, gain {by.gain:.2f}, dead row {by.dead_row}"
        for site, by in enumerate(map(scanner, range(NUM_SITES)))
    )
    return Dataset(
        name="digits-sites",
        tasks=tuple(tasks),
        dim=DIM,
        features=(*(f"pixel-{row}-{column}" for row in range(8) for column in range(8)), "bias"),
        positive="an odd digit",
        preprocessing=Preprocessing(raw_dim=DIM),
        description=f"Handwritten digits, odd or even, at {NUM_SITES} sites with a scanner each: {scanners}.",
        source="scikit-learn's load_digits (UCI, Optical Recognition of Handwritten Digits)",
        licence="CC BY 4.0",
    )
