"""What it costs to be safe: a star with heartbeats and checkpoints beside one without, in one run.

Contestants, all of them drom_net's own node processes over TCP on loopback:

* bare        no heartbeats, no checkpoints, no keys: what the others are compared with
* heartbeat   heartbeats each second
* 1 s         a checkpoint a second (the default)
* 100 rounds  a checkpoint each 100 rounds

Checkpoints go to the folder for temporary files: that it is on a disk and not in memory is up to you (TMPDIR).

    python benchmarks/safety.py                 m = 4, 12 at d = 1458
"""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

from side_by_side import arguments, contest, make_examples, many_rounds, print_head, show
from star import run_product

_NEVER = {"every_s": 1e9, "history_rounds": 1_000_000_000}
_OFTEN: dict[str, Any] = {"every_s": 1.0, "history_rounds": 1_000_000}
_SILENT = {"heartbeat_s": 1e5}
CONTESTANTS: dict[str, dict[str, Any]] = {
    "bare": {"timeouts": _SILENT, "checkpoints": _NEVER},
    "heartbeat": {"timeouts": {"heartbeat_s": 1.0}, "checkpoints": _NEVER},
    "1 s": {"timeouts": _SILENT, "checkpoints": _OFTEN},
    "100 rounds": {"timeouts": _SILENT, "checkpoints": _OFTEN | {"every_rounds": 100}},
}


def main() -> None:
    options = arguments(__doc__, tasks=[4, 12], dims=[1458], passes=5).parse_args()
    results = []
    print_head()
    for dim in options.dims:
        for num_tasks in options.tasks:
            many = many_rounds(num_tasks, dim, options.seconds)
            with tempfile.TemporaryDirectory(prefix="drom-safety-") as name:
                of_star = (make_examples(Path(name), num_tasks, dim, many), num_tasks, dim)
                contestants = {
                    kind: functools.partial(run_product, *of_star, **settings) for kind, settings in CONTESTANTS.items()
                }
                results += contest(contestants, options, num_tasks=num_tasks, dim=dim, many=many)
    show(results, options)


if __name__ == "__main__":
    main()
