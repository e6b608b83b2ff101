"""What is computed: the learners, as pure functions on arrays, and how they are found by their names."""

from __future__ import annotations

from drom_net.algorithms.adadrom.learner import ADADROM
from drom_net.algorithms.arow import AROW
from drom_net.algorithms.base import Algorithm
from drom_net.algorithms.d_admm import D_ADMM
from drom_net.algorithms.d_ofw import D_OFW
from drom_net.algorithms.drom import DROM
from drom_net.algorithms.drom_d import DROM_D
from drom_net.algorithms.fed_avg import FED_AVG, FED_AVG_D
from drom_net.algorithms.learner import Learner
from drom_net.algorithms.local import LOCAL
from drom_net.algorithms.mt_co2ol import MT_CO2OL, MT_CO2OL_D
from drom_net.algorithms.mt_omd import MT_OMD
from drom_net.algorithms.osmtl import OSMTL
from drom_net.algorithms.pooled import POOLED
from drom_net.algorithms.prox_gd import PROX_GD
from drom_net.core.errors import ConfigError, Problem
from drom_net.core.plugins import Plugins

BUILTIN: dict[str, Learner] = {
    learner.name: learner
    for learner in (
        *(ADADROM, DROM, DROM_D, LOCAL, FED_AVG, FED_AVG_D),
        *(AROW, MT_OMD, MT_CO2OL, MT_CO2OL_D),
        *(OSMTL, D_ADMM, D_OFW, PROX_GD, POOLED),
    )
}
"""The learners of this package, by name."""

LEARNERS: Plugins[Learner] = Plugins(
    "drom_net.learners",
    "learner",
    builtin=lambda: BUILTIN,
    take=lambda found: found if isinstance(found, Learner) else None,
    hint="drom_net.algorithms.learner.Learner is the record of one",
)

REPLACED = {"ldr": "adadrom", "ldr-d": "adadrom"}
"""Learners that are no longer there -> which took their place."""


def learner_named(name: str, place: str = "algorithm.name") -> Learner:
    """The learner of a name: a builtin one, an entry point of another package, or MODULE:ATTRIBUTE.

    Args:
        place: Where the name stands, for the error.

    Raises:
        ConfigError: There is none.
    """
    if name in REPLACED:
        hint = "it took the place of ldr, and of ldr-d where there is a section topology; docs/algorithms.md"
        raise ConfigError([Problem(place, REPLACED[name], f'"{name}"', hint)])
    return LEARNERS.named(name, place)


def find_learner(name: str) -> Learner | None:
    """The same; None where there is none."""
    try:
        return learner_named(name)
    except ConfigError:
        return None


__all__ = ["BUILTIN", "LEARNERS", "Algorithm", "Learner", "find_learner", "learner_named"]
