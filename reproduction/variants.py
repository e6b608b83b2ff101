"""DROM with what the paper leaves open varied: which iterate predicts, optimistic steps, weights that change by round.

For the search of `scripts/reproduce search`, in the plain loop only; with all neutral it is DROM, bit for bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from drom_net.algorithms.base import (
    SKIP,
    Algorithm,
    Contribution,
    ContributionKind,
    Example,
    Prediction,
    Reply,
)
from drom_net.algorithms.drom import DromParameters, DromState, drom
from drom_net.algorithms.features import Vector, add_scaled, dot
from drom_net.algorithms.losses import LOSSES
from drom_net.core.fields import Choice, Flag, Number, option


@dataclass(frozen=True, slots=True)
class VariantParameters(DromParameters):
    """DROM's parameters, and the variations."""

    iterate: str = option(
        Choice(("last", "averaged")),
        "last",
        doc="What predicts: the last w, or the mean of all so far, which does not turn with (w, a).",
    )
    optimistic: bool = option(
        Flag(), False, doc="Steps by twice this round's coupling less the last one's (optimistic descent and ascent)."
    )
    lam_power: float = option(Number(), 0.0, doc="Round t takes lambda t^this for lambda.")
    rho_power: float = option(Number(), 0.0, doc="Round t takes rho t^this for rho.")


@dataclass(slots=True)
class VariantState:
    """One task: DROM's state, the mean of w over the rounds that learned, and the last round's couplings."""

    inner: DromState
    mean: Vector
    count: int
    ascent: Vector
    descent: Vector


def variant(parameters: VariantParameters | None = None) -> Algorithm:
    """Algorithm 1 with a_(t+1) = a_t + eta (2 A_t - A_(t-1)) where optimistic, and so for w, A_t = lambda w - rho R."""
    q = parameters or VariantParameters()
    loss = LOSSES[q.loss]
    star = drom(DromParameters(**{name: getattr(q, name) for name in DromParameters.__dataclass_fields__}))

    def init_local(dim: int) -> VariantState:
        return VariantState(star.init_local(dim), np.zeros(dim), 0, np.zeros(dim), np.zeros(dim))

    def predictor(state: VariantState) -> Vector:
        w: Vector = state.mean if q.iterate == "averaged" else state.inner.w
        return w

    def learn(state: VariantState, example: Example, t: int) -> tuple[VariantState, Prediction]:
        score = dot(predictor(state), example.x)
        state.inner, prediction = star.learn(state.inner, example, t)
        if q.iterate == "averaged":
            prediction = Prediction(score, loss.value(example.y * score), prediction.gamma)
        return state, prediction

    def update(state: VariantState, t: int) -> tuple[VariantState, Contribution]:
        inner = state.inner
        if inner.gamma == 0.0 or inner.x is None:
            return state, SKIP
        eta = q.eta0 / math.sqrt(t)
        lam, rho = q.lam * t**q.lam_power, q.rho * t**q.rho_power
        ascent = lam * inner.w
        if inner.r is not None:
            ascent -= rho * inner.r
        a = eta * (2.0 * ascent - state.ascent if q.optimistic else ascent) + inner.a
        coupling = lam * a
        descent = 2.0 * coupling - state.descent if q.optimistic else coupling.copy()
        if inner.slope != 0.0:
            add_scaled(descent, inner.gamma * inner.slope, inner.x)
        inner.w = inner.w - eta * descent
        inner.a, inner.x = a, None
        state.ascent, state.descent = ascent, coupling
        state.count += 1
        state.mean = state.mean + (inner.w - state.mean) / state.count
        return state, Contribution(ContributionKind.VECTORS, (a,))

    def receive(state: VariantState, reply: Reply, t: int) -> VariantState:
        state.inner = star.receive(state.inner, reply, t)
        return state

    return star._replace(
        name="drom-variant",
        init_local=init_local,
        learn=learn,
        update=update,
        receive=receive,
        predict=lambda state, x: dot(predictor(state), x),
        model=lambda state: {"w": predictor(state), "a": state.inner.a},
    )
