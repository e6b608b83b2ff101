"""AdaDROM as an algorithm, and its record."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drom_net.algorithms.adadrom.exchange import LAYOUT, receive, send
from drom_net.algorithms.adadrom.experts import model, predict, primal_step, score_of_model
from drom_net.algorithms.adadrom.state import init_local
from drom_net.algorithms.base import IDLE, Algorithm, SyncRounds
from drom_net.algorithms.learner import Learner
from drom_net.algorithms.sums import add_up, init_sums
from drom_net.core.fields import Integer, option


@dataclass(frozen=True, slots=True)
class AdaDROMParameters:
    """AdaDROM has nothing to tune; this says how much travels."""

    tau: int = option(
        Integer(0),
        20,
        doc="The most rounds between two sync rounds, of which there are many at first: 1, 2, .. 8, 10, 12, 15, ..; 1 "
        "is every round, and 0 has no bound, which gives about 4.5 ln T in all.",
    )


def adadrom(parameters: AdaDROMParameters | None = None) -> Algorithm:
    """AdaDROM with a reducer, which adds what the sites say and tells all of them the totals."""
    parameters = parameters or AdaDROMParameters()
    return Algorithm(
        name="adadrom",
        init_local=init_local,
        primal_step=primal_step,
        dual_step=lambda state, reply, t: (state, IDLE),
        init_central=init_sums(LAYOUT),
        central_step=add_up,
        sync=SyncRounds(parameters.tau or 2**62, growing=True),
        predict=predict,
        model=model,
        push_vectors=sum(LAYOUT),
        pull_vectors=lambda num_tasks: sum(LAYOUT),
        push_layout=LAYOUT,
        pull_layout=lambda num_tasks: LAYOUT,
        score=score_of_model,
        probability=lambda score: 0.5 + score,
        receive=receive,
        send=send,
        mixing=lambda state: (np.array(state.mixture.effective()), np.array(state.mixture.evidence)),
    )


ADADROM = Learner(
    name="adadrom",
    parameters=AdaDROMParameters,
    build=adadrom,
    reveals="The reducer gets each site's sums, from whose differences rows can be computed, and its model up to the "
    "sign; every site gets the totals.",
)
