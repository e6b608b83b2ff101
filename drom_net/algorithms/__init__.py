"""What is computed: the learners, as pure functions on arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drom_net.algorithms.base import Algorithm
from drom_net.algorithms.d_admm import DADMMParameters, d_admm
from drom_net.algorithms.d_ofw import DOFWParameters, d_ofw
from drom_net.algorithms.drom import PAPER, DromParameters, drom
from drom_net.algorithms.drom_d import DromDParameters, drom_d
from drom_net.algorithms.ldr import LDRParameters, ldr, ldr_d
from drom_net.algorithms.local import LocalParameters, local
from drom_net.algorithms.osmtl import OSMTLParameters, osmtl
from drom_net.algorithms.pooled import PooledParameters, pooled
from drom_net.algorithms.prox_gd import ProxGDParameters, prox_gd

ALGORITHMS: dict[str, Callable[[Any], Algorithm]] = {
    "drom": drom,
    "drom-d": drom_d,
    "ldr": ldr,
    "ldr-d": ldr_d,
    "local": local,
    "osmtl": osmtl,
    "d-admm": d_admm,
    "d-ofw": d_ofw,
    "prox-gd": prox_gd,
    "pooled": pooled,
}
"""Name -> constructor, which takes the algorithm's parameters."""

PARAMETERS: dict[str, type] = {
    "drom": DromParameters,
    "drom-d": DromDParameters,
    "ldr": LDRParameters,
    "ldr-d": LDRParameters,
    "local": LocalParameters,
    "osmtl": OSMTLParameters,
    "d-admm": DADMMParameters,
    "d-ofw": DOFWParameters,
    "prox-gd": ProxGDParameters,
    "pooled": PooledParameters,
}
"""Name -> the dataclass of its parameters."""

PRESETS: dict[str, dict[str, dict[str, object]]] = {
    "drom": {"default": {}, "paper": PAPER},
    "drom-d": {"default": {}, "paper": PAPER},
    **{name: {"default": {}} for name in ("ldr", "ldr-d", "local", "osmtl", "d-admm", "d-ofw", "prox-gd", "pooled")},
}
"""Name -> named parameter sets, as values that replace the defaults (by field name)."""

__all__ = ["ALGORITHMS", "PARAMETERS", "PRESETS", "Algorithm"]
