"""What is wrong with a text that is not YAML, in words of people who write it: where, what was expected, what came."""

from __future__ import annotations

import re
from typing import NamedTuple

import yaml

from drom_net.data.faults import quoted

_TOKENS = {
    "<stream end>": "the end",
    "<document start>": "a second document",
    "<scalar>": "a text",
    "<block mapping start>": "a key",
    "<block sequence start>": "an item",
    "<anchor>": "&",
    "<alias>": "*",
}
_LINE_END = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
"""As the parser counts lines."""
_ALIGNED = "keys of one section one below the other"
_IN_QUOTES = "a text in quotes"


class Syntax(NamedTuple):
    """What is wrong, and where; lines and columns count from 0."""

    line: int
    column: int
    expected: str
    got: str
    hint: str = ""


def explain(error: yaml.MarkedYAMLError, text: str) -> Syntax | None:
    """The same as the parser's error; None where that says nothing of where it is.

    Args:
        text: What was parsed.
    """
    at, since = error.problem_mark, error.context_mark or error.problem_mark
    if at is None or since is None:
        return None
    lines = [*_LINE_END.split(text), ""]
    problem, context = error.problem or "", error.context or ""
    here, there = (lines[min(mark.line, len(lines) - 1)] for mark in (at, since))
    hint = "a text that starts with { needs quotes" if "{task}" in here else ""
    token = match[1] if (match := re.search(r"(?:got|found) '(.*)'", problem)) else ""
    found: tuple[yaml.Mark, str, str] | None = None
    if "nesting" in problem:
        found = at, f"no {problem}", "more"
    elif problem.startswith("found character '\\t'"):
        found, hint = (at, "blanks", "a tab"), "indent with spaces, not tabs"
    elif "quoted scalar" in context and "unexpected" in problem:
        found = since, f"a closing {there[since.column : since.column + 1]}", "none"
    elif "escape" in problem or "quoted scalar" in context or "double-quoted" in context:
        escape = here[max(0, at.column - 1) : at.column + 1]
        found = at, "an escape of YAML", quoted(escape).replace("\\\\", "\\")
        hint = "in single quotes a backslash stands for itself"
    elif match := re.match(r"expected ',' or '([]}])'", problem):
        if token in (":", "<stream end>") and at.line > since.line:
            found = since, f'a closing "{match[1]}"', "none"
        else:
            found = at, f'"," or "{match[1]}"', _TOKENS.get(token, f'"{token}"')
    elif problem.startswith("mapping values are not allowed"):
        return _colon(min(at.line, len(lines) - 1), at.column, lines)
    elif problem.startswith("expected <block end>"):
        if token == "<scalar>":  # behind a text in quotes, or a list
            found = at, "the end of the line", quoted(here[at.column :].rstrip())
        elif token == "<block mapping start>":
            found = at, _ALIGNED, "one that is indented in another way"
        else:
            found = at, "a key, as above" if "mapping" in context else "an item, as above", f'"{token}"'
    elif re.search("(scanning|parsing) an? (alias|anchor|tag|block scalar)", context):
        found = since, _IN_QUOTES, f'one that starts with "{there[since.column : since.column + 1]}"'
    elif re.search("cannot start any token|alias|anchor", problem + context):
        found = at, _IN_QUOTES, f'one that starts with "{here[at.column : at.column + 1]}"'
    elif problem.startswith("expected the node content"):
        found = at, "a value", _TOKENS.get(token, f'"{token}"')
    elif problem.startswith("expected '<document start>'"):
        return _behind_the_end(at, token, lines)
    elif "could not find expected ':'" in problem:
        found = since, "KEY: VALUE", quoted(there.strip())
    if found is None:
        got = f"a syntax error ({', '.join(part for part in (problem, context) if part)})"
        found = at, "YAML", got
    return Syntax(found[0].line, found[0].column, found[1], found[2], hint)


def _behind_the_end(at: yaml.Mark, token: str, lines: list[str]) -> Syntax:
    """Something where the parser has seen all of the document: as a rule its first key is indented."""
    first = next(n for n, line in enumerate(lines) if line.strip() and not re.match(r"\s*#|---\s*(#|$)", line))
    indent = len(lines[first]) - len(lines[first].lstrip())
    if indent and first < at.line:
        return Syntax(first, indent, "keys at the beginning of the line", "one that is indented")
    got = _TOKENS.get(token, f'"{token}"')
    if lines[first].startswith("%"):
        return Syntax(at.line, at.column, "a line --- below those that start with %", got)
    return Syntax(at.line, at.column, "the end of the file", got)


def _colon(line: int, at: int, lines: list[str]) -> Syntax:
    """A colon where none may be: a second one in its line, or behind a line that has none, or is indented less."""
    here = lines[line]
    key = len(here) - len(here.lstrip())
    if ": " in here[:at]:
        value = here.index(": ") + 2
        got = quoted(here[value:].strip())
        return Syntax(line, value, 'quotes around a text with ": " in it', got)
    above = next((n for n in range(line - 1, -1, -1) if lines[n].strip() and lines[n].strip()[0] != "#"), None)
    if above is not None and not re.search(r":(\s|$)", lines[above]):
        column = len(lines[above]) - len(lines[above].lstrip())
        got = quoted(lines[above].strip())
        return Syntax(above, column, "KEY: VALUE, with a blank behind the colon", got)
    return Syntax(line, key, _ALIGNED, "one that is indented further")
