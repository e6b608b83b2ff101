"""Mutation testing: small faults are put into the code one at a time, and the tests must notice.

    python scripts/mutate.py                    300 mutants of protocol, learning, storage and algorithms
    python scripts/mutate.py --only protocol --count 40 --jobs 2
    python scripts/mutate.py --list             those that would be tried
    python scripts/mutate.py --fast             with the tests of `scripts/test --fast` alone
    python scripts/mutate.py --coverage build/lines.json --match worker.py:372    one again, after a new test

First the tests run once under coverage: which lines does each execute, and for how long? Then each mutant is tried on a
copy of the checkout with the tests that execute its line, the quickest first; one in code that runs at import (a
constant, a default) with those that execute anything in its file, or where none does, with those of its package, and
with the one that compares defaults and docs. A test that fails has noticed it; so has one that takes too long.

A mutant that no test notices is listed with its line, but for those that `scripts/equivalent_mutants.toml` names with
the reason. Ends with 1 where fewer than 90 % of the others are noticed. The same seed draws the same mutants of the
same code.
"""

from __future__ import annotations

import ast
import random
import re
import shutil
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import click
from covering import PACKAGES, measure, run

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("drom_net", "tests", "scripts", "configs", "reproduction", "docs", "pyproject.toml")
TABLES = "tests/test_config.py::test_the_stored_schema_and_the_tables_are_in_step"
"""Tried with all that runs at import: the docs say each default."""
MOST_S = 30.0
"""Of processor time: no more tests than take so long together."""

_SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult,
}  # fmt: skip
_CALLS = {"min": "max", "max": "min", "all": "any", "any": "all"}
_PASSED_OVER: tuple[Callable[[ast.AST], Any], ...] = (
    lambda node: isinstance(node, ast.arg | ast.AnnAssign) and node.annotation,
    lambda node: isinstance(node, ast.FunctionDef) and node.returns,
    # zip's check, what a dataclass forbids, how many results are kept, copies that are not needed, a warning's place
    lambda node: (
        isinstance(node, ast.keyword)
        and node.arg in ("strict", "frozen", "slots", "kw_only", "repr", "maxsize", "copy", "stacklevel")
        and node.value
    ),
    lambda node: isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).endswith(".flags.writeable") and node,
    lambda node: isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".setflags") and node,
    lambda node: isinstance(node, ast.Assert) and node,
    # what a comparison draws from: nothing says that it is no more, or less
    lambda node: isinstance(node, ast.Call) and ast.unparse(node.func) in ("Log", "Even", "OneOf") and node,
)
"""What of a node no fault is put into: it could not be noticed, or says nothing."""


@dataclass(frozen=True)
class Mutant:
    """One fault: which node of a file's tree, in the order of `ast.walk`, and what becomes of it."""

    path: Path
    node: int
    line: int
    what: str
    first: int
    last: int
    """The lines of its statement; (0, 0) where that runs at import, or once for all tests."""

    def __str__(self) -> str:
        return f"{self.path.as_posix()}:{self.line}: {self.what}"

    def source(self, text: str) -> str:
        """The file with the fault in it."""
        tree = ast.parse(text)
        change = _change(tree, list(ast.walk(tree))[self.node])
        assert change is not None
        change()
        return ast.unparse(ast.fix_missing_locations(tree))


def mutants_of(path: Path, text: str) -> Iterator[Mutant]:
    """All of a file, one for each place."""
    tree = ast.parse(text)
    spans: dict[int, tuple[int, int]] = {}
    passed_over: set[int] = set()
    for outer in ast.walk(tree):
        passed_over |= {id(inner) for rule in _PASSED_OVER if (found := rule(outer)) for inner in ast.walk(found)}
        once = any("cache" in ast.unparse(decorator) for decorator in getattr(outer, "decorator_list", ()))
        for statement in outer.body if isinstance(outer, ast.FunctionDef) and not once else ():
            for inner in ast.walk(statement):
                if isinstance(inner, ast.stmt):  # an inner one comes later
                    body = getattr(inner, "body", None)
                    last = max(inner.lineno, body[0].lineno - 1) if body else inner.end_lineno or inner.lineno
                    spans |= {id(node): (inner.lineno, last) for node in ast.walk(inner)}
    seen: Counter[tuple[int, str]] = Counter()
    for number, node in enumerate(ast.walk(tree)):
        if isinstance(node, ast.expr | ast.stmt) and id(node) not in passed_over and _change(tree, node) is not None:
            what = _in_words(node)
            seen[node.lineno, what] += 1
            if (place := seen[node.lineno, what]) > 1:  # of several alike in a line
                what += f" ({place})"
            yield Mutant(path, number, node.lineno, what, *spans.get(id(node), (0, 0)))


