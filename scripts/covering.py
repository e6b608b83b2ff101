"""Which test executes which line, and chosen tests in a fork, for `scripts/mutate.py`."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import hypothesis
import pytest
from coverage import Coverage

PACKAGES = ("protocol", "learning", "storage", "algorithms")
_TESTS = (
    *(f"tests/{name}" for name in (*PACKAGES, "results", "test_paper.py", "test_liars.py", "node/test_sources.py")),
    *(f"tests/simulation/test_{name}.py" for name in ("simulator", "policies", "live_streams")),
)
_MARKS = "not process and not network and not docker and not slurm and not large and not campaign"
_IMPORTED_FIRST = ["click", "coverage", "hypothesis", "msgpack", "numpy", "pytest", "rich.console", "yaml", "zmq"]
"""Once, by the process of which the others are forks."""


class _Plugin:
    """Of pytest: these tests in this order; without any all, and of each that passes what it takes and executes."""

    def __init__(self, folder: Path, chosen: Sequence[str]) -> None:
        os.environ["COVERAGE_CORE"] = "ctrace"  # the one that knows which test it is in
        measured = [str(folder / "drom_net" / package / "*") for package in PACKAGES]
        self.folder, self.chosen = folder, chosen
        self.coverage = None if chosen else Coverage(data_file=None, config_file=False, include=measured)
        self.tests: dict[str, dict[str, Any]] = {}
        self.slow: set[str] = set()
        if self.coverage:
            self.coverage.start()

    def pytest_sessionstart(self) -> None:
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)  # none is made smaller
        same_each_time = hypothesis.settings(derandomize=True, database=None, phases=phases)
        hypothesis.settings.register_profile("mutants", same_each_time)
        hypothesis.settings.load_profile("mutants")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        self.slow = {item.nodeid for item in items if item.get_closest_marker("slow")}
        if self.chosen:
            found = {item.nodeid: item for item in items}
            items[:] = [found[test] for test in self.chosen if test in found]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if self.coverage:
            self.coverage.switch_context(nodeid)
        self.tests[nodeid] = {"seconds": -time.process_time(), "lines": {}, "slow": nodeid in self.slow}

    def pytest_runtest_logreport(self, report: Any) -> None:
        if not report.passed:
            self.tests[report.nodeid]["seconds"] = math.inf

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.tests[nodeid]["seconds"] += time.process_time()

    def result(self) -> dict[str, Any]:
        assert self.coverage is not None
        self.coverage.stop()
        data = self.coverage.get_data()
        for file in data.measured_files():
            for line, tests in data.contexts_by_lineno(file).items():
                for test in filter(None, tests):
                    self.tests[test]["lines"].setdefault(str(Path(file).relative_to(self.folder)), []).append(line)
        return {name: test for name, test in self.tests.items() if test["seconds"] < math.inf}


def _run(folder: Path, seconds: float, tests: Sequence[str], result: Path | None) -> None:
    """These tests, until one fails, or all of these files for a result; ends the process with pytest's exit code."""
    os.chdir(folder)
    os.environ["PYTHONPATH"] = str(folder)
    sys.path.insert(0, str(folder))
    output = os.open("out.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 1))
    plugin = _Plugin(folder, () if result else tests)
    arguments = ["-m", _MARKS, *tests] if result else ["-x", *dict.fromkeys(test.split("::")[0] for test in tests)]
    forked = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # hypothesis is imported already
    code = pytest.main(["-q", "-p", "no:cacheprovider", *forked, *arguments], [plugin])
    if result:
        result.write_text(json.dumps(plugin.result()), encoding="utf-8")
    sys.stdout.flush()
    os._exit(code)


def run(folder: Path, seconds: float, tests: Sequence[str], result: Path | None = None) -> int:
    """In a copy of the checkout, in a fork: pytest's exit code; not 0 where it takes so many seconds of a processor."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED_FIRST)
    process = context.Process(target=_run, args=(folder, seconds, tests, result))
    process.start()
    process.join(20 * seconds)  # it may wait for something that does not come
    process.kill()
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def measure(copied: Path, kept: Path) -> dict[str, dict[str, Any]]:
    """By test "seconds" of a processor, "lines" by path, and whether it is marked "slow"; of tests that pass.

    What is kept of an earlier time is used; test files that are newer run again, and all after a change of the code.
    """
    before = kept.stat().st_mtime if kept.exists() else 0.0
    code = [path for name in PACKAGES for path in (copied / "drom_net" / name).rglob("*.py")]
    as_before = before and all(path.stat().st_mtime <= before for path in code)
    known: dict[str, dict[str, Any]] = json.loads(kept.read_text(encoding="utf-8")) if as_before else {}
    paths = [path for name in _TESTS for path in [copied / name, *(copied / name).rglob("test_*.py")] if path.is_file()]
    files = {str(path.relative_to(copied)): path.stat().st_mtime for path in paths}
    there = {test.split("::")[0] for test in known}
    if stale := [name for name, changed in files.items() if name not in there or changed > before]:
        result = copied / "measured.json"
        ended = run(copied, 3600.0, stale, result)
        if not result.exists():
            raise click.ClickException(f"the tests ended with {ended}:\n" + (copied / "out.txt").read_text()[-2000:])
        kept_files = files.keys() - set(stale)
        known = {name: test for name, test in known.items() if name.split("::")[0] in kept_files}
        known |= json.loads(result.read_text(encoding="utf-8"))
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(known), encoding="utf-8")
    return known
