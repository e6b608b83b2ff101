"""docs/reference: in step with the code, and with an entry for every error that people can meet."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

import pytest
from messages import errors, messages, trees
from reference import DATA, FOLDER, PAGES, is_of

import drom_net
from drom_net.core.errors import InputError

pytestmark = pytest.mark.slow
GROUPS = [group for area in DATA["errors"]["areas"] for group in area["groups"]]


@pytest.mark.parametrize("name", PAGES)
def test_the_pages_are_those_of_the_code(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """``python scripts/reference.py`` writes them, whatever the terminal's width."""
    if name == "api.md":
        pytest.importorskip("river")
    monkeypatch.setenv("COLUMNS", "30")
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name]()


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    for module, tree in trees().items():
        yield from ((module, node) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def raised() -> Iterator[tuple[str, ast.FunctionDef | None, ast.Raise, ast.Call]]:
    """(module, the function, the statement, the call) of everything that is raised as it is made."""
    for module, tree in trees().items():
        within = {
            node: function
            for function in ast.walk(tree)  # the outer ones first
            if isinstance(function, ast.FunctionDef)
            for node in ast.walk(function)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                yield module, within.get(node), node, node.exc


def called(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


def has_entry(module: str, node: ast.stmt | ast.expr) -> bool:
    lines = range(node.lineno, (node.end_lineno or 0) + 1)
    return any(one.module == module and one.line in lines for one in messages())


@functools.cache
def makers() -> dict[str, tuple[str, ast.FunctionDef]]:
    """All functions with their modules, by name."""
    return {function.name: (module, function) for module, function in functions()}


def is_made(node: ast.AST) -> bool:
    """Whether it is the call of a function that has an entry."""
    return isinstance(node, ast.Call) and called(node) in makers() and has_entry(*makers()[called(node)])


def were_collected(module: str, function: ast.AST, given: ast.expr) -> bool:
    """Whether these are problems that have entries: those of a list, or of another error, or that a function found."""
    if isinstance(given, ast.List):
        return any(words in ast.unparse(given) for words in ("*problem", "*found", "*self._kept"))
    if isinstance(given, ast.ListComp):
        return ast.unparse(given.generators[0].iter) == "error.problems"
    name = ast.unparse(given.value if isinstance(given, ast.Subscript) else given)
    noted, made = [], False
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in (f"{name}.append", f"{name}.extend"):
            noted.append(has_entry(module, node) or any(map(is_made, ast.walk(node.args[0]))))
        elif isinstance(node, ast.NamedExpr) and node.target.id == name:
            made |= is_made(node.value)
    return all(noted) and (made or noted != [])


def test_every_user_error_has_an_entry() -> None:
    """What is raised has one; or, where problems were collected before, or a function made it, they have."""
    lacking, count = [], 0
    for module, function, node, call in raised():
        name, found = called(call), has_entry(module, node) or ".expected" in ast.unparse(call)
        if name in errors():
            count += 1
            if issubclass(errors()[name], InputError) and call.args and function is not None:
                found = found or were_collected(module, function, call.args[0])
        else:
            found = found or name not in makers() or is_made(call)
        lacking += [] if found else [f"{module}:{node.lineno} {name}"]
    assert lacking == []
    assert count > 250


@pytest.mark.parametrize(
    ("raises", "is_right"),
    [
        ("raise ConfigError(problems)", False),
        ("problems = []\n    raise ConfigError(problems)", False),
        ("problems.append(thing(error))\n    raise ConfigError(problems)", False),
        ("problems = list(thing(error))\n    raise ConfigError(problems)", False),
        ("raise ConfigError(thing(error))", False),
        ("raise ConfigError([thing(error)])", False),
        ("problems.extend(check_settings(settings))\n    raise ConfigError(problems[:9])", True),
        ("if problems := check_settings(settings):\n        raise ConfigError(problems)", True),
        ("raise ConfigError([other(one) for one in error.problems])", True),
    ],
)
def test_problems_without_an_entry_are_found(raises: str, is_right: bool) -> None:
    (function,) = ast.parse(f"def f(problems, error):\n    {raises}\n").body
    (call,) = [node.exc for node in ast.walk(function) if isinstance(node, ast.Raise)]
    assert isinstance(call, ast.Call)
    assert were_collected("graph/families.py", function, call.args[0]) == is_right


def test_whatever_notes_what_was_expected_and_what_came_is_looked_for() -> None:
    found = {node.name for _, node in functions() if {"expected", "got"} <= arguments(node)} - {"__init__"}
    for tree in trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                names = {ast.unparse(one.target) for one in node.body if isinstance(one, ast.AnnAssign)}
                makes = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
                found |= {node.name} if {"expected", "got"} <= names.union(*map(arguments, makes)) else set()
    assert found == {form[0] for form in DATA["forms"]} - {"missing", "ItemError"}  # they know what came


def arguments(function: ast.FunctionDef) -> set[str]:
    return {one.arg for one in (*function.args.args, *function.args.kwonlyargs)}


def test_every_message_is_in_one_group_and_no_group_is_of_what_is_gone() -> None:
    sources = [source for group in GROUPS for source in group["of"]]
    for one in messages():
        assert len([source for source in sources if is_of(one, source)]) == 1, one
    for source in sources:
        assert any(is_of(one, source) for one in messages()), source


def test_what_is_written_by_hand_is_of_messages_that_are_there() -> None:
    page = PAGES["errors.md"]()
    for group in GROUPS:
        texts = [one.text for source in group["of"] for one in messages() if is_of(one, source)]
        for part, advice in group.get("more", {}).items():
            assert any(part in text for text in [*texts, *group.get("also", ())]), part
            assert advice in page
    for text in (text for texts in DATA["reworded"].values() for text in texts):
        assert text in page


@pytest.mark.parametrize(
    ("text", "error", "code"),
    [
        ("cannot connect to ENDPOINT: REASON", "ClusterError", "4"),
        ("FILE:LINE: SECTION.hash: expected a power of two, got VALUE", "ConfigError", "2"),
        ("the reducer at ENDPOINT does not let this worker in: REASON", "RejectedError", "3"),
        ("FILE: peers.endpoints: expected N endpoints, one for each task, got N", "ConfigError", "2"),
    ],
)
def test_messages_are_those_of_the_code_with_words_for_what_differs(text: str, error: str, code: str) -> None:
    assert {(one.error, one.code) for one in messages() if one.text == text} == {(error, code)}


def test_the_api_page_has_every_public_name() -> None:
    names = next(chapter["names"] for chapter in DATA["api"]["chapters"] if chapter["module"] == "drom_net")
    assert sorted(name.removesuffix("()") for name in names) == sorted({*drom_net.__all__} - {"__version__"})
