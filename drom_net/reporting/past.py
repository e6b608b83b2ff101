"""What was before a page of `watch --web` was opened, and which sites' models are alike by now."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import numpy as np

from drom_net.cluster.looking import models_kept, who_talks
from drom_net.config.load import load_config
from drom_net.core.errors import DromNetError
from drom_net.learning.metrics import majority_wrong
from drom_net.learning.records import LEARNED
from drom_net.reporting.watching import Seen
from drom_net.results.history import Moment, most_moments, read_history
from drom_net.results.model_file import load_model
from drom_net.results.outcomes import Rows
from drom_net.results.relatedness import Related, related, spread_over
from drom_net.results.run_directory import HISTORY
from drom_net.results.tables import read_records

_FEW, _RECORDS_BYTES = 20, 50_000_000
"""With fewer moments in its history, a run that has ended is told from its records, unless they are too large for a
quick look."""
_MODELS_EVERY_S, _SHARE = 15.0, 0.005
"""Models are read so often, or more rarely, so that it takes at most this share of a processor's time."""


def moments_of(run_dir: Path, seen: Seen) -> list[Moment]:
    """What is known of the run before this look: its history, or of a short run its records."""
    names = [task["name"] for task in seen.state.get("tasks", ())]
    found = read_history(run_dir / HISTORY, len(names))
    if seen.is_over and len(found) < _FEW:
        files = [path for path in run_dir.glob("records.*") if path.stat().st_size <= _RECORDS_BYTES]
        if not files:
            return found
        try:
            rows, _, _ = read_records(run_dir, names)
        except (DromNetError, OSError):
            return found
        return moments_of_records(rows) or found
    return found


def with_graph(run_dir: Path, seen: Seen) -> Seen:
    """The same with who talks to whom, which a summary does not say."""
    state = seen.state
    if not state or "edges" in state:
        return seen
    try:
        config = load_config(run_dir / "config.yaml")
        return dataclasses.replace(seen, state={**state} | who_talks(config, [task["name"] for task in state["tasks"]]))
    except DromNetError:
        return seen


def moments_of_records(rows: list[Rows]) -> list[Moment]:
    """What records say: all but the evidence and the bytes.

    Args:
        rows: Of each task.
    """
    learned = [its[its["active"] == LEARNED] for its in rows]
    last = max((int(its["round"][-1]) for its in learned if len(its)), default=0)
    rounds = np.unique(np.linspace(1, last, min(last, most_moments(len(rows)))).round().astype(int))
    columns: dict[str, list[list[int]]] = {"examples": [], "errors": [], "majority_errors": []}
    for its in learned:
        clean = its["clean_label"]
        until = np.searchsorted(its["round"], rounds, side="right")
        for name, wrong in (
            ("examples", np.ones(len(its), dtype=bool)),
            ("errors", (its["score"] >= 0.0) != (clean > 0.0)),
            ("majority_errors", majority_wrong(its["label"], clean)),
        ):
            sums = np.concatenate([[0], np.cumsum(wrong, dtype=np.int64)])
            columns[name].append(sums[until].tolist())
    nothing = [None] * len(rows)
    return [
        {"seconds": 0.0, "rounds": t, "bytes_sent": nothing}
        | {name: [its[place] for its in sums] for name, sums in columns.items()}
        for place, t in enumerate(rounds.tolist())
    ]


class Alike:
    """Looks from time to time which sites' models are alike."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._due = 0.0

    def look(self, seen: Seen) -> Related | None:
        """What is found anew; None where it is not time for it, or nothing can be said."""
        if not seen.state or (time.monotonic() < self._due and not seen.is_over):
            return None
        begun = time.process_time()
        try:
            return self._found(seen)
        except (DromNetError, OSError, LookupError, TypeError, ValueError, AttributeError):
            return None  # no models yet, or damaged ones: the page says that there are none
        finally:
            used = time.process_time() - begun
            self._due = time.monotonic() + max(_MODELS_EVERY_S, used / _SHARE)

    def _found(self, seen: Seen) -> Related | None:
        names = [task["name"] for task in seen.state["tasks"]]
        if seen.is_over and (self._run_dir / "model.npz").exists():
            models = np.asarray(load_model(self._run_dir)["W"], dtype=np.float64)
            return related(names, models) if np.isfinite(models).all() else None
        places = spread_over(len(names))
        kept = models_kept(self._run_dir, names, places)
        return None if kept is None else related([names[place] for place in places], kept, len(names))
