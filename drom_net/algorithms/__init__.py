"""What is computed: the learners, as pure functions on arrays, and how they are found by their names."""

from __future__ import annotations

import contextlib
import sys
from functools import cache
from importlib import import_module
from typing import Any

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
from drom_net.core.errors import ConfigError, Problem, did_you_mean

BUILTIN: dict[str, Learner] = {
    learner.name: learner
    for learner in (
        *(ADADROM, DROM, DROM_D, LOCAL, FED_AVG, FED_AVG_D),
        *(AROW, MT_OMD, MT_CO2OL, MT_CO2OL_D),
        *(OSMTL, D_ADMM, D_OFW, PROX_GD, POOLED),
    )
}
"""The learners of this package, by name."""

GROUP = "drom_net.learners"
"""The group of entry points by which another package names its learners."""

REPLACED = {"ldr": "adadrom", "ldr-d": "adadrom"}
"""Learners that are no longer there -> which took their place."""

_WHERE = "a module must be installed or on PYTHONPATH: nothing is imported from the folder of a run"


def learner_named(name: str, place: str = "algorithm.name") -> Learner:
    """The learner of a name: a builtin one, an entry point of another package, or MODULE:ATTRIBUTE.

    Args:
        place: Where the name stands, for the error.

    Raises:
        ConfigError: There is none.
    """
    learner = BUILTIN.get(name)
    if learner is not None:
        return learner
    if name in REPLACED:
        hint = "it took the place of ldr, and of ldr-d where there is a section topology; docs/algorithms.md"
        raise ConfigError([Problem(place, REPLACED[name], f'"{name}"', hint)])
    found = _other(name)
    if isinstance(found, Learner):
        return found
    raise ConfigError([Problem(place, *found)])


def find_learner(name: str) -> Learner | None:
    """The same; None where there is none."""
    try:
        return learner_named(name)
    except ConfigError:
        return None


@cache
def _other(name: str) -> Learner | tuple[str, str, str]:
    """The learner of another package; or what was expected, what came, and a hint."""
    module, colon, attribute = name.partition(":")
    if not colon:
        points = _entry_points() if name else {}
        if name not in points:
            names = [*BUILTIN, *points]
            return "one of " + ", ".join(names), f'"{name}"', did_you_mean(name[:80], names)
        if len(points[name]) > 1:
            return "one learner of a name", f'"{name}" for {" and ".join(points[name])}', "name it as MODULE:ATTRIBUTE"
        module, _, attribute = points[name][0].partition(":")
    place = name if colon else f"{module}:{attribute}"
    expected = "a learner, as MODULE:ATTRIBUTE" if colon else f"a learner at the entry point {name}, {place}"
    where = f'"{place}"'
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what a command tells is for others to read
            found: Any = import_module(module)
        for part in filter(None, attribute.split(".")):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:  # whatever a module does as it is imported
        missing = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")
        what = str(error) if missing else f"{type(error).__name__}: {error}"
        return expected, f"{where} ({' '.join(what.split())})", _WHERE if missing else ""
    if not isinstance(found, Learner):
        kind = "a module" if found is sys.modules.get(module) else f"a {type(found).__name__}"
        return expected, f"{where}, {kind}", "drom_net.algorithms.learner.Learner is the record of one"
    return found


@cache
def _entry_points() -> dict[str, list[str]]:
    """MODULE:ATTRIBUTE by name, more than one where packages disagree. It looks at all packages that are installed: not
    for a builtin name."""
    from importlib.metadata import entry_points

    found: dict[str, list[str]] = {}
    for name, value in sorted({(point.name, point.value) for point in entry_points(group=GROUP)}):
        found.setdefault(name, []).append(value)
    return found


__all__ = ["BUILTIN", "GROUP", "Algorithm", "Learner", "find_learner", "learner_named"]
