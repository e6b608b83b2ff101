"""Crashes and pauses of simulated nodes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Crash:
    """A node dies at a time, and comes back with its last snapshot (infinity: never)."""

    node: int
    at_s: float
    back_after_s: float


@dataclass(frozen=True, slots=True)
class Pause:
    """A node gets nothing done for a while; its messages queue up."""

    node: int
    at_s: float
    for_s: float


Fault = Crash | Pause
