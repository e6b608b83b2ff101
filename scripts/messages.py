"""The messages of errors, read from the code: templates with words in capitals in place of what differs.

`scripts/reference.py` makes a page of them. The function that an error is made by, or that notes what was expected and
what came, is found by its name (`forms` in scripts/reference.yaml).
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from drom_net.core.errors import DromNetError, InputError

ROOT = Path(__file__).resolve().parents[1]
DATA: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("reference.yaml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Message:
    """What an error says, with words in capitals in place of what differs."""

    module: str
    line: int
    error: str
    text: str
    code: str


@functools.cache
def trees() -> dict[str, ast.Module]:
    """The package's modules, by their path in it."""
    package = ROOT / "drom_net"
    paths = sorted(path for path in package.rglob("*.py") if "examples" not in path.parts)
    return {str(path.relative_to(package)): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


@functools.cache
def errors() -> dict[str, type[DromNetError]]:
    """Every exception that a command turns into a message and an exit code."""
    for module, tree in trees().items():
        nodes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
        if any(isinstance(base, ast.Name) and base.id.endswith("Error") for node in nodes for base in node.bases):
            import_module(f"drom_net.{module.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}")
    found: list[type[DromNetError]] = [DromNetError]
    for cls in found:
        found += [one for one in cls.__subclasses__() if one not in found and one.__module__.startswith("drom_net.")]
    return {cls.__name__: cls for cls in found}


@functools.cache
def messages() -> list[Message]:
    """All, by module and line."""
    found = []
    for module, tree in trees().items():
        finder = _Finder(module)
        finder.visit(tree)
        found += sorted(finder.found, key=lambda one: one.line)
    return found


class _Finder(ast.NodeVisitor):
    """Looks for calls that make errors, and for those that note what was expected and what came."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.found: list[Message] = []
        self.scopes: list[dict[str, list[ast.expr]]] = [{}]
        self.inside = ""
        self.blocks: dict[ast.AST, tuple[int, ...]] = {}

    def visit_Module(self, node: ast.Module) -> None:
        self._note_blocks(node, ())
        self.generic_visit(node)

    def _note_blocks(self, node: ast.AST, blocks: tuple[int, ...]) -> None:
        """In which blocks of statements each node stands, the outermost first."""
        self.blocks[node] = blocks
        for field in (value for _, value in ast.iter_fields(node)):
            for inner in field if isinstance(field, list) else [field]:
                if isinstance(inner, ast.AST):
                    self._note_blocks(inner, (*blocks, id(field)) if isinstance(inner, ast.stmt) else blocks)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """What its names stand for: the texts that are assigned to them; an argument for itself."""
        names: dict[str, list[ast.expr]] = {}
        for one in ast.walk(node):
            if isinstance(one, ast.Assign | ast.AnnAssign | ast.NamedExpr) and one.value is not None:
                for target in one.targets if isinstance(one, ast.Assign) else [one.target]:
                    for name, value in _pairs(target, one.value):
                        names.setdefault(name, []).append(value)
        arguments = (*node.args.args, *node.args.kwonlyargs)
        self.scopes.append({one.arg: [] for one in arguments} | names)
        self.generic_visit(node)
        self.scopes.pop()

    def visit_Call(self, node: ast.Call) -> None:
        name, outer = _called(node), self.inside
        cls = errors().get(name)
        self.inside = name if cls else outer
        is_reason = name in DATA["codes"] and (name != "ValueError" or self.module in DATA["values"])
        if node.args and (is_reason if cls is None else not issubclass(cls, InputError)):
            self._note(node, name, self.text(node.args[0]))
        for form in DATA["forms"]:
            if form[0] == name:
                self._as_form(node, *form[1:])
        self.generic_visit(node)
        self.inside = outer

    def _as_form(self, node: ast.Call, names: str, place: str, got: str = "") -> None:
        """A call such as Problem(place, expected, got, hint); behind a * stands what has to be named."""
        by_place = names.partition("*")[0].split()
        given = {one.arg: one.value for one in node.keywords if one.arg in names.split()}
        whole = not any(isinstance(one, ast.Starred) for one in node.args) and len(node.args) <= len(by_place)
        if not whole or given.keys() & {*by_place[: len(node.args)]}:
            return
        given |= zip(by_place, node.args, strict=False)
        expected = given.get("expected")
        if expected is None or self._is_passed_on(expected) or not (got or "got" in given):
            return
        texts = {name or "": self.text(value) for name, value in given.items()}
        where = re.sub(r"{(\w+)}", lambda found: texts.get(found[1], ""), place).removesuffix(": ")
        error = self.inside or ("DataError" if self.module.startswith(("data/", "graph/matrix")) else "ConfigError")
        self._note(node, error, _problem(where, texts["expected"], texts.get("got", got), texts.get("hint", "")))

    def _is_passed_on(self, node: ast.expr) -> bool:
        """Whether it is another's text, which has an entry of its own."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return node.attr == "expected" and node.value.id in ("error", "problem", "wrong", "one", "found")
        return isinstance(node, ast.Name) and node.id == "expected" and self.scopes[-1].get("expected") == []

    def _note(self, node: ast.stmt | ast.expr, error: str, text: str) -> None:
        code = DATA["codes"].get(error) or str(errors()[error].exit_code)
        for one in DATA["reworded"].get(" ".join(text.split()), [text]):
            one = re.sub(r"^\[(.*)\]$", r"\1", " ".join(one.split()))
            self.found.append(Message(self.module, node.lineno, error, one, code))

    def text(self, node: ast.AST, depth: int = 0) -> str:
        """A text as people see it, with words in capitals in place of what differs."""
        match node:
            case ast.Constant(value=value):
                return str(value)
            case ast.JoinedStr(values=parts):
                return "".join(self.text(part, depth) for part in parts)
            case ast.FormattedValue(value=value, conversion=conversion):
                return f"'{self._word(value)}'" if conversion == ord("r") else self.text(value, depth)
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return f"{self._word(left)}/{self.text(right, depth)}"
            case ast.BinOp(left=left, op=ast.Add(), right=right) if _is_text(node):
                return self.text(left, depth) + self.text(right, depth)
            case ast.IfExp() | ast.BoolOp() if _is_text(node):
                return _either([self.text(one, depth) for one in _alternatives(node)])
            case ast.Name() if depth < 3:
                values = self._values(node)
                if values and len(values) <= 3 and all(map(_is_text, values)):
                    return _either([self.text(value, depth + 1) for value in values])
            case ast.Call(args=[first, *_]) if _called(node) in ("str", "printable"):
                return self.text(first, depth)
            case ast.Call(args=[ast.GeneratorExp(elt=first) | ast.ListComp(elt=first)]) if _called(node) == "join":
                return f"{self.text(first, depth)}, .."
            case ast.Call(args=[first, *_]) if form := DATA["shown"].get(_called(node)):
                return str(form).replace("WORD", self._word(first))
        return self._word(node)

    def _values(self, name: ast.Name) -> list[ast.expr]:
        """What a name may be: what was assigned before, from the last assignment on that was made whatever happened."""
        every = next((scope[name.id] for scope in reversed(self.scopes) if name.id in scope), [])
        before = sorted((value for value in every if value.lineno <= name.lineno), key=lambda value: value.lineno)
        here = self.blocks[name]
        sure = [at for at, value in enumerate(before) if self.blocks[value] == here[: len(self.blocks[value])]]
        return before[max(sure, default=0) :]

    def _word(self, node: ast.AST) -> str:
        """A word in capitals for what a name or call stands for."""
        source = ast.unparse(node)
        if source in DATA["words"]:
            return str(DATA["words"][source])
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                if name.isupper() and isinstance(value := constants(self.module).get(name), str | int | float):
                    return str(value)
                name = name.strip("_")
                return str(DATA["words"].get(name, "N" if re.search(DATA["numbers"], name) else name.upper()))
            case ast.Call(func=ast.Name(id="len")) | ast.BinOp():
                return "N"
            case ast.Call(func=ast.Name(id="map"), args=[_, inner]) | ast.BoolOp(values=[inner, *_]):
                return self._word(inner)
            case ast.Call(args=[inner, *_]) if not isinstance(inner, ast.Constant):
                return self._word(inner)
            case ast.Call(func=ast.Attribute(value=inner)) | ast.Subscript(value=inner) | ast.Starred(value=inner):
                return self._word(inner)
            case ast.GeneratorExp(elt=inner) | ast.ListComp(elt=inner) | ast.IfExp(body=inner):
                return self._word(inner)
        return "VALUE"


def _called(node: ast.AST) -> str:
    function = getattr(node, "func", None)
    return str(getattr(function, "id", getattr(function, "attr", "")))


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """(name, what it becomes) of an assignment, also of several names at once."""
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for one, its in zip(target.elts, value.elts, strict=True):
            yield from _pairs(one, its)


def _alternatives(node: ast.AST) -> list[ast.expr]:
    """What it is made of, but for a condition."""
    parts = [one for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr)]
    return parts[1:] if isinstance(node, ast.IfExp) else parts


def _is_text(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=value):
            return isinstance(value, str)
        case ast.IfExp() | ast.BinOp() | ast.BoolOp():
            return any(map(_is_text, _alternatives(node)))
    return isinstance(node, ast.JoinedStr) or _called(node) in ("did_you_mean", "quoted", "join", "listed", "some_of")


def _either(texts: list[str]) -> str:
    """(one | other), or [one] where it may be missing."""
    words = list(dict.fromkeys(filter(None, texts)))
    either = words[0] if len(words) == 1 else f"({' | '.join(words)})" if words else ""
    return f"[{either}]" if "" in texts and words else either


def _problem(place: str, expected: str, got: str, hint: str = "") -> str:
    hint = hint and (f"[; {hint[1:-1]}]" if hint[0] == "[" else f"; {hint}")
    return f"{place or 'PLACE'}: expected {expected}, got {got}{hint}"


@functools.cache
def constants(module: str) -> dict[str, object]:
    """Named constants that are plain values: the package's, and before them those of this module."""
    found: dict[str, object] = {}
    for node in (node for tree in (*trees().values(), trees()[module]) for node in tree.body):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            found |= {target.id: node.value.value for target in node.targets if isinstance(target, ast.Name)}
    return found
