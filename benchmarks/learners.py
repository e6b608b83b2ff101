"""How fast a star of processes learns with AdaDROM, beside DROM.

Passes are interleaved over the contestants, as in star.py: `drom`, which sends in every round; `adadrom` with tau 1,
which does so too, with its default of 20, and with 0, where sync rounds grow apart without bound; and `local`, which
sends nothing. Ratios to DROM are what counts: they are taken pass by pass.

    python benchmarks/learners.py               m = 4 at d = 500 and 1458
"""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

from side_by_side import arguments, contest, make_examples, many_rounds, print_head, show
from star import run_product

CONTESTANTS: dict[str, dict[str, Any]] = {
    "drom": {"algorithm": "drom"},
    "adadrom tau 1": {"algorithm": "adadrom", "parameters": {"tau": 1}},
    "adadrom": {"algorithm": "adadrom"},
    "adadrom tau 0": {"algorithm": "adadrom", "parameters": {"tau": 0}},
    "local": {"algorithm": "local"},
}


def main() -> None:
    options = arguments(__doc__, tasks=[4], dims=[500, 1458], passes=5).parse_args()
    results = []
    print_head("drom")
    for dim in options.dims:
        for num_tasks in options.tasks:
            many = many_rounds(num_tasks, dim, options.seconds)
            with tempfile.TemporaryDirectory(prefix="drom-learners-") as name:
                of_star = (make_examples(Path(name), num_tasks, dim, many), num_tasks, dim)
                runs = {label: functools.partial(run_product, *of_star, **what) for label, what in CONTESTANTS.items()}
                results += contest(runs, options, num_tasks=num_tasks, dim=dim, many=many, compared_with="drom")
    show(results, options)


if __name__ == "__main__":
    main()
