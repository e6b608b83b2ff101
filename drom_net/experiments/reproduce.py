"""The figures and tables of the paper that can be made again, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from drom_net.errors import UsageError, did_you_mean
from drom_net.experiments.figures import Options, figure_3, figure_4
from drom_net.experiments.pages import write_report
from drom_net.experiments.report import Report

REPRODUCTIONS: dict[str, tuple[str, Callable[[Options], Report]]] = {
    "figure-3": ("error and F1 against rounds, for every learner", figure_3),
    "figure-4": ("accuracy against 0 to 25 % flipped labels", figure_4),
}
"""Name -> (what it is, in one line; what makes it)."""
ALL = "all"


def check_names(names: Sequence[str]) -> tuple[str, ...]:
    """Those that are meant, each once, in the order of `REPRODUCTIONS` for ``all``.

    Raises:
        UsageError: There is no such reproduction.
    """
    for name in names:
        if name != ALL and name not in REPRODUCTIONS:
            hint = did_you_mean(name, [ALL, *REPRODUCTIONS])
            known = ", ".join([ALL, *REPRODUCTIONS])
            raise UsageError(f'expected one of {known}; got "{name}"' + (f"; {hint}" if hint else ""))
    return tuple(REPRODUCTIONS) if ALL in names else tuple(dict.fromkeys(names))


def reproduce(name: str, options: Options, out: Path) -> Report:
    """Make one again, and write it into its folder of `out`."""
    report = REPRODUCTIONS[name][1](options)
    write_report(report, out / name)
    write_index(out)
    return report


def write_index(out: Path) -> None:
    """A page that lists what is there."""
    lines = ["# Made again", ""]
    for name, (what, _) in REPRODUCTIONS.items():
        if (out / name / "README.md").exists():
            lines.append(f"- [{name}]({name}/README.md): {what}")
    (out / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
