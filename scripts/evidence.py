"""How often a run says "helps", at any time of its stream, of any of its sites where sharing can do nothing.

    python scripts/evidence.py
    python scripts/evidence.py --runs 1000 --sites 30 --examples 500

Each run has so many sites, and draws differences of log loss and of errors whose mean is 0 at every example:

- coins: of either sign with the same probability, all of one range: what Hoeffding's lemma is tight for;
- skewed: nine times in ten a small one, else one of nine times that size the other way, of ranges that differ; at every
  other site the large ones are gains;
- replayed: real runs of AdaDROM on sites that have nothing in common give what each difference could have been; of
  these, drawn with replacement, a new label decides.

Last come these real runs as they are. Ends with 1 where more than 5 % of the runs say it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import click
import numpy as np

from drom_net.algorithms.adadrom.learner import adadrom
from drom_net.algorithms.adadrom.mixing import EVIDENCE
from drom_net.algorithms.features import Matrix
from drom_net.core.seeding import stream
from drom_net.data.stream import TaskStream
from drom_net.learning.reference import run_reference
from drom_net.learning.task import TaskLearner
from drom_net.results.evidence import LEVEL, boundary, levels
from drom_net.results.sharing import sharing_sections

Steps = Iterator[tuple[Matrix, Matrix]]
"""For each example: differences and ranges of all sites of all runs, as (2, sites): of log loss, and of errors."""
DIM = 10


def ever_helps(steps: Steps, shape: tuple[int, int]) -> tuple[float, float]:
    """(share of the runs that ever say "helps" of any site, share of those that ever say it of all together).

    Args:
        shape: (runs, sites).
    """
    of_each, of_all = levels(shape[1])
    assert of_each is not None and of_all is not None
    total, variance = np.zeros((2, *shape)), np.zeros((2, *shape))
    of_any, together = np.zeros(shape[0], bool), np.zeros(shape[0], bool)
    for differences, ranges in steps:
        total += differences.reshape(total.shape)
        variance += (0.25 * ranges * ranges).reshape(total.shape)
        of_any |= (total > boundary(variance, 0.5 * of_each)).any(axis=(0, 2))
        together |= (total.sum(axis=2) > boundary(variance.sum(axis=2), 0.5 * of_all)).any(axis=0)
    return float(of_any.mean()), float(together.mean())


def coins(count: int, examples: int, rng: np.random.Generator) -> Steps:
    """Errors differ whenever the log loss does, and in the same direction."""
    for _ in range(examples):
        signs = np.where(rng.random(count) < 0.5, -1.0, 1.0)
        yield np.stack([0.5 * signs, signs]), np.stack([np.full(count, 1.0), np.full(count, 2.0)])


def skewed(count: int, examples: int, rng: np.random.Generator) -> Steps:
    way = np.where(np.arange(count) % 2, 1.0, -1.0)
    for _ in range(examples):
        both = np.stack([rng.random(count) * np.log(9.0), np.zeros(count)])
        yield way * np.where(rng.random(count) < 0.9, 0.1, -0.9) * both, both


def replayed(table: Matrix, count: int, examples: int, rng: np.random.Generator) -> Steps:
    """
    Args:
        table: As from `possible`.
    """
    for _ in range(examples):
        low, ranges, differ = table[:, rng.integers(table.shape[1], size=count)]
        label = rng.random(count)
        of_loss = np.where(label * ranges < -low, low + ranges, low)
        yield np.stack([of_loss, np.where(label < 0.5, 1.0, -1.0) * differ]), np.stack([ranges, 2.0 * differ])


def unrelated(sites: int, examples: int, seed: int) -> list[TaskStream]:
    """Sites each of which has a rule of its own, and 10 % wrong labels."""
    found = []
    for site in range(sites):
        rng = stream(seed, "unrelated", site)
        rows = rng.standard_normal((examples, DIM))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        clean = np.where(rows @ rng.standard_normal(DIM) >= 0.0, 1.0, -1.0)
        labels = np.where(rng.random(examples) < 0.1, -clean, clean)
        found.append(TaskStream(rows, labels, clean))
    return found


def possible(counts: Matrix) -> Matrix:
    """What differences of each example could have been: the lower one of log loss, its range, whether errors differ.

    Args:
        counts: `EVIDENCE` after each example, a row for each.

    Returns:
        Shape (3, examples).
    """
    of = dict(zip(EVIDENCE, np.diff(counts, axis=0, prepend=0.0).T, strict=True))
    gain, ranges = of["loss_alone"] - of["loss"], 2.0 * np.sqrt(of["loss_variance"].clip(0.0))
    return np.stack([np.where(gain > 0.0, gain - ranges, gain), ranges, of["disagreements"]])


def real_run(sites: int, examples: int, seed: int) -> tuple[bool, Matrix]:
    """(whether it ever says "helps" of any site, what the differences could have been)."""
    helped, history = False, []

    def look(t: int, learners: list[TaskLearner], sigma: float | None) -> bool:
        nonlocal helped
        mixtures, counts = zip(*[learner.mixing for learner in learners if learner.mixing is not None], strict=True)
        _, of_each = sharing_sections(np.stack(mixtures), np.stack(counts))
        helped = helped or any(figures["effect"] == "helps" for figures in of_each)
        history.append(np.stack(counts))
        return True

    run_reference(adadrom(), unrelated(sites, examples, seed), seed=seed, after_round=look)  # type: ignore[arg-type]
    return helped, np.concatenate([possible(site) for site in np.stack(history, axis=1)], axis=1)


@click.command(help=__doc__)
@click.option("--runs", default=10_000, show_default=True, help="Of each kind but the real ones.")
@click.option("--sites", default=12, show_default=True)
@click.option("--examples", default=1000, show_default=True, help="Of each site.")
@click.option("--real", default=20, show_default=True, help="Real runs, of at most 200 examples a site.")
@click.option("--seed", default=0, show_default=True)
def main(runs: int, sites: int, examples: int, real: int, seed: int) -> None:
    of_real = [real_run(sites, min(examples, 200), seed + number) for number in range(real)]
    table = np.concatenate([its for _, its in of_real], axis=1)
    kinds: dict[str, Callable[[np.random.Generator], Steps]] = {
        "coins": lambda rng: coins(runs * sites, examples, rng),
        "skewed": lambda rng: skewed(runs * sites, examples, rng),
        "replayed": lambda rng: replayed(table, runs * sites, examples, rng),
    }
    too_many = False
    for name, steps in kinds.items():
        of_any, of_all = ever_helps(steps(stream(seed, name)), (runs, sites))
        click.echo(f"{name}: {100 * of_any:.2f} % of {runs} runs ever say it of a site, {100 * of_all:.2f} % of all")
        too_many = too_many or max(of_any, of_all) > LEVEL
    helped = sum(helped for helped, _ in of_real)
    click.echo(f"real: {helped} of {real} runs ever say it of a site")
    if too_many or helped > max(1.0, 3.0 * LEVEL * real):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
