"""The faults of mutation testing: each is one, and at the place that it names."""

from __future__ import annotations

import ast
from pathlib import Path

import mutate
import pytest

SOURCE = '''"""A module."""
LIMIT = 3

def f(x: int) -> bool:
    """Of x."""
    if not x > LIMIT and x != 7:
        g.y = max(x, 2)
        g.h(x)
    return True
'''


def test_each_place_gives_a_fault_that_is_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.py").write_text(SOURCE)
    monkeypatch.setattr(mutate, "ROOT", tmp_path)
    found = {(mutant.line, mutant.what): mutant.source() for mutant in mutate.mutants_of(Path("m.py"), SOURCE)}
    sound = ast.unparse(ast.parse(SOURCE))
    assert len(set(found.values()) - {sound}) == len(found) == 11
    assert found[2, "`3` changed"].startswith('"""A module."""\nLIMIT = 4')
    assert "x > LIMIT and x != 7" in found[6, "`not x > LIMIT` turned round"]
    assert "not x >= LIMIT" in found[6, "`x > LIMIT` turned round"]
    assert "g.h(x)" not in found[8, "`g.h(x)` left out"]
    assert "min(x, 2)" in found[7, "`max(x, 2)` turned round"]


def test_the_same_seed_draws_the_same() -> None:
    drawn = mutate.draw(["learning"], 20, 1)
    assert drawn == mutate.draw(["learning"], 20, 1) != mutate.draw(["learning"], 20, 2)
    assert {mutant.path.parts[1] for mutant in drawn} == {"learning"}
