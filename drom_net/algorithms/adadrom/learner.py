"""AdaDROM as an algorithm, and its record."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from drom_net.algorithms.adadrom.exchange import LAYOUT, receive, send
from drom_net.algorithms.adadrom.experts import model, predict, primal_step, score_of_model
from drom_net.algorithms.adadrom.state import init_local
from drom_net.algorithms.adadrom.tree import init_of_tree, receive_along, send_along
from drom_net.algorithms.base import IDLE, Algorithm, SyncRounds
from drom_net.algorithms.features import Sums
from drom_net.algorithms.learner import Learner
from drom_net.algorithms.sums import add_up, along_tree, init_sums, on_full_graph
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
        pull_layout=lambda num_tasks: tuple(map(Sums, LAYOUT)),
        score=score_of_model,
        probability=lambda score: 0.5 + score,
        receive=receive,
        send=send,
        mixing=lambda state: (np.array(state.mixture.effective()), np.array(state.mixture.evidence)),
    )


def adadrom_d(parameters: AdaDROMParameters | None = None) -> Algorithm:
    """AdaDROM as peers: on a full graph each adds what all say; on another one sums flow along a spanning tree."""

    def at(task: int, everybody: tuple[int, ...], tree: tuple[int, ...] | None, whole: bool) -> Algorithm:
        if tree is None:
            return peer._replace(central_step=on_full_graph(task), send=functools.partial(send, whole=whole))
        return peer._replace(
            init_local=lambda dim: init_of_tree(dim, len(tree)),
            central_step=along_tree(task, everybody, tree),
            push_layout=tuple(map(Sums, LAYOUT)),
            receive=receive_along,
            send=lambda state, t: send_along(state, everybody, task, tree, whole=whole),
            tells_each=True,
        )

    peer = adadrom(parameters)._replace(name="adadrom-d", at=at)
    return peer


ADADROM = Learner(
    name="adadrom",
    parameters=AdaDROMParameters,
    build=adadrom,
    reveals="The reducer gets each site's sums, from whose differences rows can be computed, and its model up to the "
    "sign; every site gets the totals.",
)
ADADROM_D = Learner(
    name="adadrom-d",
    parameters=AdaDROMParameters,
    build=adadrom_d,
    reveals="Neighbors get a site's sums, from whose differences rows can be computed, and its model up to the sign; "
    "along a spanning tree together with those of all sites behind it.",
    on_graph=True,
)
