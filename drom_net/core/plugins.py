"""What other packages add to this one: found by the name of an entry point, or as MODULE:ATTRIBUTE."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Generic, TypeVar

from drom_net.core.errors import ConfigError, Problem, did_you_mean

T = TypeVar("T")

_WHERE = "a module must be installed or on PYTHONPATH: nothing is imported from the folder of a run"


class Plugins(Generic[T]):
    """One kind of what a name may stand for: one of this package, or of another."""

    def __init__(
        self,
        group: str,
        kind: str,
        *,
        builtin: Callable[[], Mapping[str, T]],
        take: Callable[[Any], T | None],
        hint: str,
    ) -> None:
        """
        Args:
            group: The group of entry points by which another package names its own.
            kind: For messages: "learner".
            builtin: Those of this package, by name.
            take: From what a module has to one of the kind; None where it is none.
            hint: What one is.
        """
        self.group = group
        self._kind, self._builtin, self._take, self._hint = kind, builtin, take, hint
        self._found: dict[str, T | Problem] = {}

    def named(self, name: str, place: str) -> T:
        """The one of a name.

        Args:
            place: Where the name stands, for the error.

        Raises:
            ConfigError: There is none.
        """
        builtin = self._builtin().get(name)
        if builtin is not None:
            return builtin
        if name not in self._found:
            self._found[name] = self._look_up(name)
        found = self._found[name]
        if isinstance(found, Problem):
            raise ConfigError([Problem(place, found.expected, found.got, found.hint)])
        return found

    def installed(self) -> dict[str, T]:
        """Those at the entry points of other packages, by name; what cannot be imported is left out."""
        found = {}
        for name in entry_points_of(self.group):
            with contextlib.suppress(ConfigError):
                found[name] = self.named(name, "")
        return found

    def _look_up(self, name: str) -> T | Problem:
        module, colon, attribute = name.partition(":")
        if not colon:
            points = entry_points_of(self.group) if name else {}
            if name not in points:
                names = [*self._builtin(), *points]
                expected = "one of " + ", ".join(names) if names else f"a {self._kind}, as MODULE:ATTRIBUTE"
                return Problem("", expected, f'"{name}"', did_you_mean(name[:80], names))
            if len(points[name]) > 1:
                got = f'"{name}" for {" and ".join(points[name])}'
                return Problem("", f"one {self._kind} of a name", got, "name it as MODULE:ATTRIBUTE")
            module, _, attribute = points[name][0].partition(":")
        return self._import(module, attribute, "" if colon else name)

    def _import(self, module: str, attribute: str, point: str) -> T | Problem:
        """
        Args:
            point: The name of the entry point; empty for MODULE:ATTRIBUTE.
        """
        place = f"{module}:{attribute}"
        expected = f"a {self._kind}" + (f" at the entry point {point}, {place}" if point else ", as MODULE:ATTRIBUTE")
        try:
            with contextlib.redirect_stdout(sys.stderr):  # what a command prints is for others to read
                found: Any = import_module(module)
            for part in filter(None, attribute.split(".")):
                found = getattr(found, part)
            taken = self._take(found)
        except (Exception, SystemExit) as error:  # whatever a module does as it is imported
            missing = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")
            what = str(error) if missing else f"{type(error).__name__}: {error}"
            return Problem("", expected, f'"{place}" ({" ".join(what.split())})', _WHERE if missing else "")
        if taken is None:
            kind = "a module" if found is sys.modules.get(module) else f"a {type(found).__name__}"
            return Problem("", expected, f'"{place}", {kind}', self._hint)
        return taken


@cache
def entry_points_of(group: str) -> dict[str, list[str]]:
    """MODULE:ATTRIBUTE by name, more than one where packages disagree. It looks at all packages that are installed: not
    for a builtin name."""
    from importlib.metadata import entry_points

    found: dict[str, list[str]] = {}
    for name, value in sorted({(point.name, point.value) for point in entry_points(group=group)}):
        found.setdefault(name, []).append(value)
    return found