def _change(tree: ast.AST, node: ast.AST) -> Callable[[], None] | None:
    """What makes a fault of this node, in place; None where there is none."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _SWAPPED:
        return lambda: node.ops.__setitem__(0, _SWAPPED[type(node.ops[0])]())  # type: ignore[call-overload]
    if isinstance(node, ast.BoolOp | ast.BinOp | ast.AugAssign) and type(node.op) in _SWAPPED:
        return lambda: setattr(node, "op", _SWAPPED[type(node.op)]())
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return lambda: _replace(tree, node, node.operand)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS:
        return lambda: setattr(node.func, "id", _CALLS[node.func.id])  # type: ignore[attr-defined]
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        return lambda: setattr(node, "value", not node.value)
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return lambda: setattr(node, "value", node.value + 1)  # type: ignore[operator]
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return lambda: _replace(tree, node, ast.Pass())
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
        return lambda: _replace(tree, node, ast.Pass())
    return None


def _replace(tree: ast.AST, old: ast.AST, new: ast.AST) -> None:
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, name, new)
            elif isinstance(value, list) and any(item is old for item in value):
                value[:] = [new if item is old else item for item in value]


def _in_words(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    kind = {ast.Expr: "left out", ast.Assign: "left out", ast.Constant: "changed"}.get(type(node), "turned round")
    return f"`{text[:90]}` {kind}"


def draw(packages: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """So many of these packages, each place as likely."""
    found = []
    for package in packages:
        for path in sorted((ROOT / "drom_net" / package).rglob("*.py")):
            found += mutants_of(path.relative_to(ROOT), path.read_text(encoding="utf-8"))
    return random.Random(seed).sample(found, min(count, len(found)))


def equivalent() -> dict[tuple[str, str, str], str]:
    """By path, text of the line and what becomes of it: why no test can notice."""
    table = tomllib.loads((ROOT / "scripts" / "equivalent_mutants.toml").read_text(encoding="utf-8"))
    return {(one["path"], one["line"], one["what"]): one["why"] for one in table["mutant"]}


def key(mutant: Mutant) -> tuple[str, str, str]:
    """What `equivalent` knows it by: its line may move."""
    line = (ROOT / mutant.path).read_text(encoding="utf-8").splitlines()[mutant.line - 1]
    return mutant.path.as_posix(), line.strip(), mutant.what


def tests_for(mutant: Mutant, tests: dict[str, dict[str, Any]]) -> list[str]:
    """Those that execute its line, the quickest first, up to `MOST_S` together."""
    path, lines = mutant.path.as_posix(), set(range(mutant.first, mutant.last + 1))
    found = [name for name, test in tests.items() if lines.intersection(test["lines"].get(path, ()))]
    if not found:  # it runs at import
        own = f"tests/{mutant.path.parts[1]}/"
        found = [name for name, test in tests.items() if path in test["lines"] or name == TABLES]
        if set(found) <= {TABLES}:
            found += [name for name in tests if name.startswith(own)]
    chosen, took = [], 0.0
    for name in sorted(found, key=lambda name: float(tests[name]["seconds"])):
        took += tests[name]["seconds"]
        if took <= MOST_S:
            chosen.append(name)
    return chosen


def judge(mutant: Mutant, copied: Path, tests: Sequence[str]) -> bool:
    """Whether one of these tests notices it, in this copy of the checkout, which is as before afterwards.

    The file with most of them goes first: it is often enough, and to collect tests takes time, too.
    """
    if not tests:
        return False
    place = copied / mutant.path
    original = place.read_text(encoding="utf-8")
    place.write_text(mutant.source(original), encoding="utf-8")
    compiled = Path(cache_from_source(str(place)))
    compiled.unlink(missing_ok=True)
    files = [test.split("::")[0] for test in tests]
    first = max(files, key=files.count)
    parts = [[test for test, file in zip(tests, files, strict=True) if (file == first) is now] for now in (True, False)]
    try:
        codes = (run(copied, 2 * MOST_S, part) for part in parts if part)
        return any(code not in (0, 4, 5) for code in codes)  # 4 and 5: there is none
    finally:
        place.write_text(original, encoding="utf-8")
        compiled.unlink(missing_ok=True)


@click.command()
@click.option("--only", type=click.Choice(PACKAGES), multiple=True, help="Of this package; by default of all.")
@click.option("--count", type=click.IntRange(1), default=300, show_default=True, help="How many mutants.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="What they are drawn from.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="How many at a time.")
@click.option("--list", "only_list", is_flag=True, help="Show them, and try none.")
@click.option("--match", default="", help="Of those drawn only these: a part of what is shown of one.")
@click.option("--fast", is_flag=True, help="With the tests of `scripts/test --fast` alone.")
@click.option("--coverage", "kept", type=click.Path(path_type=Path), help="Keep there which test executes what.")
def main(
    only: tuple[str, ...], count: int, seed: int, jobs: int, only_list: bool, match: str, fast: bool, kept: Path | None
) -> None:
    """Put small faults into the code, and see whether the tests notice."""
    mutants = [mutant for mutant in draw(only or PACKAGES, count, seed) if match in str(mutant)]
    if only_list:
        click.echo("\n".join(map(str, mutants)))
        return
    known = equivalent()
    tried = [mutant for mutant in mutants if key(mutant) not in known]
    for mutant in mutants:
        if key(mutant) in known:
            click.echo(f"equivalent  {mutant}: {known[key(mutant)]}")
    copies: SimpleQueue[Path] = SimpleQueue()
    survivors = []
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="drom-mutants-") as folder, ThreadPoolExecutor(jobs) as pool:
        for number in range(jobs):
            copied = Path(folder).resolve() / str(number)
            for name in COPIED:
                if (ROOT / name).is_dir():
                    shutil.copytree(ROOT / name, copied / name, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy2(ROOT / name, copied / name)
            copies.put(copied)
        tests = measure(copied, kept or Path(folder) / "measured.json")
        tests[TABLES] = {"seconds": 0.0, "lines": {}, "slow": False}
        click.echo(f"{len(tests)} tests measured in {time.monotonic() - started:.0f} s")
        if fast:
            of_fast = tuple(re.findall(r"tests/[\w/.]+", (ROOT / "scripts" / "test").read_text(encoding="utf-8")))
            tests = {name: test for name, test in tests.items() if name.startswith(of_fast) and not test["slow"]}

        sound = tests_for(tried[0], tests) if tried else []
        if sound and run(copied, 2 * MOST_S, sound) != 0:
            raise click.ClickException("tests fail without a fault:\n" + (copied / "out.txt").read_text()[-2000:])

        def one(mutant: Mutant) -> bool:
            copied = copies.get()
            try:
                return judge(mutant, copied, tests_for(mutant, tests))
            finally:
                copies.put(copied)

        for number, (mutant, noticed) in enumerate(zip(tried, pool.map(one, tried), strict=True), 1):
            if not noticed:
                survivors.append(mutant)
            click.echo(f"{number}/{len(tried)}  {'noticed ' if noticed else 'SURVIVED'}  {mutant}")
    share = 1.0 - len(survivors) / max(1, len(tried))
    of = f"{len(tried)} mutants (and {len(mutants) - len(tried)} equivalent ones)"
    click.echo(f"{of}, {100 * share:.0f} % noticed, {time.monotonic() - started:.0f} s")
    for mutant in survivors:
        click.echo(f"survived: {mutant}")
    sys.exit(share < 0.9)


if __name__ == "__main__":
    main()
