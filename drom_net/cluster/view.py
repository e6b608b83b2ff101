"""What a run of processes shows of itself while it lasts."""

from __future__ import annotations

import math
import time
from typing import Any

from drom_net.cluster.local import Interruption
from drom_net.cluster.progress import Progress
from drom_net.learning.metrics import Totals
from drom_net.node.metrics_page import MetricsPage
from drom_net.node.reports import Counts, JsonLog
from drom_net.node.spec import NodeSpec

_SAYINGS, _SAYINGS_EVERY_S = 20, 10.0
"""So many lines of nodes are told in so many seconds."""


class View:
    """The nodes' reports put together: the state of the whole cluster."""

    def __init__(
        self,
        progress: Progress,
        num_tasks: int,
        interruption: Interruption,
        *,
        log: JsonLog | None = None,
        page: MetricsPage | None = None,
    ) -> None:
        """
        Args:
            log: Where the nodes' lines and the launcher's own go, where the log is structured.
            page: Where the nodes' counts are shown.
        """
        self._progress = progress
        self._log = log
        self._page = page
        self._counts: dict[str, Counts] = {}
        if page is not None and log is not None:
            log.note(f"metrics at {page.url}", "metrics_served", url=page.url)
        elif page is not None:
            progress.say(f"metrics at {page.url}")
        self._interruption = interruption
        self._said, self._quiet_until = 0, -math.inf
        self._totals = [Totals() for _ in range(num_tasks)]
        self._rounds = [0] * num_tasks
        self._sigma: float | None = None

    def on_line(self, spec: NodeSpec, line: dict[str, Any]) -> None:
        if "totals" in line:
            self._totals[spec.task] = Totals(*line["totals"])
            self._rounds[spec.task] = line["round"]
        elif "sigma_1" in line:
            self._sigma = line["sigma_1"]
        elif "counts" in line:
            self._counts[spec.node] |= line["counts"]
        elif "log" in line and self._log is not None:
            self._log.pass_on(line["log"])
        elif "say" in line and not self._interruption.exit_code:
            self._say(f"{spec.name}: {line['say']}")

    def on_change(self, spec: NodeSpec, event: str, value: int) -> None:
        started = event != "node_ended"
        self._counts.setdefault(spec.node, {})["drom_net_node_up"] = started
        if self._log is not None and started:
            self._log.note(f"{spec.name} was started as process {value}", event, name=spec.name, pid=value)
        elif self._log is not None:
            self._log.note(f"{spec.name} ended with exit code {value}", event, name=spec.name, exit_code=value)

    def _say(self, text: str) -> None:
        """Of many nodes in the same trouble the first ones tell enough."""
        now = time.monotonic()
        if now >= self._quiet_until:
            self._quiet_until, self._said = now + _SAYINGS_EVERY_S, 0
        self._said += 1
        if self._said <= _SAYINGS:
            self._progress.say(text)
        elif self._said == _SAYINGS + 1:
            self._progress.say(f"more such lines are left out for {_SAYINGS_EVERY_S:g} s (--log-format json has all)")

    def show(self) -> None:
        if self._page is not None:
            self._page.counts = {name: dict(counts) for name, counts in self._counts.items()}
        self._progress.update(max(self._rounds), lambda: self._totals, self._sigma)
