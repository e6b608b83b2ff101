"""Which of two labels is +1: counted over all files, chosen by a stated rule, and then the same everywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from drom_net.core.errors import did_you_mean
from drom_net.core.names import some_of
from drom_net.data.cells import MISSING, NO, YES, label_text
from drom_net.data.faults import Faults, parse_number, quoted

NEGATIVE = "negative"
"""The value of `data.rest`."""
_LISTED = 8
UNLABELLED = 0.0
"""The sign of a row whose label is missing."""


@dataclass(frozen=True, slots=True)
class Labels:
    """What a label means.

    Attributes:
        positive: The spellings of +1.
        negative: Those of -1.
        rest_is_negative: Whether every other one is -1, too.
        missing: What means missing beside `MISSING`.
    """

    positive: tuple[str, ...]
    negative: tuple[str, ...]
    rest_is_negative: bool = False
    missing: tuple[str, ...] = ()

    def sign(self, label: object) -> float | None:
        """-1.0 or +1.0, `UNLABELLED` where it is missing; None for what is no label."""
        if isinstance(label, bool):  # as JSON has it, for whatever the table calls it
            means = YES if label else NO
            label = next((word for word in (*self.positive, *self.negative) if word.lower() in means), label)
        text = label_text(label)
        if means_none(text, self.missing):
            return UNLABELLED
        plain = plain_label(text)
        if plain in map(plain_label, self.positive):
            return 1.0
        if self.rest_is_negative or plain in map(plain_label, self.negative):
            return -1.0
        return None

    @property
    def are_numbers(self) -> bool:
        """Whether they are as rows of numbers have them, where nothing is said of it."""
        return replace(self, missing=()) == NUMERIC

    @property
    def expected(self) -> str:
        """What a label may be, for a message."""
        if self.are_numbers:
            return "-1 or +1" if means_none("0", self.missing) else "-1 or +1 (or 0 and 1)"
        return " or ".join(map(quoted, (*self.positive, *self.negative)))

    def to_json(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {
            "positive": list(self.positive),
            "negative": list(self.negative),
            "rest_is_negative": self.rest_is_negative,
            "missing": list(self.missing),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Labels:
        """What `to_json` gave, after JSON."""
        lists = {key: tuple(value[key]) for key in ("positive", "negative", "missing")}
        return cls(**lists, rest_is_negative=value["rest_is_negative"])


NUMERIC = Labels(("1",), ("-1", "0"))
"""The labels of rows that are numbers already, where nothing else is said."""


def plain_label(text: str) -> str:
    """One way to write a label: "+1", "1.0" and " 1 " are "1"."""
    number = parse_number(text)
    return text.strip() if number is None or number != number else label_text(number)


def means_none(text: str, missing: Iterable[str]) -> bool:
    """Whether a text in the label's column says that there is no label.

    Args:
        missing: What says so beside `MISSING`, each in any spelling of a number: "9" is "9.0", too.
    """
    return text.strip() in MISSING or plain_label(text) in map(plain_label, missing)


MEANING = ("positive", "negative", "rest", "unlabelled", "missing")
"""The settings that say what labels mean."""


class Clash(NamedTuple):
    """What two settings of labels say against each other."""

    key: str
    """The one to change, of the section data."""
    text: str
    """The label; empty where a setting lacks."""
    expected: str
    other: str = ""
    """The other one; empty where a text means by itself that there is no label."""
    hint: str = ""


def clashes(said: Mapping[str, Any]) -> Iterator[Clash]:
    """Which settings of labels cannot hold together.

    Args:
        said: The settings of `MEANING`; None is as if it were not there.
    """
    signs: dict[str, str] = {}
    for key in ("positive", "negative"):
        for text in said.get(key) or ():
            other = signs.setdefault(plain_label(text), key)
            if means_none(text, ()):
                yield Clash(key, text, "a label", hint="in a file it means that there is none")
            elif other != key:
                yield Clash(key, text, f"no label of data.{other}", other)
    for key in ("unlabelled", "missing"):
        for text in said.get(key) or ():
            if other := signs.get(plain_label(text), ""):
                yield Clash(key, text, f"no label of data.{other}", other)
    if "positive" in said and not said["positive"]:
        for other in ("negative", "rest"):
            if said.get(other):
                yield Clash("positive", "", f"the label that is +1, beside data.{other}", other)


def find_labels(
    found: Counter[str],
    place: str,
    faults: Faults,
    *,
    positive: tuple[str, ...] | None,
    negative: tuple[str, ...] | None,
    rest: str | None,
    missing: tuple[str, ...] = (),
    sees_all: bool = True,
) -> tuple[Labels | None, str]:
    """What the labels mean, and how that was decided, in words; None after faults.

    Without `positive` there must be two labels: +1 is the one that means yes (`YES`), else the rarer one.

    Args:
        found: How often each label comes, as the files have it; missing ones do not count.
        place: The column, for messages.
        positive, negative, rest: As in the settings.
        sees_all: Whether these are the labels of all tasks; those of one do not tell which is rarer.
    """
    raw = Counter({text: count for text, count in found.items() if not means_none(text, missing)})
    if positive is not None:
        return _as_configured(raw, place, faults, positive, negative, rest, missing, sees_all=sees_all)
    spellings: dict[str, dict[str, None]] = {}
    for text in raw:
        written = plain_label(text) if parse_number(text) is not None else text
        spellings.setdefault(plain_label(text).casefold(), {})[written] = None
    kinds = [list(kind) for kind in spellings.values()]
    plain = [kind[0].strip() for kind in kinds]
    if not kinds:
        faults.add(place, "labels", "none")
    elif len(kinds) > 2:
        _refuse_many(plain, raw, place, faults)
    elif any(len(kind) > 1 for kind in kinds):
        several = next(kind for kind in kinds if len(kind) > 1)
        chosen = next((kind for kind in kinds if _means_yes(kind[0])), several)
        expected = f"{len(kinds)} labels, each spelled in one way"
        hint = f"if these are the same, write: positive: {_yaml_list(chosen)}"
        faults.add(place, expected, _listed(raw), hint)
    elif len(plain) == 1:
        return _of_one(plain[0], raw, place, faults, missing)
    else:
        return _of_two(plain, raw, place, faults, missing, sees_all=sees_all)
    return None, ""


def _of_one(
    only: str, raw: Counter[str], place: str, faults: Faults, missing: tuple[str, ...]
) -> tuple[Labels | None, str]:
    """All rows have one label: a word tells which it is."""
    if only in ("0", "-1") or only.lower() in NO:
        return Labels((), (only,), missing=missing), f"all labels are {quoted(only)}, which means no"
    if only != "1" and only.lower() not in YES:
        faults.add(place, "two labels", _listed(raw), f"data.positive says what {quoted(only)} is")
        return None, ""
    return Labels((only,), (), missing=missing), f"all labels are {quoted(only)}, which means yes"


def _of_two(
    plain: Sequence[str], raw: Counter[str], place: str, faults: Faults, missing: tuple[str, ...], *, sees_all: bool
) -> tuple[Labels | None, str]:
    """+1 is the one that means yes, else the rarer one."""
    yes = [label for label in plain if _means_yes(label)]
    if yes == ["1"] and not {"0", "-1"} & {*plain}:
        yes = []  # of 1 and 2 nobody knows
    if len(yes) == 1:
        chosen, why = yes[0], "it means yes"
    elif set(plain) == {"0", "-1"}:
        faults.add(place, "-1 and +1, or 0 and 1", _listed(raw))
        return None, ""
    elif not sees_all:
        hint = f"data.positive says which; `drom-net init` writes it: {' or '.join(map(quoted, plain))}"
        faults.add("data.positive", "the label that is +1, for a node that sees only its own rows", "none", hint)
        return None, ""
    else:
        chosen = min(plain, key=lambda label: (_count(raw, label), label))
        rarer = _count(raw, chosen) < sum(raw.values()) / 2
        why = "it is the rarer one" if rarer else "both are as frequent; data.positive may say the other"
    other = next(label for label in plain if label != chosen)
    return Labels((chosen,), (other,), missing=missing), why


def _as_configured(
    raw: Counter[str],
    place: str,
    faults: Faults,
    positive: tuple[str, ...],
    negative: tuple[str, ...] | None,
    rest: str | None,
    missing: tuple[str, ...],
    *,
    sees_all: bool,
) -> tuple[Labels | None, str]:
    """The settings say which is +1: the others must be -1."""
    ours = {plain_label(text) for text in positive}
    occurring = {plain_label(text) for text in raw}
    if sees_all and raw and not ours & occurring and not occurring <= {*map(plain_label, negative or ())}:
        hint = did_you_mean(positive[0], sorted(occurring)) or f"labels are {_listed(raw)}"
        faults.add("data.positive", "a label that occurs", quoted(positive[0]), hint)
        return None, ""
    others = {plain_label(text): text.strip() for text in raw if plain_label(text) not in ours}
    if rest == NEGATIVE:
        return Labels(positive, negative or (), rest_is_negative=True, missing=missing), "data.positive says so"
    if negative is None:
        kinds = {text.casefold() for text in others}
        if len(kinds) > 1:
            left = Counter({text: count for text, count in raw.items() if plain_label(text) in others})
            none = _likely_none(list(others.values()), left)
            hint = "if all of them are -1, write: rest: negative; " + _left_out(none)
            expected = f"{' or '.join(map(quoted, positive))} (data.positive) and one other label"
            faults.add(place, expected, _listed(left), hint)
            return None, ""
        negative = tuple(others.values())
    else:
        known = {plain_label(text) for text in negative}
        odd = Counter({text: count for text, count in raw.items() if plain_label(text) in others.keys() - known})
        if odd:
            hint = "list it there, or write: rest: negative; " + _left_out(list(odd))
            expected = f"a label of data.positive or data.negative ({', '.join(map(quoted, negative))})"
            faults.add(place, expected, _listed(odd), hint)
            return None, ""
    return Labels(positive, negative, missing=missing), "data.positive says so"


def _refuse_many(plain: list[str], raw: Counter[str], place: str, faults: Faults) -> None:
    numbers = [parse_number(text) for text in plain]
    if None not in numbers and len(plain) > _LISTED:
        got = f"{len(plain)} different numbers"
        hint = "a column that says whether it is above some number can be learned"
        faults.add(place, "two labels, for regression is not supported", got, hint)
        return
    coded = bool({"0", "-1"} & {*plain})
    words = [text for text in plain if _means_yes(text) and (coded or parse_number(text) is None)]
    best = words[0] if words else min(plain, key=lambda text: (_count(raw, text), text))
    hint = f"if {quoted(best)} is +1 and all others -1, write: positive: {quoted(best)} and rest: negative"
    if {plain_label(text) for text in plain} == {"0", "1", "-1"}:
        hint = "-1 and +1, or 0 and 1; " + hint
    hint += "; " + _left_out(_likely_none([text for text in plain if text != best], raw))
    faults.add(place, "two labels", f"{len(plain)}: {_listed(raw)}", hint)


def _likely_none(plain: Sequence[str], raw: Counter[str]) -> list[str]:
    """Which of the labels beside +1 may be none: those that do not mean no, where one does; else the rarest."""
    others = [text for text in plain if text.lower() not in NO]
    if len(others) == len(plain) - 1:
        return others
    return [min(plain, key=lambda text: (_count(raw, text), text))]


def _left_out(texts: Sequence[str]) -> str:
    """How to say that these are no labels."""
    if len(texts) == 1:
        return f"if {quoted(texts[0])} is no label, write: unlabelled: {quoted(texts[0])}"
    shown = texts[:_LISTED]
    return f"if {' and '.join(map(quoted, shown))} are no labels, write: unlabelled: {_yaml_list(shown)}"


def _means_yes(label: str) -> bool:
    return label.strip().lower() in YES


def _count(raw: Counter[str], plain: str) -> int:
    return sum(count for text, count in raw.items() if plain_label(text) == plain)


def _listed(raw: Counter[str]) -> str:
    """``"pos" 210, "POS" 12``, the most frequent first."""
    shown = [f"{quoted(text)} {count:,}" for text, count in sorted(raw.items(), key=lambda item: (-item[1], item[0]))]
    return some_of(shown, _LISTED)


def _yaml_list(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(quoted, texts))}]"
