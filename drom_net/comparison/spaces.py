"""The lines of a comparison, and the settings that are drawn for each."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from drom_net.algorithms import BUILTIN, Learner, find_learner, learner_named
from drom_net.algorithms.learner import Search
from drom_net.comparison import outside
from drom_net.core.errors import UsageError, did_you_mean
from drom_net.core.fields import settings_of
from drom_net.core.seeding import stream


class Line(NamedTuple):
    """One line of a comparison."""

    algorithm: str
    """The name of its learner."""
    search: Search

    @property
    def learner(self) -> Learner:
        return learner_named(self.algorithm)


def lines_of(algorithm: str, learner: Learner) -> dict[str, Line]:
    """The lines of a learner, by name."""
    return {
        f"{algorithm}-{search.suffix}" if search.suffix else algorithm: Line(algorithm, search)
        for search in learner.searches
    }


_LINES = {name: line for algorithm, learner in BUILTIN.items() for name, line in lines_of(algorithm, learner).items()}

_OUTSIDE = {
    name: Line(f"{outside.__name__}:{attribute}", line.search)
    for attribute in ("RIVER", "RIVER_POOLED", "VW")
    for name, line in lines_of(getattr(outside, attribute).name, getattr(outside, attribute)).items()
}


def outside_lines(tools: Collection[str]) -> list[str]:
    """The lines of learners of other packages, as `--with` names them.

    Raises:
        UsageError: There is no such tool, or it is not installed.
    """
    for tool in tools:
        outside.require(tool)
    return [name for name, line in _OUTSIDE.items() if line.learner.name in tools]


def is_outside(name: str) -> bool:
    """Whether this line is that of another package's learner, which no process can run."""
    return name in _OUTSIDE


def line_names() -> tuple[str, ...]:
    """What a comparison may name of this package; learners of others are found by their own names."""
    return tuple(_LINES)


def line_of(name: str) -> Line:
    """The line of this name.

    Raises:
        UsageError: There is none.
    """
    known = _LINES.get(name) or _OUTSIDE.get(name)
    if known is not None:
        return known
    names: tuple[str, ...] = line_names()
    for algorithm in (name, name.rpartition("-")[0]):
        if algorithm not in BUILTIN and (learner := find_learner(algorithm)) is not None:
            lines = lines_of(algorithm, learner)
            if name in lines:
                return lines[name]
            names = tuple(lines)
            break
    if ":" in name and names == line_names():
        learner_named(name, "--algorithms")  # raises what is wrong with it
    hint = did_you_mean(name, names)
    raise UsageError(f'expected learners of {", ".join(names)}; got "{name}"' + (f"; {hint}" if hint else ""))


def searched_keys() -> set[str]:
    """The keys of the section `algorithm` that some line's search sets, or that name the learner."""
    keys = {"name", "preset"}
    for name, line in _LINES.items():
        fields = {*draw(name, 0, 0), *line.search.fixed}
        keys |= {key for key, setting in settings_of(line.learner.parameters).items() if setting.field in fields}
    return keys


def draw(name: str, number: int, seed: int) -> dict[str, object]:
    """The searched parameters of one setting, by field name; the same fields for every number.

    Args:
        number: From 0, which is the algorithm's defaults. A setting does not depend on how many others are drawn.
        seed: What the settings are drawn from.
    """
    line = line_of(name)
    draws = stream(seed, "settings", name, number)
    while True:
        drawn = line.search.finish({key: spread.draw(draws) for key, spread in line.search.space.items()})
        if drawn is not None:
            break
    if number:
        return drawn
    defaults = line.learner.parameters()
    return {key: getattr(defaults, key) for key in drawn}


def num_settings(name: str, wanted: int) -> int:
    """How many settings are tried: all that are wanted, or the defaults alone where nothing is searched."""
    return wanted if line_of(name).search.space else 1
