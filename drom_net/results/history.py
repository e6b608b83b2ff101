"""history.jsonl of a run directory: how each site did over time, a line for some moments of the run.

At first every look at the run becomes a line. Whenever the file is full each second line goes, and from then on half
as many looks become lines: the file stays small however long a run lasts and however many sites it has, and its lines
are about evenly apart.
"""

from __future__ import annotations

import contextlib
import json
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drom_net.results.evidence import CODES

_NUMBERS, _FEWEST, _MOST = 60_000, 40, 240
_FULL_BYTES = 10_000_000
_COUNTS = ("examples", "errors", "majority_errors")
Moment = dict[str, Any]


def most_moments(num_tasks: int) -> int:
    """So many moments are enough of a run of so many tasks: fewer of more, for each has numbers of all."""
    return max(_FEWEST, min(_MOST, _NUMBERS // max(1, num_tasks)))


def moment_of(state: Mapping[str, Any]) -> Moment:
    """What a state or a summary says of each site, as lists in task order; None where that is not known.

    `examples`, `errors`, `majority_errors` and `bytes_sent` are counts from the beginning; of learners that mix
    experts there are also `gain_points` (of the error rate), `effect` (1 helps, 0 cannot tell yet, -1 hurts) and
    `noise` (a share).
    """
    tasks = state["tasks"]
    found: Moment = {"seconds": state.get("seconds", 0.0), "rounds": state.get("rounds", 0)}
    found |= {key: [task.get(key) for task in tasks] for key in (*_COUNTS, "bytes_sent")}
    if any(task.get("sharing") for task in tasks):
        sharing = [task.get("sharing") or {} for task in tasks]
        found["gain_points"] = [_rounded(its.get("gain_points"), 2) for its in sharing]
        found["effect"] = [CODES.get(its.get("effect") or "") for its in sharing]
        found["noise"] = [_rounded(its.get("noise"), 4) for its in sharing]
    return found


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


class History:
    """Adds lines to a file, also to those of a run that is resumed."""

    def __init__(self, path: Path, num_tasks: int) -> None:
        self._path, self._full_lines = path, 2 * most_moments(num_tasks)
        self._lines = self._looks = 0
        last: deque[bytes] = deque(maxlen=2)  # the launcher may have been killed within a line
        with contextlib.suppress(OSError), path.open("rb") as file:
            for line in file:
                self._lines += 1
                last.append(line)
        read = (_read_line(line.decode(errors="replace"), num_tasks) for line in reversed(last))
        before: Moment = next((found for found in read if found is not None), {})
        self._before_s = before.get("seconds", 0.0)
        self._every = max(1, int(min(before.get("every", 1), 2**53)))
        self._is_cut = bool(last) and not last[-1].endswith(b"\n")

    def add(self, state: Mapping[str, Any], *, at_end: bool = False) -> None:
        """Add a line if it is time for one. A full disk must not end a run here."""
        self._looks += 1
        if not state["rounds"] or (self._looks < self._every and not at_end):
            return
        found = moment_of(state)
        found |= {"seconds": round(found["seconds"] + self._before_s, 3), "every": self._every}
        line = "\n" * self._is_cut + json.dumps(found, separators=(",", ":")) + "\n"
        with contextlib.suppress(OSError):
            self._make_room(len(line))
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line)
            self._lines, self._is_cut = self._lines + 1, False
        self._looks = 0

    def _make_room(self, more_bytes: int) -> None:
        """Take each second line away until there is room."""
        size = self._path.stat().st_size if self._lines else 0
        if self._lines < self._full_lines and size + more_bytes <= _FULL_BYTES:
            return
        with self._path.open("rb") as file:
            lines = file.readlines()
        while len(lines) > 1 and (len(lines) >= self._full_lines or sum(map(len, lines)) + more_bytes > _FULL_BYTES):
            lines = lines[::2]
            self._every *= 2
        part = self._path.with_name(f"{self._path.name}.part")
        part.write_bytes(b"".join(lines))
        part.replace(self._path)
        self._lines = len(lines)


def read_history(path: Path, num_tasks: int) -> list[Moment]:
    """All moments in order; none where there is no file. A line that is damaged, or of other tasks, is left out."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [found for line in lines if (found := _read_line(line, num_tasks)) is not None]


def _read_line(line: str, num_tasks: int) -> Moment | None:
    try:
        found = json.loads(line, parse_constant=_refuse)
        lists = [found[key] for key in (*_COUNTS, "bytes_sent")]
        lists += [found[key] for key in ("gain_points", "effect", "noise") if key in found]
        numbers = [found["seconds"], found["rounds"], found.get("every", 1)]
        numbers += [one for its in lists for one in its if one is not None]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    whole = all(isinstance(its, list) and len(its) == num_tasks for its in lists)
    return found if whole and all(type(one) in (int, float) for one in numbers) else None


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no number of JSON")


def thinned(moments: list[Moment], most: int) -> list[Moment]:
    """At most so many, about as many rounds apart, the last one among them."""
    if len(moments) <= most:
        return moments
    step = (moments[-1]["rounds"] - moments[0]["rounds"]) / (most - 1)
    kept: list[Moment] = []
    for one in moments[:-1]:
        if not kept or one["rounds"] >= kept[-1]["rounds"] + step:
            kept.append(one)
    return [*kept[: most - 1], moments[-1]]
