"""What is computed: the learners, as pure functions on arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drom_net.algorithms.base import Algorithm
from drom_net.algorithms.drom import PAPER, DromParameters, drom
from drom_net.algorithms.drom_d import DromDParameters, drom_d
from drom_net.algorithms.local import LocalParameters, local

ALGORITHMS: dict[str, Callable[[Any], Algorithm]] = {"drom": drom, "drom-d": drom_d, "local": local}
"""Name -> constructor, which takes the algorithm's parameters."""

PARAMETERS: dict[str, type] = {
    "drom": DromParameters,
    "drom-d": DromDParameters,
    "local": LocalParameters,
}
"""Name -> the dataclass of its parameters."""

PRESETS: dict[str, dict[str, dict[str, object]]] = {
    "drom": {"default": {}, "paper": PAPER},
    "drom-d": {"default": {}, "paper": PAPER},
    "local": {"default": {}},
}
"""Name -> named parameter sets, as values that replace the defaults (by field name)."""

__all__ = ["ALGORITHMS", "PARAMETERS", "PRESETS", "Algorithm"]
