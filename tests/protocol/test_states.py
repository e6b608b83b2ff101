"""The tables of states: what the nodes do stands in them, and in the docs."""

from __future__ import annotations

import diagrams
import pytest

from drom_net.protocol.states import (
    PEER_STEPS,
    REDUCER_STEPS,
    STARTS,
    WORKER_STEPS,
    PeerState,
    ReducerState,
    State,
    Step,
    WorkerState,
    check_step,
)

TABLES = {WorkerState: WORKER_STEPS, ReducerState: REDUCER_STEPS, PeerState: PEER_STEPS}


def test_the_page_has_the_tables_as_diagrams() -> None:
    page = diagrams.PAGE.read_text(encoding="utf-8")
    assert page.count("```mermaid") == len(TABLES) == len(STARTS)
    assert diagrams.drawn(page) == page


@pytest.mark.parametrize("states", TABLES)
def test_every_state_is_reached_and_left(states: type[State]) -> None:
    steps: tuple[Step, ...] = TABLES[states]  # type: ignore[index]
    assert {step.before for step in steps} == set(states) - {states["FINISHED"]}
    assert {step.after for step in steps} >= set(states) - {next(iter(states))}


def test_a_step_that_stands_in_no_table_is_a_fault() -> None:
    check_step(WorkerState.WAITING, WorkerState.STEPPING)
    check_step(PeerState.JOINING, PeerState.JOINING)
    with pytest.raises(AssertionError, match="from FINISHED to STEPPING"):
        check_step(WorkerState.FINISHED, WorkerState.STEPPING)
    with pytest.raises(AssertionError, match="from WAITING to FINISHING"):
        check_step(PeerState.WAITING, PeerState.FINISHING)
