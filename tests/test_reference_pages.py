"""docs/reference: in step with the code, and with an entry for every error that people can meet."""

from __future__ import annotations

import ast
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


def raised() -> Iterator[tuple[str, ast.Raise, str, ast.Call]]:
    """(module, the statement, whom it calls, the call) of everything that is raised as it is made."""
    for module, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                yield module, node, ast.unparse(node.exc.func).rpartition(".")[2], node.exc


def has_entry(module: str, node: ast.stmt) -> bool:
    lines = range(node.lineno, (node.end_lineno or 0) + 1)
    return any(one.module == module and one.line in lines for one in messages())


def test_every_user_error_has_an_entry() -> None:
    """What is raised has one; or, where problems were collected before, or a function made it, they have."""
    makers = {node.name: (module, node) for module, node in functions()}
    lacking, count = [], 0
    for module, node, name, call in raised():
        found = has_entry(module, node) or ".expected" in ast.unparse(call)
        if name in errors():
            count += 1
            given = call.args[0] if call.args else call
            passed_on = any(words in ast.unparse(given) for words in ("*problem", "*found", "*self._kept"))
            found |= issubclass(errors()[name], InputError) and (passed_on or not isinstance(given, ast.List))
        else:
            found |= name not in makers or has_entry(*makers[name])
        lacking += [] if found else [f"{module}:{node.lineno} {name}"]
    assert lacking == []
    assert count > 250


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
