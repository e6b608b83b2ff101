"""How a setting says what it accepts: the one source of checks, of messages and of the JSON Schema.

Settings are frozen dataclasses that live beside the code they configure; each of their fields is made
by `option`, which keeps its `Spec` and its documentation in the field's metadata. This module imports
nothing, so a node process can use such dataclasses without paying for YAML or checks.
"""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass
from typing import Any

REQUIRED = dataclasses.MISSING


class ItemError(ValueError):
    """One item of a list may not be what it is."""

    def __init__(self, index: int, expected: str, hint: str = "") -> None:
        super().__init__(hint)
        self.index = index
        self.expected = expected


class Spec:
    """What one value may be."""

    def expected(self) -> str:
        """The words after "expected" in an error message."""
        raise NotImplementedError

    def parse(self, value: object) -> object:
        """The value as inner code gets it. Raises ValueError when it may not be, with a hint or no text."""
        raise NotImplementedError

    def schema(self) -> dict[str, object]:
        """The same as JSON Schema."""
        raise NotImplementedError

    def plain(self, value: object) -> object:
        """A parsed value as YAML and JSON have it, so that `parse` gives it again."""
        return [self.plain(inner) for inner in value] if isinstance(value, tuple) else value


@dataclass(frozen=True, slots=True)
class Number(Spec):
    """A float within bounds; `above` and `below` are strict."""

    at_least: float = -math.inf
    above: float = -math.inf
    at_most: float = math.inf
    below: float = math.inf
    or_infinity: bool = False
    """Also takes ``.inf``, and the text ".inf", since JSON has no such number."""

    def expected(self) -> str:
        bounds = [
            f"{word} {bound:g}"
            for word, bound in (
                ("of at least", self.at_least),
                ("above", self.above),
                ("at most" if math.isfinite(self.above) else "of at most", self.at_most),
                ("below", self.below),
            )
            if math.isfinite(bound)
        ]
        if math.isfinite(self.at_least) and math.isfinite(self.at_most):
            bounds = [f"from {self.at_least:g} to {self.at_most:g}"]
        words = ["a number", " and ".join(bounds), "or .inf" if self.or_infinity else ""]
        return " ".join(word for word in words if word)

    def parse(self, value: object) -> float:
        if self.or_infinity and isinstance(value, str):
            if value == ".inf":
                return math.inf
            raise ValueError("write .inf" if value.strip("+").lower() in ("inf", "infinity") else "")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError
        try:
            number = float(value)
        except OverflowError:
            raise ValueError from None
        if math.isinf(number) and number > 0 and self.or_infinity:
            return number
        if not math.isfinite(number):
            raise ValueError("it must be finite" if number == math.inf else "")
        if not (self.at_least <= number <= self.at_most and self.above < number < self.below):
            raise ValueError
        return number

    def schema(self) -> dict[str, object]:
        bounds = {
            "minimum": self.at_least,
            "exclusiveMinimum": self.above,
            "maximum": self.at_most,
            "exclusiveMaximum": self.below,
        }
        number = {"type": "number", **{key: bound for key, bound in bounds.items() if math.isfinite(bound)}}
        return {"anyOf": [number, {"const": ".inf"}]} if self.or_infinity else number


