"""Mutation testing: small faults are put into the code one at a time, and the tests of that package must notice.

    python scripts/mutate.py                    300 mutants of protocol, learning, storage and algorithms
    python scripts/mutate.py --only protocol --count 40 --jobs 2
    python scripts/mutate.py --list             those that would be tried

Each mutant is tried on a copy of the checkout: first on the quick tests of its package, and what survives those on all
that concern it. A mutant that no test notices is listed with its line; ends with 1 where fewer than 90 % are noticed.
The same seed draws the same mutants of the same code.
"""

from __future__ import annotations

import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import click

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("drom_net", "tests", "scripts", "configs", "reproduction", "docs", "pyproject.toml")
QUICK_S, ALL_S = 120.0, 900.0
"""A mutant that takes longer is noticed, too: it hangs."""
TESTS: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "protocol": (
        [f"tests/protocol/test_{name}.py" for name in ("worker", "reducer", "peer", "policy", "duplicates", "keeping")]
        + ["tests/protocol/test_accident_scripts.py", "tests/protocol/test_states.py", "tests/protocol/test_codec.py"],
        ["tests/protocol", "tests/simulation/test_simulator.py", "tests/simulation/test_policies.py"],
    ),
    "learning": (["tests/learning", "tests/results"], ["tests/protocol/test_star.py", "tests/test_paper.py"]),
    "storage": (["tests/storage"], ["tests/node/test_sources.py", "tests/protocol/test_keeping.py"]),
    "algorithms": (["tests/algorithms"], ["tests/test_paper.py", "tests/test_liars.py", "tests/learning"]),
}
"""(quick, the rest) by package."""

_SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.FloorDiv: ast.Mult,
}  # fmt: skip
_CALLS = {"min": "max", "max": "min", "all": "any", "any": "all"}


@dataclass(frozen=True)
class Mutant:
    """One fault: which node of a file's tree, in the order of `ast.walk`, and what becomes of it."""

    path: Path
    node: int
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path.as_posix()}:{self.line}: {self.what}"

    def source(self) -> str:
        """The file with the fault in it."""
        tree = ast.parse((ROOT / self.path).read_text(encoding="utf-8"))
        change = _change(tree, list(ast.walk(tree))[self.node])
        assert change is not None
        change()
        return ast.unparse(ast.fix_missing_locations(tree))


def mutants_of(path: Path, text: str) -> Iterator[Mutant]:
    """All of a file, one for each place."""
    tree = ast.parse(text)
    annotations = [
        found
        for node in ast.walk(tree)
        if isinstance(found := getattr(node, "annotation", None) or getattr(node, "returns", None), ast.AST)
    ]
    passed_over = {id(inner) for annotation in annotations for inner in ast.walk(annotation)}
    for number, node in enumerate(ast.walk(tree)):
        if isinstance(node, ast.expr | ast.stmt) and id(node) not in passed_over and _change(tree, node) is not None:
            yield Mutant(path, number, node.lineno, _in_words(node))


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


def judge(mutant: Mutant, copied: Path) -> bool:
    """Whether a test notices it, in this copy of the checkout, which is as before afterwards."""
    place = copied / mutant.path
    original = place.read_text(encoding="utf-8")
    place.write_text(mutant.source(), encoding="utf-8")
    try:
        quick, rest = TESTS[mutant.path.parts[1]]
        return not _passes(copied, quick, QUICK_S) or not _passes(copied, rest, ALL_S)
    finally:
        place.write_text(original, encoding="utf-8")


def _passes(copied: Path, tests: Sequence[str], seconds: float) -> bool:
    marks = "not process and not network and not docker and not slurm and not large and not campaign"
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", marks, *tests]
    environment = os.environ | {"PYTHONPATH": str(copied), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=copied, env=environment, capture_output=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


@click.command()
@click.option("--only", type=click.Choice(list(TESTS)), multiple=True, help="Of this package; by default of all.")
@click.option("--count", type=click.IntRange(1), default=300, show_default=True, help="How many mutants.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="What they are drawn from.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="How many at a time.")
@click.option("--list", "only_list", is_flag=True, help="Show them, and try none.")
def main(only: tuple[str, ...], count: int, seed: int, jobs: int, only_list: bool) -> None:
    """Put small faults into the code, and see whether the tests notice."""
    mutants = draw(only or tuple(TESTS), count, seed)
    if only_list:
        click.echo("\n".join(map(str, mutants)))
        return
    copies: SimpleQueue[Path] = SimpleQueue()
    survivors = []
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="drom-mutants-") as folder, ThreadPoolExecutor(jobs) as pool:
        for number in range(jobs):
            copied = Path(folder) / str(number)
            for name in COPIED:
                source = ROOT / name
                if source.is_dir():
                    shutil.copytree(source, copied / name, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(source, copied / name)
            copies.put(copied)

        def one(mutant: Mutant) -> tuple[Mutant, bool]:
            copied = copies.get()
            try:
                return mutant, judge(mutant, copied)
            finally:
                copies.put(copied)

        for tried, (mutant, noticed) in enumerate(pool.map(one, mutants), 1):
            if not noticed:
                survivors.append(mutant)
            click.echo(f"{tried}/{len(mutants)}  {'noticed ' if noticed else 'SURVIVED'}  {mutant}")
    share = 1.0 - len(survivors) / len(mutants)
    click.echo(f"{len(mutants)} mutants, {100 * share:.0f} % noticed, {time.monotonic() - started:.0f} s")
    for mutant in survivors:
        click.echo(f"survived: {mutant}")
    sys.exit(share < 0.9)


if __name__ == "__main__":
    main()
