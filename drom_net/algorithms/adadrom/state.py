"""What a task knows: its own models and sums, the totals over all sites, and its last examples."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.adadrom.mixing import Mixture, even_mixture
from drom_net.algorithms.features import Features, Integers, Matrix
from drom_net.algorithms.ridge import RIDGE, ExactRidge, Ridge, ridge
from drom_net.algorithms.sums import Whole

DELTA = 1e-8
"""What sums of squares begin with."""
SKETCHED, DIRECTIONS = 12, 8
"""k, the columns of the sketch Y, of which some are 0 where there are fewer features; r, those that S and DS use."""
LAYOUT = (Integers(2), Integers(SKETCHED + 1))
"""Of a contribution and a reply: G and Q; Y^T, with the experts' weights as its last numbers: it has min(k, d) vectors,
so there is room with any d."""
KEPT = 600
"""So many examples are kept, to fit S and DS again when the directions change."""
EXPERTS = 7
"""Beyond 2,048 features 5, without F and DF."""
MODELS, SQUARES, OF_D = slice(0, 2), slice(3, 6), slice(2, 6, 3)
"""Columns of `AdaState.own`."""
TOTALS, COMMON = slice(0, 2), slice(2, 2 + DIRECTIONS)
"""Columns of `AdaState.heard`."""


@dataclass(slots=True)
class AdaState:
    """One task."""

    own: Matrix
    """By feature what is learned here, shape (d, 6): the model W of L, the offset V of D+, and P, D's gradients that
    the reducer does not have; then the sums of the squared gradients of these three."""
    sent: Matrix
    """What the reducer has of this task's G and Q, shape (2, d)."""
    heard: Matrix
    """By feature, shape (d, 2 + r): the totals G and Q, as last heard, and the directions U."""
    totals: tuple[Whole, ...]
    """All totals as they came: G and Q, shape (2, d); Y^T and, at its end, what the experts weigh, (k + 1, d)."""
    said: Whole
    """What the reducer has of this task's weights, shape (K,)."""
    telling: Whole
    """The weights that are on their way, shape (K,); (0,) where nothing is."""
    touched: npt.NDArray[np.bool_]
    """Where examples were not zero since the reducer has the sums, shape (d,)."""
    ridge: Ridge | None
    """What F and DF learn by."""
    common: ExactRidge
    """What S and DS learn by, in the coordinates U^T x."""
    mixture: Mixture
    past: list[tuple[Features, float, float]] = field(default_factory=list)
    """The last examples: x, y, and what D left of y."""
    kappa: float = 1.0
    """How much P counts, as others learned as much meanwhile: the root of the number of sites that said something."""
    clipped: int = 0
    """So many numbers, of all that was said, were beyond the range of integers."""


def init_local(dim: int) -> AdaState:
    """Before the first example."""
    own_ridge = ridge(dim, 2)
    num_experts = 5 if own_ridge is None else EXPERTS
    return AdaState(
        own=np.repeat([[0.0, 0.0, 0.0, DELTA, DELTA, 0.0]], dim, axis=0),
        sent=np.zeros((2, dim)),
        heard=np.zeros((dim, 2 + DIRECTIONS)),
        totals=tuple([np.zeros((rows, dim), dtype=np.int64) for rows in LAYOUT]),
        said=np.zeros(num_experts, dtype=np.int64),
        telling=np.zeros(0, dtype=np.int64),
        touched=np.zeros(dim, dtype=np.bool_),
        ridge=own_ridge,
        common=ExactRidge(np.eye(DIRECTIONS) / RIDGE, np.zeros((2, DIRECTIONS))),
        mixture=even_mixture(num_experts),
    )
