"""What the open pages of `watch --web` show: how the run is, how it was, and what is new since the last look."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from drom_net.cluster.record import EDGES_TOLD
from drom_net.reporting.watching import WORTH, Seen, kind_of, round_of, state_in_words
from drom_net.results.evidence import CODES
from drom_net.results.history import Moment, moment_of, most_moments, thinned
from drom_net.results.relatedness import Related
from drom_net.results.verdict import effect_in_words

_ALIVE_S = 15.0
"""After how long without news a line says that the connection is there."""
NOTHING = "Nothing: no node was killed, and nobody waited long."
UNKNOWN = "Not known: nodes that were started by hand tell it in their own logs."
"""What stands in place of events where there are none."""
_HEAD = (
    *("name", "algorithm", "driver", "rounds", "rounds_limit", "error_rate", "majority_error_rate"),
    *("what_leaves", "verdict"),
)


class Feed:
    """One thread writes it, those of the pages read it.

    A page gets all of it once, then what each look has brought: numbers of every site (about 40 bytes each), what the
    evidence says, and what those do that do not just learn.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.version = 0
        self._now: dict[str, Any] = {"head": {"status": "waiting"}, "moment": None, "states": {}, "events": []}
        self._roster = _roster({}, [])
        self._moments: list[Moment] = []
        self._news, self._whole_since = "", 0

    def begin(self, moments: Sequence[Moment], num_tasks: int) -> None:
        """What was before the first look."""
        self._moments = thinned(list(moments), most_moments(num_tasks))

    def put(self, seen: Seen, events: Sequence[Mapping[str, Any]] = (), *, alike: Related | None = None) -> None:
        """What a look has found.

        Args:
            alike: Which sites are alike, where that is known anew.
        """
        state = seen.state
        tasks = state.get("tasks", ())
        roster = _roster(state, tasks)
        now: dict[str, Any] = {"head": _head(seen), "states": _states(tasks), "moment": _moment(state, tasks)}
        now["reducer"] = [kind_of(state["reducer"]), state_in_words(state["reducer"])] if state.get("reducer") else None
        told = [{"time": event.get("time"), "text": event["text"]} for event in events]
        with self.changed:
            news: dict[str, Any] = now | {"kept": self._add(moment_of(state) if tasks else None, len(tasks))}
            if told != self._now["events"]:
                news["events"] = told
            if alike is not None:
                news["alike"] = now["alike"] = _alike(alike)
            self._now |= now | {"events": told}
            self.version += 1
            if roster != self._roster:
                self._roster, self._whole_since = roster, self.version
            self._news = json.dumps(news, separators=(",", ":"))
            self.changed.notify_all()

    def wait(self, version: int) -> tuple[int, str | None]:
        """(version, as JSON what is new since a version; all where that was not the last one, as 0 never is) once
        there is something; None where nothing came for a while."""
        with self.changed:
            if not self.changed.wait_for(lambda: self.version > version, _ALIVE_S):
                return version, None
            if version == self.version - 1 and version > 0 and self._whole_since < self.version:
                return self.version, self._news
            whole = self._now | {"roster": self._roster, "moments": self._moments}
            return self.version, json.dumps(whole, separators=(",", ":"))

    def _add(self, moment: Moment | None, num_tasks: int) -> bool:
        """Whether the moment before it stays beside it; a page does the same with its own."""
        if moment is None:
            return False
        most, rounds = most_moments(num_tasks), [its["rounds"] for its in self._moments]
        kept = len(rounds) < 2 or rounds[-1] > rounds[-2] + (rounds[-1] - rounds[0]) / most
        if not kept:
            self._moments.pop()
        self._moments.append(moment)
        if len(self._moments) > most:
            self._moments = thinned(self._moments, most // 2)
        return kept


def _head(seen: Seen) -> dict[str, Any]:
    state = seen.state
    found = {"status": seen.status, "error": ". ".join(filter(None, (state.get("error"), seen.note)))}
    found["nothing"] = NOTHING if seen.events_known else UNKNOWN
    return found | {key: state.get(key) for key in _HEAD}


def _roster(state: Mapping[str, Any], tasks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What stays as it is while a run lasts. `edges` is a list, None of a star, or a number where there are too many to
    draw."""
    edges = state.get("edges")
    if edges is None and len(tasks) > EDGES_TOLD:
        edges = len(tasks)
    roster = {"names": [task["name"] for task in tasks], "edges": edges, "most": most_moments(len(tasks))}
    return roster | {"effects": {code: effect for effect, code in CODES.items()}, "worth": WORTH}


def _moment(state: Mapping[str, Any], tasks: Sequence[Mapping[str, Any]]) -> Moment | None:
    """As `moment_of`, with what only the table has: rounds, and what the evidence says."""
    if not tasks:
        return None
    found = moment_of(state) | {"round": list(map(round_of, tasks))}
    if "effect" in found:
        found["told"] = [effect_in_words(task.get("sharing")) for task in tasks]
    return found


def _states(tasks: Sequence[Mapping[str, Any]]) -> dict[int, list[str]]:
    """By task (kind, words) of those that do not just learn."""
    found = {place: [kind_of(task), state_in_words(task)] for place, task in enumerate(tasks)}
    return {place: its for place, its in found.items() if its != ["learning", "learning"]}


def _alike(found: Related) -> dict[str, Any]:
    rows = [[round(float(value), 2) for value in row] for row in found.similarity]
    return {"names": list(found.names), "cosines": rows, "told": found.told, "shown": found.shown}
