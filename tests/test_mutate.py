"""The faults of mutation testing: each is one, and at the place that it names."""

from __future__ import annotations

import ast
from pathlib import Path

import mutate

SOURCE = '''"""A module."""
LIMIT = 3

def f(x: int) -> bool:
    """Of x."""
    if not x > LIMIT and x != 7:
        g.y = max(x, 2)
        g.h(x)
    return True
'''


def test_each_place_gives_a_fault_that_is_python() -> None:
    found = {(mutant.line, mutant.what): mutant.source(SOURCE) for mutant in mutate.mutants_of(Path("m.py"), SOURCE)}
    sound = ast.unparse(ast.parse(SOURCE))
    assert len(set(found.values()) - {sound}) == len(found) == 11
    assert found[2, "`3` changed"].startswith('"""A module."""\nLIMIT = 4')
    assert "x > LIMIT and x != 7" in found[6, "`not x > LIMIT` turned round"]
    assert "not x >= LIMIT" in found[6, "`x > LIMIT` turned round"]
    assert "g.h(x)" not in found[8, "`g.h(x)` left out"]
    assert "min(x, 2)" in found[7, "`max(x, 2)` turned round"]


def test_what_no_test_could_notice_gets_no_fault() -> None:
    text = """
@dataclass(frozen=True)
class C:
    n: Literal[1] = 2

def f(x: int = 3) -> None:
    assert x > 4
    x.flags.writeable = False
    zip(x, x, strict=True)
    Log(1.0, 5.0)
"""
    assert [mutant.what for mutant in mutate.mutants_of(Path("m.py"), text)] == [
        "`zip(x, x, strict=True)` left out",
        "`Log(1.0, 5.0)` left out",
        "`2` changed",
        "`3` changed",
    ]


def test_a_fault_knows_the_lines_that_run_it() -> None:
    found = {mutant.what: (mutant.first, mutant.last) for mutant in mutate.mutants_of(Path("m.py"), SOURCE)}
    assert found["`3` changed"] == (0, 0)  # at import
    assert found["`x > LIMIT` turned round"] == (6, 6)
    assert found["`g.h(x)` left out"] == (8, 8)


def test_those_that_are_equivalent_are_there() -> None:
    known = set(mutate.equivalent())
    for path in {Path(path) for path, _, _ in known}:
        text = (mutate.ROOT / path).read_text(encoding="utf-8")
        known -= {mutate.key(mutant) for mutant in mutate.mutants_of(path, text)}
    assert not known


def test_the_same_seed_draws_the_same() -> None:
    drawn = mutate.draw(["learning"], 20, 1)
    assert drawn == mutate.draw(["learning"], 20, 1) != mutate.draw(["learning"], 20, 2)
    assert {mutant.path.parts[1] for mutant in drawn} == {"learning"}
