"""YAML in and out: values that know where they stand, so that every problem can name its place.

Plain scalars are read by the rules of YAML 1.2, where `no` and `12:30` are texts and `1e-3` is a number.
Whatever is wrong with a file becomes a ConfigError; a hostile one costs no more than a large one.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from drom_net.config.yamlsyntax import explain
from drom_net.core.errors import ConfigError, Problem

SIZE_LIMIT_BYTES = 2**20
DEPTH_LIMIT = 20
VALUES_LIMIT = 200_000
"""How many values a file may hold once its aliases are written out."""
PROBLEMS_LIMIT = 100


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A place in the file, or an option of the command line. They sort as one reads: options come last."""

    option: bool
    line: int
    """From 1; 0 is the file as a whole."""
    column: int
    file: str

    def place(self, path: str = "") -> str:
        """``configs/a.yaml:9: data.label`` or ``--set data.label``."""
        if self.option:
            return f"--set {path}".rstrip()
        text = f"{self.file}:{self.line}" if self.line else self.file
        return f"{text}: {path}" if path else text


@dataclass(frozen=True, slots=True)
class Item:
    """A value and where it stands: for a value in a mapping, where its key does."""

    value: str | int | float | bool | list[Item] | dict[str, Item] | None
    mark: Mark
    raw: str = ""
    """A scalar that is not a text, as it was written."""

    def plain(self) -> object:
        """The value without places."""
        if isinstance(self.value, list):
            return [item.plain() for item in self.value]
        if isinstance(self.value, dict):
            return {key: item.plain() for key, item in self.value.items()}
        return self.value

    def __str__(self) -> str:
        """The words after "got" in an error message."""
        match self.value:
            case None:
                return "nothing"
            case list():
                return "a list" if self.value else "an empty list"
            case dict():
                return "a mapping"
            case str():
                # Where quotes make the difference, say that it is a text.
                looks_like_text = _plain_tag(self.value) == "str"
                return quoted(self.value) if looks_like_text else f"the text {quoted(self.value)}"
        return _shortened(self.raw)


class Problems:
    """What is wrong, collected in any order and raised in that of the file."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._found: list[tuple[Mark, Problem]] = []

    @property
    def full(self) -> bool:
        """Whether more will not be shown."""
        return len(self._found) >= PROBLEMS_LIMIT

    def add(self, mark: Mark, path: str, *, expected: str, got: str, hint: str = "") -> None:
        """Note one problem."""
        if not self.full:
            self._found.append((mark, Problem(mark.place(path), expected, got, hint)))

    def absorb(self, mark: Mark, error: ConfigError) -> None:
        """Note what ended the reading of one option."""
        self._found.extend((mark, problem) for problem in error.problems)

    def raise_any(self) -> None:
        """Raise ConfigError if there are problems."""
        if not self._found:
            return
        problems = [problem for _, problem in sorted(self._found, key=lambda found: found[0])]
        if self.full:
            problems.append(
                Problem(str(self.file), f"fewer than {PROBLEMS_LIMIT} problems", "more", "the rest is not shown")
            )
        raise ConfigError(problems)


def failure(mark: Mark, path: str = "", *, expected: str, got: str, hint: str = "") -> ConfigError:
    """An error of this one problem, for what ends the reading."""
    return ConfigError([Problem(mark.place(path), expected, got, hint)])


def quoted(text: str) -> str:
    """A text in quotes on one line, shortened if it is long."""
    return json.dumps(_shortened(text), ensure_ascii=not text.isprintable())


def _shortened(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."


# Scalars ------------------------------------------------------------------------------------------

_TAG = "tag:yaml.org,2002:"
_PLAIN = {
    "null": re.compile(r"(?:~|null|Null|NULL|)\Z"),
    "bool": re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"),
    # Python refuses to convert more than a few thousand digits; nothing here needs more than a few.
    "int": re.compile(r"(?:[-+]?[0-9]{1,400}|0o[0-7]{1,400}|0x[0-9a-fA-F]{1,400})\Z"),
    "float": re.compile(
        r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
    ),
}
"""What a scalar without quotes is, by the core schema of YAML 1.2; whatever does not match is a text."""


def _plain_tag(text: str) -> str:
    return next((tag for tag, pattern in _PLAIN.items() if pattern.match(text)), "str")


def _scalar(text: str, tag: str) -> str | int | float | bool | None:
    match tag:
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int":
            return int(text, 0) if text.startswith(("0o", "0x")) else int(text)
        case "float":
            # Python writes infinity without the point.
            return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    # JSON writes a character beyond U+FFFF as two escapes, which PyYAML leaves apart.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


class _Loader(yaml.SafeLoader):
    """Composes nodes; what they mean is decided here and not by PyYAML, which follows YAML 1.1."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - the attribute by which PyYAML is told
    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.depth == DEPTH_LIMIT:
            problem = f"more than {DEPTH_LIMIT} levels of nesting"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=self.next_mark())
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def next_mark(self) -> yaml.Mark:
        mark: yaml.Mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        return mark


