"""How long a node waits for what, when it takes a snapshot, and what becomes of a task that does not come."""

from __future__ import annotations

import math
from dataclasses import dataclass

from drom_net.core.fields import Choice, Integer, Number, option

POSITIVE = Number(above=0.0, at_most=1e9)


OPTIONAL_SECONDS = Number(above=0.0, or_infinity=True)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Every wait of a node has one of these as its bound."""

    join_s: float = option(POSITIVE, 60.0, doc="How long a node waits at the start until all of the cluster is there.")
    resend_after_s: float = option(
        POSITIVE, 0.5, doc="After how long whoever waits asks again; doubles up to resend_cap_s."
    )
    resend_cap_s: float = option(POSITIVE, 8.0, doc="The longest pause between two such questions.")
    lost_s: float = option(
        POSITIVE, 30.0, doc="How long the other side may be disconnected before the run is given up."
    )
    stall_s: float = option(POSITIVE, 10.0, doc="After how long a wait is reported, naming whom it is for.")
    linger_s: float = option(POSITIVE, 5.0, doc="How long a node that has finished waits for the other's goodbye.")
    heartbeat_s: float = option(
        POSITIVE,
        2.0,
        doc="How often the transport asks whether the other side is there; silence of thrice that is a disconnect.",
    )
    duplicate_probe_s: float = option(
        POSITIVE,
        1.0,
        doc="How long a node that is here already, and is started again elsewhere, has to show that it is alive.",
    )


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """When a node keeps what it would go on from after a crash: at the end of a round, whichever comes first."""

    every_rounds: int | None = option(
        Integer(1), None, doc="After so many rounds; a quarter of history_rounds at most."
    )
    every_s: float = option(POSITIVE, 1.0, doc="After so many seconds.")
    history_rounds: int = option(
        Integer(4),
        2000,
        doc="How many rounds a node may be ahead of what it has kept on disk: the others keep as many of their "
        "messages for it. One that is further waits for its disk.",
    )


@dataclass(frozen=True, slots=True)
class Policy:
    """What becomes of a task that is not there."""

    absent: str = option(
        Choice(("wait", "proceed")),
        "wait",
        doc="A task that has not come within timeouts.join_s, or is lost for timeouts.lost_s: wait ends the run with "
        "an error, proceed goes on with its last vectors. It may come (back) later.",
    )
    deadline_s: float = option(
        OPTIONAL_SECONDS,
        math.inf,
        doc="How long a sync round waits for stragglers before it is closed with their last vectors.",
    )

    @property
    def proceeds(self) -> bool:
        """Whether the run goes on without a task that is gone."""
        return self.absent == "proceed"

    @property
    def may_miss(self) -> bool:
        """Whether a round can be closed without a task that is still to come."""
        return self.proceeds or self.deadline_s < math.inf

    def closes(self, num_here: int, num_awaited: int) -> bool:
        """Whether a sync round is closed now, with so many contributions and without those that are still awaited.

        A policy that closes one without some has a `may_miss` that is true. Learners and their graph learn of that by
        the configuration, so it names a `deadline_s` as well.
        """
        return num_awaited == 0


WAIT = Policy()
DEFAULT_CHECKPOINTS = Checkpoints()
