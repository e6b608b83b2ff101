"""The report that ends a run, for the commands that have one."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from drom_net.core.errors import DromNetError, StoppedError, UsageError


def write_report(run_dir: Path, page: Path, *, as_json: bool) -> None:
    """Write a run's report."""
    _announce(page, as_json=as_json)
    from drom_net.reporting.page import write_report

    write_report(run_dir, page)


def _announce(page: Path, *, as_json: bool) -> None:
    """A line of progress: drawing takes seconds."""
    from drom_net.cli.telling import is_structured, tell

    text = f"writing {page}"
    tell(json.dumps({"message": text}) if as_json and not is_structured() else text, "progress", level="info")


def require_report(run_dirs: Sequence[Path], path: str) -> Path:
    """Where the report of these runs goes.

    Args:
        path: Empty for report.html in the run directory.

    Raises:
        UsageError: There are several, it is no name of a page, it cannot be written, or matplotlib is missing.
    """
    from drom_net.plots.base import check_plot_file
    from drom_net.results.run_directory import REPORT

    if len(run_dirs) > 1:
        raise UsageError(f"--report is of one run, got {len(run_dirs)}")
    page = Path(path) if path else run_dirs[0] / REPORT
    if page.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"--report: expected a name that ends in .html, got {path}; RUN_DIR goes before --report")
    if not (run_dirs[0] / "summary.json").exists():
        return page  # which is told as every command does
    check_plot_file(page.with_suffix(".png"))
    return page


@contextlib.contextmanager
def report_at_end(out: Path, *, wanted: bool, quiet: bool, as_json: bool) -> Iterator[list[Path]]:
    """Write the report into a run directory when its run has ended, also where that was by an error of a node.

    Args:
        quiet, as_json: How progress is told: not at all, or as an object.

    Yields:
        What the page's path is added to in the end; it stays empty where there is none.
    """
    from drom_net.cli.telling import tell
    from drom_net.results.run_directory import REPORT

    def announce() -> None:
        if not quiet:
            _announce(out / REPORT, as_json=as_json)

    pages: list[Path] = []
    try:
        yield pages
    except DromNetError as error:
        if wanted and not isinstance(error, UsageError | StoppedError) and (out / "config.yaml").exists():
            announce()
            for page in _written(out, str(error)):
                tell(f"report {page}", "reported")
        raise
    if wanted:
        announce()
        pages += _written(out)


def _written(out: Path, error: str = "") -> list[Path]:
    """The page; none where it cannot be drawn or written, which is said."""
    from drom_net.cli.telling import tell
    from drom_net.reporting.page import write_report

    try:
        return [write_report(out, error=error)]
    except Exception as problem:  # whatever it is, the run itself has ended as it has
        tell(f"warning: there is no report: {problem}", "warned")
        return []
