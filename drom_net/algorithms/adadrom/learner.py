"""AdaDROM as an algorithm, and its record."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drom_net.algorithms.adadrom.exchange import (
    AS_A_RULE,
    BITS_OF_G,
    BITS_OF_Q,
    BITS_OF_SKETCH,
    BITS_OF_WEIGHTS,
    ROUNDING,
    admits,
    receive,
    send,
)
from drom_net.algorithms.adadrom.experts import model, predict, primal_step, score_of_model
from drom_net.algorithms.adadrom.mixing import EXPERTS, log_odds
from drom_net.algorithms.adadrom.state import AGAIN, LAYOUT, OWN_PART, init_local
from drom_net.algorithms.adadrom.tree import init_of_tree, receive_along, send_along
from drom_net.algorithms.base import (
    IDLE,
    Algorithm,
    CentralInfo,
    CentralStep,
    Contribution,
    Exchange,
    GraphPosition,
    Reply,
    SyncRounds,
)
from drom_net.algorithms.features import Sums
from drom_net.algorithms.learner import Learner
from drom_net.algorithms.sums import WITH_EXTREMES, SumsCentral, add_up, along_tree, init_sums
from drom_net.core.fields import Flag, Integer, option


@dataclass(frozen=True, slots=True)
class AdaDROMParameters:
    """AdaDROM has nothing to tune; these say how much travels, and whom to trust."""

    tau: int = option(
        Integer(0),
        20,
        doc="The most rounds between sync rounds. The first are rounds 1 to 8, then every third; later they are a "
        "sixteenth of the time apart. 1 is every round; 0 sets no bound (about 4.5 ln T sync rounds in all).",
    )
    robust: bool = option(
        Flag(),
        False,
        doc="Tolerate one bad site: leave out impossible sums and, from six sites on, the extreme gradient sums "
        "in each coordinate.",
    )


DENSE, UNBOUNDED = 16, 4
"""Intervals between sync rounds are such a part of the time, with a bound and without."""


def sync_of(parameters: AdaDROMParameters) -> SyncRounds:
    """The rounds in which something travels."""
    return SyncRounds(parameters.tau, growing=DENSE) if parameters.tau else SyncRounds(2**62, growing=UNBOUNDED)


def adadrom(parameters: AdaDROMParameters | None = None) -> Algorithm:
    """AdaDROM with a reducer, which adds what the sites say and tells all of them the totals; or as peers: on a full
    graph each adds what all say, and on another one sums flow along a spanning tree."""
    parameters = parameters or AdaDROMParameters()
    sync = sync_of(parameters)

    def specialize(position: GraphPosition) -> Algorithm:
        task, neighborhood, tree, whole = position.task, position.neighborhood, position.tree, position.may_miss
        if tree is None:
            step = _robust(sync, task) if parameters.robust else functools.partial(add_up, only=task)
            return star._replace(central_step=step, send=functools.partial(send, whole=whole))
        layout = (Sums(WITH_EXTREMES if parameters.robust else LAYOUT[0]), Sums(LAYOUT[1]))
        return star._replace(
            init_local=lambda dim: init_of_tree(dim, len(tree), layout),
            init_central=init_sums(layout),
            central_step=along_tree(task, neighborhood, tree),
            exchange=star.exchange._replace(contribution=layout),
            receive=receive_along,
            send=lambda state, t: send_along(state, neighborhood, task, tree, whole=whole),
        )

    star = Algorithm(
        name="adadrom",
        init_local=init_local,
        learn=primal_step,
        update=lambda state, t: (state, IDLE),
        init_central=init_sums(LAYOUT),
        central_step=_robust(sync) if parameters.robust else add_up,
        exchange=Exchange(sync, contribution=LAYOUT, reply=tuple(map(Sums, LAYOUT)), same_reply=True),
        predict=predict,
        model=model,
        log_odds=log_odds,
        receive=receive,
        send=send,
        specialize=specialize,
    )
    return star


def _robust(sync: SyncRounds, only: int | None = None) -> CentralStep:
    """The central step that adds what may be true, without the largest and the smallest."""

    def central_step(
        state: SumsCentral, contributions: Mapping[int, Contribution], members: Sequence[int] | None = None
    ) -> tuple[SumsCentral, dict[int, Reply], CentralInfo]:
        state.round = sync.next(state.round + 1)
        return add_up(state, contributions, only=only, admits=functools.partial(admits, t=state.round))

    return central_step


def _reveals(q: AdaDROMParameters, on_graph: bool) -> str:
    rows = "rows that are alone between two sync rounds, as each site's first and often its last are, with their labels"
    if q.tau == 1:
        rows = "every row with its label"
    if on_graph:
        return (
            f"A neighbor can compute {rows}, and the model up to its sign, of each site whose sums come "
            "to it alone: on a full graph of all, along the spanning tree of another graph of those at its ends."
        )
    return (
        f"The reducer can compute {rows}, and each site's model up to its sign; from two totals another "
        "site can compute rows of a site that alone had something new meanwhile, so with two sites as many."
    )


ADADROM = Learner(
    name="adadrom",
    parameters=AdaDROMParameters,
    build=adadrom,
    reveals="The reducer gets each site's sums, whose differences give rows, and its model up to the sign; every site "
    "gets the totals, two of which give the rows of a site that alone had new ones. On a graph neighbors get a site's "
    "sums, along a spanning tree together with those of all sites behind it.",
    reveals_with=_reveals,
    on=("star", "graph"),
    along_tree=True,
    score=score_of_model,
    as_a_rule=AS_A_RULE,
    constants=(
        *(BITS_OF_G, BITS_OF_Q, BITS_OF_SKETCH, BITS_OF_WEIGHTS, *LAYOUT, len(EXPERTS)),
        *(DENSE, UNBOUNDED, OWN_PART, ROUNDING, AGAIN),
    ),
)
