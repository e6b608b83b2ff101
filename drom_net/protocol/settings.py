"""How long a node waits for what, when it takes a snapshot, and what becomes of a task that does not come."""

from __future__ import annotations

import math
from dataclasses import dataclass

from drom_net.core.fields import Choice, Integer, Number, Text, option
from drom_net.core.plugins import Plugins

POSITIVE = Number(above=0.0, at_most=1e9)


OPTIONAL_SECONDS = Number(above=0.0, or_infinity=True)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Bounds of all waits of a node, in seconds."""

    join_s: float = option(POSITIVE, 60.0, doc="How long a node waits at the start for the whole cluster.")
    resend_after_s: float = option(POSITIVE, 0.5, doc="When a waiting node asks again; doubles up to resend_cap_s.")
    resend_cap_s: float = option(POSITIVE, 8.0, doc="The longest pause between two such requests.")
    lost_s: float = option(POSITIVE, 30.0, doc="How long a node may be disconnected before it counts as lost.")
    stall_s: float = option(POSITIVE, 10.0, doc="When a wait is reported, with whom it is for.")
    linger_s: float = option(POSITIVE, 5.0, doc="How long a finished node waits for the other's goodbye.")
    heartbeat_s: float = option(
        POSITIVE,
        2.0,
        doc="The heartbeat interval; silence of three is a disconnect.",
    )
    duplicate_probe_s: float = option(
        POSITIVE,
        1.0,
        doc="How long a node has to answer when a second one claims its task.",
    )


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """When a node saves its state for a restart: at the end of a round, by whichever key comes first."""

    every_rounds: int | None = option(
        Integer(1), None, doc="After so many rounds, at most a quarter of history_rounds."
    )
    every_s: float = option(POSITIVE, 1.0, doc="After so many seconds.")
    history_rounds: int = option(
        Integer(4),
        2000,
        doc="How many rounds a node may be ahead of its saved state; others keep its messages for as long.",
    )


@dataclass(frozen=True, slots=True)
class Policy:
    """What happens when a task is missing."""

    name: str | None = option(
        Text("the name of a policy"),
        None,
        doc="A policy of another package; it may have keys of its own. By default a sync round waits for all.",
    )
    absent: str = option(
        Choice(("wait", "proceed")),
        "wait",
        doc="When a task misses timeouts.join_s or is lost for timeouts.lost_s, wait ends the run with an error; "
        "proceed goes on with its last vectors until it comes.",
    )
    deadline_s: float = option(
        OPTIONAL_SECONDS,
        math.inf,
        doc="How long a sync round waits for stragglers; then their last vectors count.",
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

        A policy that closes one without some has a `may_miss` that is true.
        """
        return num_awaited == 0


POLICIES: Plugins[type[Policy]] = Plugins(
    "drom_net.policies",
    "policy",
    builtin=dict,
    take=lambda found: found if isinstance(found, type) and issubclass(found, Policy) else None,
    hint="a class that is derived from drom_net.protocol.settings.Policy is one",
)


def policy_named(name: str | None, place: str = "policy.name") -> type[Policy]:
    """The class of a policy: this package's for None, else that of another package.

    Args:
        place: Where the name stands, for the error.

    Raises:
        ConfigError: There is none.
    """
    return Policy if name is None else POLICIES.named(name, place)


WAIT = Policy()
DEFAULT_CHECKPOINTS = Checkpoints()
