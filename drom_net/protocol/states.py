"""The states of worker, reducer and peer, and the steps between them, as tables."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple


class State(enum.Enum):
    """Each is one object. By its name, as an Enum is hashed, a step would cost a microsecond to look up."""

    __hash__ = object.__hash__


class WorkerState(State):
    JOINING = "joining"
    """Hello is said; Welcome has not come."""
    STEPPING = "stepping"
    """Between two rounds."""
    WAITING = "waiting"
    """A push is out; its pull has not come."""
    FINISHING = "finishing"
    """Goodbye is said; the reducer has not noted it yet."""
    FINISHED = "finished"


class ReducerState(State):
    COLLECTING = "collecting"
    """Waiting for workers, for their pushes or for their goodbyes."""
    FINISHED = "finished"


class PeerState(State):
    JOINING = "joining"
    """Not every neighbor is there yet."""
    STEPPING = "stepping"
    """Between two rounds."""
    WAITING = "waiting"
    """In a sync round, for the contributions of neighbors."""
    FINISHING = "finishing"
    """All rounds are done; neighbors have not confirmed the goodbye yet."""
    FINISHED = "finished"


class Step(NamedTuple):
    """One arrow of a state diagram."""

    before: State
    after: State | None
    """None where the node ends with an error, from which nothing follows: those are drawn, and not checked."""
    why: str
    """What leads there / what is sent."""


WORKER_STEPS = (
    Step(WorkerState.JOINING, WorkerState.STEPPING, "Welcome"),
    Step(WorkerState.JOINING, WorkerState.FINISHING, "made from a snapshot of its last round / Goodbye"),
    Step(WorkerState.JOINING, None, "Reject (exit 3), join_s over (exit 4)"),
    Step(WorkerState.STEPPING, WorkerState.STEPPING, "round t, no sync round"),
    Step(WorkerState.STEPPING, WorkerState.STEPPING, "RoundOpened(t), for live streams"),
    Step(WorkerState.STEPPING, WorkerState.WAITING, "round t, a sync round / Push"),
    Step(WorkerState.STEPPING, WorkerState.FINISHING, "no round is left / Goodbye"),
    Step(WorkerState.STEPPING, None, "Reject, or disconnected for lost_s (exit 4)"),
    Step(WorkerState.WAITING, WorkerState.STEPPING, "Pull of round t"),
    Step(WorkerState.WAITING, None, "Reject, or disconnected for lost_s (exit 4)"),
    Step(WorkerState.FINISHING, WorkerState.FINISHED, "GoodbyeAck, Reject, or linger_s over"),
)
REDUCER_STEPS = (
    Step(ReducerState.COLLECTING, ReducerState.COLLECTING, "Hello / Welcome or Reject"),
    Step(ReducerState.COLLECTING, ReducerState.COLLECTING, "anything else from an unknown address / RequestHello"),
    Step(ReducerState.COLLECTING, ReducerState.COLLECTING, "Push, others are missing"),
    Step(
        ReducerState.COLLECTING,
        ReducerState.COLLECTING,
        "the last Push that round t waits for, or its deadline / central step, a Pull to each, round t + 1",
    ),
    Step(ReducerState.COLLECTING, ReducerState.COLLECTING, "Goodbye / GoodbyeAck"),
    Step(ReducerState.COLLECTING, ReducerState.FINISHED, "Goodbye of the last task / GoodbyeAck"),
    Step(ReducerState.COLLECTING, None, "join_s over, or a worker disconnected for lost_s / Reject to all (exit 4)"),
)
PEER_STEPS = (
    Step(PeerState.JOINING, PeerState.JOINING, "Hello of a neighbor of higher number / Welcome or Reject"),
    Step(PeerState.JOINING, PeerState.STEPPING, "the last neighbor is there"),
    Step(PeerState.JOINING, PeerState.FINISHING, "made from a snapshot of its last round / Goodbye"),
    Step(PeerState.JOINING, None, "Reject (exit 3); join_s over, or a neighbor disconnected for lost_s (exit 4)"),
    Step(PeerState.STEPPING, PeerState.STEPPING, "round t, no sync round"),
    Step(PeerState.STEPPING, PeerState.WAITING, "round t, a sync round / Push to each neighbor that will use it"),
    Step(PeerState.STEPPING, PeerState.FINISHING, "no round is left / last contribution where it is due, Goodbye"),
    Step(PeerState.STEPPING, None, "Reject, or a neighbor disconnected for lost_s / Reject to all others (exit 4)"),
    Step(PeerState.WAITING, PeerState.STEPPING, "no contribution of the wanted sync round is missing, or its deadline"),
    Step(PeerState.WAITING, None, "Reject, or a neighbor disconnected for lost_s / Reject to all others (exit 4)"),
    Step(PeerState.FINISHING, PeerState.FINISHED, "all neighbors have confirmed, or linger_s over"),
)
STARTS: dict[type[State], str] = {
    WorkerState: "start / Hello",
    ReducerState: "start",
    PeerState: "start / Hello to neighbors of lower number",
}
"""How each begins, in its first state."""

_MAY_FOLLOW = {(step.before, step.after) for step in (*WORKER_STEPS, *REDUCER_STEPS, *PEER_STEPS)}


def check_step(before: State, after: State) -> None:
    """Raises AssertionError for a step that is in no table. (A node that is told to stop ends from wherever it is.)"""
    assert before is after or (before, after) in _MAY_FOLLOW, f"from {before.name} to {after.name}"


def diagram(steps: Sequence[Step]) -> str:
    """A table as a diagram in Mermaid."""
    states = type(steps[0].before)
    lines = ["stateDiagram-v2", f"    [*] --> {next(iter(states)).name}: {STARTS[states]}"]
    lines += [f"    {before.name} --> {after.name if after else '[*]'}: {why}" for before, after, why in steps]
    return "\n".join([*lines, "    FINISHED --> [*]: exit 0"])
