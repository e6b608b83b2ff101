"""What a task knows: its own models and sums, the totals over all sites, and its last examples."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.adadrom.mixing import EXPERTS, WITHOUT_RIDGE, Mixture, first_mixture
from drom_net.algorithms.features import Features, Integers, Matrix, Vector
from drom_net.algorithms.ridge import RIDGE, Ridge, ridge
from drom_net.algorithms.sums import Whole

DELTA = 1e-8
"""What sums of squares begin with."""
SKETCHED, DIRECTIONS = 12, 8
"""k, the columns of the sketch Y, of which some are 0 where there are fewer features; r, those that S, DS and R use."""
IN_COMMON = DIRECTIONS + 2
"""Of an example in these coordinates, U^T x, y, and what D left of y."""
FORGOTTEN = 0.9
"""For R an example counts so many times as much as the one after it."""
OWN_PART = 0.5
"""So much of its own part of Y counts in a site's directions: its model fits the examples that it has learned, and is
trusted too much by them."""
AGAIN = 1.25
"""A site tells its sketch and weights again once it has learned so many times as many examples."""
LAYOUT = (Integers(2), Integers(SKETCHED + 1))
"""Of a contribution and a reply: G and Q; Y^T, with the experts' weights as its last numbers: it has min(k, d) vectors,
so there is room with any d."""
KEPT = 600
"""So many examples are kept, to fit S, DS and R again when the directions change."""
COMMON, SHARED, W = slice(0, DIRECTIONS), DIRECTIONS, DIRECTIONS + 1
"""Rows of `AdaState.table`: the directions U; D's model, with the other sign and without its step; the model of L."""
MODELS, SCORED = slice(W, W + 3), slice(0, W + 3)
"""W, and V and V', the offsets of D+ and DS+; all that scores an example."""
SUMS, OWN, ROOTS = slice(W + 3, W + 10), slice(W + 4, W + 6), slice(W + 6, W + 10)
"""Sums of gradients: T, which D's model has, and G_i, this task's. Behind them sums of their squares: Q_i, that of D's
model, and those of W, V and V'. What it tells of itself is G_i and Q_i."""
SUM, ROOT = W + 3, W + 6
"""T, and the sum of squares that goes with it."""
ROWS = W + 10


@dataclass(slots=True)
class Tree:
    """What a peer with n neighbors along a tree keeps beside, of each block of a contribution."""

    mine: tuple[Whole, ...]
    """What it has come to itself, shape (r, d)."""
    relay: tuple[Whole, ...]
    """What to pass on to each, shape (n, r, d)."""
    told: tuple[Whole, ...]
    """What each has been told, shape (n, r, d)."""
    news: bool = False
    """Whether there is something new to pass on."""


@dataclass(slots=True)
class AdaState:
    """One task."""

    table: Matrix
    """By feature all that it knows, shape (`ROWS`, d); of sparse examples in Fortran's order."""
    totals: tuple[Whole, ...]
    """All totals as they came: G and Q, shape (2, d); Y^T and, at its end, what the experts weigh, (k + 1, d)."""
    sent: Whole
    """What the reducer has of this task's part of the latter, shape (k + 1, d)."""
    sending: Whole
    """The part that is on its way, shape (k + 1, d); (0, d) where nothing is."""
    sketched: float
    """After so many examples was the sketch and the weights that the reducer has, and"""
    sketching: float
    """those that are on their way; `sketched` where none are."""
    touched: npt.NDArray[np.bool_]
    """Where examples were not zero since the reducer has the sums, shape (d,)."""
    ridge: Ridge | None
    """What F and DF learn by."""
    common: Matrix
    """What S and DS learn by, and then R: r I and, of examples as `IN_COMMON` says, the sum of U^T x times all of it;
    for R it counts `FORGOTTEN` times as much as the one after it; shape (2, r, r + 2)."""
    mixture: Mixture
    targets: Matrix
    """Of the last examples y and what D left of it, shape (`KEPT`, 2), by their number modulo `KEPT`."""
    past: list[Features] = field(default_factory=list)
    """Their x."""
    kappa: float = 1.0
    """How much of its own that the reducer does not have counts in D, as others learned as much meanwhile: the root of
    the number of sites that said something."""
    tree: Tree | None = None
    """Of a peer on a graph that is not full."""
    clipped: int = 0
    """So many numbers, of all that was said, were beyond the range of integers."""

    @property
    def mixing(self) -> tuple[Vector, Vector]:
        """(what each expert weighs in the prediction; what is counted, as `EVIDENCE`)."""
        return np.array(self.mixture.effective()), np.array(self.mixture.evidence)


def init_local(dim: int) -> AdaState:
    """Before the first example."""
    own_ridge = ridge(dim, 2)
    num_experts = WITHOUT_RIDGE if own_ridge is None else len(EXPERTS)
    table = np.zeros((ROWS, dim))
    table[ROOTS] = DELTA
    return AdaState(
        table=table,
        totals=tuple([np.zeros((rows, dim), dtype=np.int64) for rows in LAYOUT]),
        sent=np.zeros((LAYOUT[1], dim), dtype=np.int64),
        sending=np.zeros((0, dim), dtype=np.int64),
        sketched=0.0,
        sketching=0.0,
        touched=np.zeros(dim, dtype=np.bool_),
        ridge=own_ridge,
        common=np.tile(RIDGE * np.eye(DIRECTIONS, IN_COMMON), (2, 1, 1)),
        mixture=first_mixture(num_experts),
        targets=np.zeros((KEPT, 2)),
    )
