"""What nodes say to each other. Who said it is known from the connection, not from the message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from drom_net.algorithms.base import Contribution, Reply
from drom_net.learning.metrics import Totals

PROTOCOL_VERSION = 8


@dataclass(frozen=True, slots=True)
class Hello:
    """A worker, or a peer, introduces itself; everything that must agree is in here."""

    version: int
    run_id: str
    """Empty where no launcher gave one."""
    task: int
    config_digest: str
    dim: int
    feature_digest: str
    numpy: str
    """NumPy's version; a difference warns, for low bits may differ."""
    blas: str
    """The BLAS kernel; likewise."""
    incarnation: int = 1
    """How often this node has been started: a later one takes the place of an earlier."""
    round: int = 0
    """The last round that it has begun."""
    kept_from: int = 0
    """The earliest round whose message it can still say again; 0 where it has said none."""
    answers: int = 0
    """The question of the RequestHello that this answers; 0 where it was said unasked."""


@dataclass(frozen=True, slots=True)
class Welcome:
    """The reducer, or a peer, lets one in."""

    run_id: str
    round: int = 0
    """The last round that it has begun."""


@dataclass(frozen=True, slots=True)
class Reject:
    """Whoever says it does not, or no longer, work with the other, and says why."""

    reason: str


@dataclass(frozen=True, slots=True)
class RequestHello:
    """Whoever gets a message from an address that it does not know asks for a Hello; and who is told that somebody is
    there twice asks the first whether it is alive."""

    question: int = 0
    """What the Hello is to repeat, to show that it was not on its way before; 0 where that does not matter."""


class Push(NamedTuple):  # a tuple, as Pull: made twice a round, and half the cost of a frozen dataclass
    """A task's contribution to a sync round; without vectors for an outlier or an idle round."""

    round: int
    contribution: Contribution
    durable: int = 0
    """The round up to which the sender would be again after a crash: nobody needs to keep for it what was before."""


class Pull(NamedTuple):
    """The reply to a task's push; without vectors where sigma_1 <= 1 or nothing is new."""

    round: int
    reply: Reply
    durable: int = 0
    """As a push's."""
    next: int = 0
    """The next round that has something for this task; a later one than the next where rounds were closed without it,
    which it then goes through alone."""


@dataclass(frozen=True, slots=True)
class Resend:
    """Whoever waits for a message of this round asks for it (again)."""

    round: int


@dataclass(frozen=True, slots=True)
class RoundOpened:
    """The reducer: some task has an example in this round; whoever has none is idle in it. Of live streams only."""

    round: int


@dataclass(frozen=True, slots=True)
class Goodbye:
    """A worker is done: its closed chain and its counts."""

    rounds: int
    chain: bytes
    totals: Totals


@dataclass(frozen=True, slots=True)
class GoodbyeAck:
    """A goodbye has been noted."""


Message = Hello | Welcome | RequestHello | Reject | Push | Pull | Resend | RoundOpened | Goodbye | GoodbyeAck
