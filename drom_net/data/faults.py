"""Collecting what is wrong with data files, so that the user sees it all at once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager

from drom_net.core.errors import DataError, Problem, UsageError
from drom_net.core.names import some_of

SHOWN_LIMIT = 20
SHOWN_PER_KIND_LIMIT = 3
TEXT_LIMIT = 60


def quoted(text: str) -> str:
    """`text` as it stands in a message: in quotes, on one line, cut when it is long."""
    ensure_ascii = not text.isprintable()  # such as marks that turn the direction of writing
    return json.dumps(text if len(text) <= TEXT_LIMIT else text[:TEXT_LIMIT] + "…", ensure_ascii=ensure_ascii)


def listed(names: Sequence[str]) -> str:
    """The first of some names as they stand in a message."""
    return some_of(names, shown=quoted)


def parse_number(text: str) -> float | None:
    """What `text` says in ASCII digits, as a file may have it; None for anything else.

    Infinities and NaN are numbers here; `check_finite` refuses them. Python's ``1_000`` is not.
    """
    if "_" in text or not text.isascii():
        return None
    try:
        return float(text)
    except ValueError:
        return None


@contextmanager
def extra(name: str, what: str) -> Iterator[None]:
    """Imports of an optional package; UsageError says which extra `what` needs."""
    try:
        yield
    except ImportError as error:
        raise UsageError(f"{what} need a package that is missing: pip install 'drom-net[{name}]'") from error


class Faults:
    """The problems found so far: all are counted, the first `SHOWN_LIMIT` are kept.

    Of one kind (say, one column of one file) only the first `SHOWN_PER_KIND_LIMIT` are kept, so that a
    column of text does not hide what else is wrong.
    """

    def __init__(self) -> None:
        self.count = 0
        self._kept: list[Problem] = []
        self._kinds: Counter[Hashable] = Counter()

    def add(self, place: str, expected: str, got: str, hint: str = "", *, kind: Hashable = None) -> None:
        self.count += 1
        if kind is not None:
            self._kinds[kind] += 1
            if self._kinds[kind] > SHOWN_PER_KIND_LIMIT:
                return
        if len(self._kept) < SHOWN_LIMIT:
            self._kept.append(Problem(place, expected, got, hint))

    def raise_if_any(self, in_all: Problem | None = None) -> None:
        """Raises DataError with what was kept, and how many were not.

        Args:
            in_all: What is said before those that were kept, where others were not.
        """
        if self.count:
            omitted = self.count - len(self._kept)
            first = [in_all] if in_all is not None and omitted else []
            raise DataError([*first, *self._kept], omitted=omitted)