class _Dumper(yaml.SafeDumper):
    """Quotes a text that either version of YAML would take for something else."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    # In other styles PyYAML takes a few rare characters (U+0085, U+2028) for line ends when it reads them again.
    return dumper.represent_scalar(_TAG + "str", text, style=None if text.isprintable() else '"')


_Dumper.add_representer(str, _represent_text)
for _tag, _pattern in _PLAIN.items():
    _Loader.add_implicit_resolver(_TAG + _tag, _pattern, None)
    _Dumper.add_implicit_resolver(_TAG + _tag, _pattern, None)


# Reading ------------------------------------------------------------------------------------------


def read_yaml(path: Path, problems: Problems) -> Item:
    """The one document of a file. Raises ConfigError where the file cannot be read as YAML at all."""
    whole = Mark(False, 0, 0, str(path))
    try:
        with path.open("rb") as file:
            content = file.read(SIZE_LIMIT_BYTES + 1)
    except FileNotFoundError:
        raise failure(whole, expected="a YAML file", got="no such file") from None
    except IsADirectoryError:
        raise failure(whole, expected="a YAML file", got="a folder") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise failure(whole, expected="a YAML file", got=f"one that cannot be read ({reason})") from None
    if len(content) > SIZE_LIMIT_BYTES:
        raise failure(whole, expected=f"at most {SIZE_LIMIT_BYTES} bytes", got="more")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, start = content.count(b"\n", 0, error.start) + 1, content.rfind(b"\n", 0, error.start) + 1
        place, got = f"{path}:{line}:{error.start - start + 1}", f"the byte 0x{content[error.start]:02x}"
        raise ConfigError([Problem(place, "UTF-8", got, "save the file as UTF-8")]) from None
    node = _compose(text, whole, "")
    if node is None:
        raise failure(whole, expected="a mapping", got="an empty file")
    return _Converter(whole, problems).convert(node, whole, "", 0)


def read_option(path: str, text: str, index: int, problems: Problems) -> Item:
    """The value of ``--set path=text``: ``[a, b]``, a text in quotes, or else a plain scalar as it stands."""
    mark = Mark(True, index, 0, str(problems.file))
    text = text.strip()
    if not text.startswith(("[", '"', "'")):
        tag = _plain_tag(text)
        return Item(_scalar(text, tag), mark, "" if tag == "str" else text)
    node = _compose(text, mark, path)
    assert node is not None
    return _Converter(mark, problems).convert(node, mark, path, 0)


def item_of(value: object, mark: Mark, path: str = "") -> Item:
    """A plain value (texts, numbers, lists, mappings) as if a file had it; all of it stands at `mark`.

    Raises:
        ConfigError: It holds something that a file cannot have.
    """
    if isinstance(value, dict):
        if odd := [key for key in value if not isinstance(key, str)]:
            raise failure(mark, path, expected="a text as a key", got=_shortened(repr(odd[0])))
        return Item({key: item_of(inner, mark, dotted(path, key)) for key, inner in value.items()}, mark)
    if isinstance(value, list | tuple):
        return Item([item_of(inner, mark, f"{path}[{index}]") for index, inner in enumerate(value)], mark)
    if value is None or isinstance(value, str | bool | int | float):
        return Item(value, mark, "" if isinstance(value, str) else str(value))
    expected, got = "a text, a number, a list or a mapping", f"a {type(value).__name__}"
    raise failure(mark, path, expected=expected, got=got)


def _compose(text: str, whole: Mark, path: str) -> yaml.Node | None:
    """The document of a text, or None without one. Raises ConfigError for what is not YAML."""
    try:
        loader = _Loader(text)
        node = loader.get_node() if loader.check_node() else None
        if loader.check_node():
            mark = whole if whole.option else replace(whole, line=loader.next_mark().line + 1)
            raise failure(mark, path, expected="one YAML document", got="another one")
        return node
    except yaml.MarkedYAMLError as error:
        found = explain(error, text)
        if found is None:
            raise failure(whole, path, expected="YAML", got="a syntax error") from None
        if whole.option:
            raise failure(whole, path, expected=found.expected, got=found.got, hint=found.hint) from None
        place = f"{whole.file}:{found.line + 1}:{found.column + 1}"
        raise ConfigError([Problem(place, found.expected, found.got, found.hint)]) from None
    except yaml.reader.ReaderError as error:
        mark = whole if whole.option else replace(whole, line=text.count("\n", 0, error.position) + 1)
        got = f"the character U+{ord(text[error.position]):04X}"
        raise failure(mark, path, expected="YAML", got=got) from None
    except (yaml.YAMLError, ValueError, OverflowError):
        # PyYAML hands what follows "\\U" and "%YAML" to Python's own conversions.
        got = "a syntax error (an escape or a version out of range)"
        raise failure(whole, path, expected="YAML", got=got) from None


class _Converter:
    """Nodes to items; counts them, so that aliases of aliases end at a limit."""

    def __init__(self, whole: Mark, problems: Problems) -> None:
        self._whole = whole
        self._problems = problems
        self._num_values = 0

    def convert(self, node: yaml.Node, mark: Mark, path: str, depth: int) -> Item:
        self._num_values += 1
        if self._num_values > VALUES_LIMIT or depth > DEPTH_LIMIT:
            limit = f"at most {VALUES_LIMIT} values, {DEPTH_LIMIT} levels deep"
            hint = "an alias may contain itself or multiply others"
            raise failure(mark, expected=limit, got="more", hint=hint)
        tag = node.tag.removeprefix(_TAG)
        if isinstance(node, yaml.ScalarNode) and (
            tag == "str" or ((pattern := _PLAIN.get(tag)) and pattern.match(node.value))
        ):
            return Item(_scalar(node.value, tag), mark, "" if tag == "str" else node.value)
        if isinstance(node, yaml.SequenceNode) and tag == "seq":
            items = [
                self.convert(child, self._mark(child), f"{path}[{index}]", depth + 1)
                for index, child in enumerate(node.value)
            ]
            return Item(items, mark)
        if isinstance(node, yaml.MappingNode) and tag == "map":
            return Item(self._mapping(node, path, depth), mark)
        self._problems.add(mark, path, expected="a value without a tag", got=f"the tag {quoted(node.tag)}")
        return Item(None, mark)

    def _mapping(self, node: yaml.MappingNode, path: str, depth: int) -> dict[str, Item]:
        items: dict[str, Item] = {}
        for key_node, child in node.value:
            mark = self._mark(key_node)
            key = self.convert(key_node, mark, path, depth + 1)
            if not isinstance(key.value, str):
                self._problems.add(mark, path, expected="a text as a key", got=str(key))
                continue
            item = self.convert(child, mark, dotted(path, key.value), depth + 1)
            if key.value not in items:
                items[key.value] = item
            else:
                first = items[key.value].mark.line
                hint = f"the first is in line {first}"
                self._problems.add(mark, dotted(path, key.value), expected="each key once", got="it again", hint=hint)
        return items

    def _mark(self, node: yaml.Node) -> Mark:
        if self._whole.option:
            return self._whole
        return Mark(False, node.start_mark.line + 1, node.start_mark.column + 1, self._whole.file)


def dotted(path: str, key: str) -> str:
    """``data.label``; a key that is no plain word is shown in quotes."""
    word = key if re.fullmatch(r"[\w-]{1,80}", key) else quoted(key)
    return f"{path}.{word}" if path else word


# Writing ------------------------------------------------------------------------------------------


def write_flow(value: object) -> str:
    """A plain value as YAML on one line."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**9
    )
    return text.removesuffix("\n").removesuffix("...").removesuffix("\n")


def write_yaml(mapping: dict[str, object]) -> str:
    """A mapping of plain values as YAML, in its own order."""
    return yaml.dump(mapping, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
