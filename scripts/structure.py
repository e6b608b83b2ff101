"""The figures of the code's structure: lines by package, what is longest, circles of imports.

    python scripts/structure.py [--root FOLDER] [--json] [--top 8]

Counted as anyone would by hand: a line is a line of the file; a function is from its `def` to its last line, the ones
inside it included; a class's attributes are the names assigned on `self` anywhere in it, and its declared fields.
"""

from __future__ import annotations

import argparse
import ast
import json
import signal
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

PACKAGE = "drom_net"


@dataclass(frozen=True)
class Structure:
    """What `measure` counts; each table has its longest entry first."""

    lines: dict[str, int]
    """By package: the first folder below the root, or a module that stands alone."""
    modules: dict[str, int]
    functions: dict[str, int]
    classes: dict[str, int]
    """Lines."""
    attributes: dict[str, int]
    """By class."""
    methods: dict[str, int]
    """By class."""
    parameters: dict[str, int]
    """By function, without `self` and `cls`."""
    circles: list[list[str]]
    """Modules that import each other, wherever in them; each circle once."""
    flat: int
    """Modules that stand beside the packages."""


def measure(root: Path) -> Structure:
    """Count, below this package's folder."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(root.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    sizes = {_name(root, path): len(text.splitlines()) for path, text in texts.items()}
    by_package: Counter[str] = Counter()
    for path in trees:
        by_package[path.relative_to(root).parts[0].removesuffix(".py")] += sizes[_name(root, path)]
    functions: dict[str, int] = {}
    classes: dict[str, int] = {}
    attributes: dict[str, int] = {}
    methods: dict[str, int] = {}
    parameters: dict[str, int] = {}
    for path, tree in trees.items():
        for name, node in _definitions(tree, _name(root, path)):
            assert node.end_lineno is not None
            size = node.end_lineno - node.lineno + 1
            if isinstance(node, ast.ClassDef):
                classes[name] = size
                attributes[name] = len(_attributes(node))
                methods[name] = sum(isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) for item in node.body)
            else:
                functions[name] = size
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                parameters[name] = sum(argument.arg not in ("self", "cls") for argument in arguments)
    flat = sum(path.parent == root and path.name not in ("__init__.py", "__main__.py") for path in trees)
    tables = (dict(by_package), sizes, functions, classes, attributes, methods, parameters)
    return Structure(*map(_sorted, tables), circles=_circles(root, trees), flat=flat)


def _circles(root: Path, trees: dict[Path, ast.Module]) -> list[list[str]]:
    """Imports inside functions and for type checkers count, too."""
    modules = {_dotted(root, path): tree for path, tree in trees.items()}
    needs = {name: {found for found in _imports(tree, modules) if found != name} for name, tree in modules.items()}
    found: list[list[str]] = []
    reached = {name: _reachable(name, needs) for name in needs}
    for name in sorted(needs):
        circle = sorted(other for other in reached[name] if name in reached[other])
        if circle and circle not in found:
            found.append(circle)
    return found


def _reachable(name: str, needs: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        for other in needs[waiting.pop()] - seen:
            seen.add(other)
            waiting.append(other)
    return seen


def _imports(tree: ast.Module, modules: Collection[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if name in modules:
                    yield name
                elif node.module in modules:
                    yield node.module


def _definitions(
    tree: ast.AST, within: str
) -> Iterator[tuple[str, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{within}:{node.name}" if ":" not in within else f"{within}.{node.name}"
            yield name, node
            yield from _definitions(node, name)
        else:
            yield from _definitions(node, within)


def _attributes(node: ast.ClassDef) -> set[str]:
    found = {
        item.target.id for item in node.body if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    }
    for item in ast.walk(node):
        if isinstance(item, ast.Attribute) and isinstance(item.ctx, ast.Store) and ast.unparse(item.value) == "self":
            found.add(item.attr)
    return found


def _name(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix()


def _dotted(root: Path, path: Path) -> str:
    return ".".join([root.name, *path.relative_to(root).with_suffix("").parts]).removesuffix(".__init__")


def _sorted(table: dict[str, int]) -> dict[str, int]:
    return dict(sorted(table.items(), key=lambda item: (-item[1], item[0])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    default = Path(__file__).resolve().parents[1] / PACKAGE
    parser.add_argument("--root", type=Path, default=default, help="The package's folder (default: this checkout's).")
    parser.add_argument("--top", type=int, default=8, help="How many of each are listed (default: 8).")
    parser.add_argument("--json", action="store_true", help="All of it, for programs.")
    options = parser.parse_args()
    found = measure(options.root)
    if options.json:
        print(json.dumps(asdict(found), indent=2))
        return
    print(
        f"{sum(found.modules.values())} lines in {len(found.modules)} modules, {found.flat} of them beside the packages"
    )
    print(f"circles of imports: {'; '.join(' <-> '.join(circle) for circle in found.circles) or 'none'}")
    titles = {
        "lines": "lines by package",
        "modules": "longest modules, lines",
        "functions": "longest functions, lines",
        "classes": "longest classes, lines",
        "attributes": "most attributes",
        "methods": "most methods",
        "parameters": "most parameters",
    }
    for field, title in titles.items():
        table: dict[str, int] = getattr(found, field)
        shown = table if field == "lines" else dict(list(table.items())[: options.top])
        print(f"\n{title}")
        for name, number in shown.items():
            print(f"  {number:6}  {name}")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `structure.py | head` ends quietly
    main()
