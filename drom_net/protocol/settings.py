"""How long a node waits for what: the `timeouts` section, all in seconds."""

from __future__ import annotations

from dataclasses import dataclass

from drom_net.fields import Number, option

POSITIVE = Number(above=0.0, at_most=1e9)


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