@dataclass(frozen=True, slots=True)
class Integer(Spec):
    """A whole number within bounds."""

    at_least: int
    at_most: int = 2**53

    def expected(self) -> str:
        if self.at_most == 2**53:
            return f"a whole number of at least {self.at_least}"
        return f"a whole number from {self.at_least} to {self.at_most}"

    def parse(self, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not self.at_least <= value <= self.at_most:
            raise ValueError
        return value

    def schema(self) -> dict[str, object]:
        return {"type": "integer", "minimum": self.at_least, "maximum": self.at_most}


@dataclass(frozen=True, slots=True)
class IntegerOrList(Spec):
    """A whole number for all tasks, or a list with one for each."""

    at_least: int

    def expected(self) -> str:
        return f"{Integer(self.at_least).expected()}, or a list of such, one for each task"

    def parse(self, value: object) -> int | tuple[int, ...]:
        item = Integer(self.at_least)
        if not isinstance(value, list):
            return item.parse(value)
        if not value:
            raise ValueError
        numbers = []
        for index, number in enumerate(value):
            try:
                numbers.append(item.parse(number))
            except ValueError:
                raise ItemError(index, item.expected()) from None
        return tuple(numbers)

    def schema(self) -> dict[str, object]:
        item = Integer(self.at_least).schema()
        return {"anyOf": [item, {"type": "array", "items": item, "minItems": 1}]}


@dataclass(frozen=True, slots=True)
class Flag(Spec):
    """true or false."""

    def expected(self) -> str:
        return "true or false"

    def parse(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise ValueError
        return value

    def schema(self) -> dict[str, object]:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Text(Spec):
    """A text that is not empty. `what` says of what kind, for the message."""

    what: str = "a text"
    pattern: str = ""
    """A regular expression for the whole of it; empty accepts any."""

    def expected(self) -> str:
        return self.what

    def parse(self, value: object) -> str:
        # A null byte or half a surrogate pair can be in no file, so it can be in no name of one.
        if not isinstance(value, str) or not value or re.search("[\0\ud800-\udfff]", value):
            raise ValueError
        if self.pattern and not re.fullmatch(self.pattern, value):
            raise ValueError
        return value

    def schema(self) -> dict[str, object]:
        return {"type": "string", "minLength": 1} | ({"pattern": f"^(?:{self.pattern})$"} if self.pattern else {})


@dataclass(frozen=True, slots=True)
class Choice(Spec):
    """One of some words."""

    words: tuple[str, ...]

    def expected(self) -> str:
        return "one of " + ", ".join(self.words)

    def parse(self, value: object) -> str:
        if not isinstance(value, str) or value not in self.words:
            raise ValueError
        return value

    def schema(self) -> dict[str, object]:
        return {"enum": list(self.words)}


@dataclass(frozen=True, slots=True)
class PluginName(Choice):
    """One of these words, or the name of what another package adds; whether there is one is looked up later."""

    def expected(self) -> str:
        return f"{Choice.expected(self)} or MODULE:ATTRIBUTE"

    def parse(self, value: object) -> str:
        if not isinstance(value, str):
            raise ValueError
        return value

    def schema(self) -> dict[str, object]:
        return {"anyOf": [{"enum": list(self.words)}, {"type": "string"}]}


@dataclass(frozen=True, slots=True)
class TextList(Spec):
    """A list of different texts."""

    item: Text

    def expected(self) -> str:
        return f"a list of different items, each {self.item.expected()}"

    def parse(self, value: object) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise ValueError
        items: dict[str, None] = {}
        for index, item in enumerate(value):
            try:
                text = self.item.parse(item)
            except ValueError:
                raise ItemError(index, self.item.expected()) from None
            if text in items:
                raise ItemError(index, "each item once")
            items[text] = None
        return tuple(items)

    def schema(self) -> dict[str, object]:
        return {"type": "array", "items": self.item.schema(), "uniqueItems": True}


@dataclass(frozen=True, slots=True)
class TextOrTexts(Spec):
    """A text, or a list of different ones."""

    item: Text

    def expected(self) -> str:
        return f"{self.item.expected()}, or a list of such"

    def parse(self, value: object) -> tuple[str, ...]:
        if value == []:
            raise ValueError
        return TextList(self.item).parse(value) if isinstance(value, list) else (self.item.parse(value),)

    def schema(self) -> dict[str, object]:
        return {"anyOf": [self.item.schema(), TextList(self.item).schema() | {"minItems": 1}]}


@dataclass(frozen=True, slots=True)
class Columns(Spec):
    """One name or number for each column: a list, or (names only) the name of a file with one a line."""

    numbers: bool = False

    def expected(self) -> str:
        if self.numbers:
            return "a list of numbers"
        return "a list of different column names, or the name of a file of them"

    def parse(self, value: object) -> tuple[str, ...] | tuple[float, ...] | str:
        if self.numbers:
            if not isinstance(value, list) or not value:
                raise ValueError
            return tuple(_number_item(index, item) for index, item in enumerate(value))
        if isinstance(value, str):
            return Text().parse(value)
        if value == []:
            raise ValueError
        return TextList(Text("a column name")).parse(value)

    def schema(self) -> dict[str, object]:
        if self.numbers:
            return {"type": "array", "items": {"type": "number"}, "minItems": 1}
        return {"anyOf": [TextList(Text()).schema() | {"minItems": 1}, Text().schema()]}


def _number_item(index: int, item: object) -> float:
    try:
        return Number().parse(item)
    except ValueError:
        raise ItemError(index, Number().expected()) from None


@dataclass(frozen=True, slots=True)
class Pairs(Spec):
    """A list of pairs, each of two tasks: a name, or a number from 0."""

    def expected(self) -> str:
        return "a list of pairs [a, b], each a task's name or its number from 0"

    def parse(self, value: object) -> tuple[tuple[str | int, str | int], ...]:
        if not isinstance(value, list):
            raise ValueError
        return tuple(_pair_item(index, item) for index, item in enumerate(value))

    def schema(self) -> dict[str, object]:
        end = {"anyOf": [Text().schema(), {"type": "integer", "minimum": 0}]}
        return {"type": "array", "items": {"type": "array", "items": end, "minItems": 2, "maxItems": 2}}


def _pair_item(index: int, item: object) -> tuple[str | int, str | int]:
    try:
        if not isinstance(item, list) or len(item) != 2:
            raise ValueError
        first, second = (Text().parse(end) if isinstance(end, str) else Integer(0).parse(end) for end in item)
    except ValueError:
        raise ItemError(index, "a pair [a, b], each a task's name or its number from 0") from None
    return first, second


@dataclass(frozen=True, slots=True)
class Endpoint(Spec):
    """Where a socket listens or connects, as ZeroMQ writes it."""

    listens: bool = False
    """Whether all addresses of a host (0.0.0.0, [::]) may be meant."""
    where_to_listen: str = "where the reducer listens is reducer.bind"
    """For whoever gives such an address to connect to."""

    def expected(self) -> str:
        return "tcp://host:port or ipc://path"

    def parse(self, value: object) -> str:
        import ipaddress

        if not isinstance(value, str):
            raise ValueError
        if re.fullmatch("ipc://[^\0-\x1f\x7f\ud800-\udfff]+", value):
            if len(value.encode()) > 106:
                raise ValueError("a socket's path has at most 100 bytes")
            return value
        parts = re.fullmatch(r"tcp://(\[.*\]|[^:/\[\]]+):([0-9]+)", value)
        if not parts:
            raise ValueError("an IPv6 address stands in brackets" if value.count(":") > 2 else "")
        host, port = parts.groups()
        if port.startswith("0") or len(port) > 5 or int(port) > 65535:
            raise ValueError("a port is a number from 1 to 65535")
        everywhere = host == "*"
        if re.fullmatch(r"\[[0-9A-Fa-f:.]+(%[A-Za-z0-9_.-]+)?\]|[0-9.]+", host):
            try:
                everywhere = ipaddress.ip_address(host.strip("[]")).is_unspecified
            except ValueError:
                raise ValueError(f"{host} is not an IP address") from None
        elif not everywhere and (
            len(host) > 253 or not re.fullmatch(r"(?!-)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?", host)
        ):
            raise ValueError
        if everywhere and not self.listens:
            raise ValueError(f"nobody can connect to {host}; {self.where_to_listen}")
        if host == "*":
            raise ValueError("write 0.0.0.0 for all addresses of this host")
        return value

    def schema(self) -> dict[str, object]:
        return {"type": "string", "pattern": "^(tcp://.+:[0-9]{1,5}|ipc://.+)$"}


@dataclass(frozen=True, slots=True)
class Endpoints(Spec):
    """A list of endpoints; those to connect to are different ones."""

    item: Endpoint

    def expected(self) -> str:
        return f"a list of endpoints, each {self.item.expected()}"

    def parse(self, value: object) -> tuple[str, ...]:
        if not isinstance(value, list) or not value:
            raise ValueError
        endpoints: list[str] = []
        seen: set[str] = set()
        for index, item in enumerate(value):
            try:
                endpoints.append(self.item.parse(item))
            except ValueError as error:
                raise ItemError(index, self.item.expected(), str(error)) from None
            if not self.item.listens and endpoints[-1] in seen:
                raise ItemError(index, "each endpoint once")
            seen.add(endpoints[-1])
        return tuple(endpoints)

    def schema(self) -> dict[str, object]:
        array = {"type": "array", "items": self.item.schema(), "minItems": 1}
        return array if self.item.listens else array | {"uniqueItems": True}


@dataclass(frozen=True, slots=True)
class EndpointsOf(Spec):
    """Where each task listens: one endpoint for all, with {task} for a task's name in its safe form, or a list."""

    item: Endpoint

    def expected(self) -> str:
        return f"{self.item.expected()}, with {{task}} for the task's name, or a list of endpoints, one a task"

    def parse(self, value: object) -> str | tuple[str, ...]:
        if isinstance(value, str):
            self.item.parse(value.replace("{task}", "task"))
            return value
        return Endpoints(self.item).parse(value)

    def schema(self) -> dict[str, object]:
        return {"anyOf": [self.item.schema(), Endpoints(self.item).schema()]}


def option(spec: Spec, default: Any = REQUIRED, *, doc: str, key: str = "") -> Any:
    """A dataclass field with its spec.

    Args:
        spec: What it accepts. A default of None means that the key may be left out, or be null.
        default: Its value where the key is absent; without it the key is required.
        doc: One sentence for the reference and the schema, with the unit and the source.
        key: Its name in the YAML where that is not the field's (``lambda`` is a word of Python).
    """
    return dataclasses.field(default=default, metadata={"spec": spec, "doc": doc, "key": key}, kw_only=True)


@dataclass(frozen=True, slots=True)
class Setting:
    """What `option` has kept about one field."""

    field: str
    key: str
    """Its name in the YAML."""
    spec: Spec
    default: Any
    """`REQUIRED` where there is none."""
    doc: str


def settings_of(section: type) -> dict[str, Setting]:
    """The settings of a dataclass by their YAML keys, in order; fields not made by `option` are left out."""
    settings = {}
    for field in dataclasses.fields(section):
        if "spec" in field.metadata:
            key = field.metadata["key"] or field.name
            settings[key] = Setting(field.name, key, field.metadata["spec"], field.default, field.metadata["doc"])
    return settings
