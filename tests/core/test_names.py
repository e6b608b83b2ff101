"""Names of tasks and their safe forms: for any text, a name that every file system and every engine takes."""

from __future__ import annotations

import random
import re

from hypothesis import example, given
from hypothesis import strategies as st

from drom_net.core.names import LONGEST, is_name, safe_name, safe_names, tidy

AWKWARD = [
    "reducer",
    "REDUCER",
    ".",
    "..",
    "con",
    "Nul.txt",
    "LPT1",
    "a/b",
    "\\",
    "",
    " ",
    "…",
    "東京",
    "a" * 300,
    "-",
    "_x",
]
DEVICES = {"con", "prn", "aux", "nul", *(f"{device}{digit}" for device in ("com", "lpt") for digit in range(10))}
PLAIN = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True)
NAMES = st.one_of(st.sampled_from(AWKWARD), PLAIN, st.text())


def assert_safe(form: str) -> None:
    assert re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]{0,63}", form), form
    assert form.lower() != "reducer"
    assert form.lower().partition(".")[0] not in DEVICES


@given(NAMES)
@example("\ud800")
def test_any_text_has_a_safe_form(name: str) -> None:
    form = safe_name(name)
    assert_safe(form)
    assert form == safe_name(name) == safe_name(form), "deterministic, and safe itself"


@given(PLAIN)
def test_a_name_that_is_safe_stays_as_it_is(name: str) -> None:
    if name.lower() != "reducer" and name.lower().partition(".")[0] not in DEVICES:
        assert safe_name(name) == name


def test_safe_forms_are_the_same_on_every_machine_and_in_every_version() -> None:
    assert safe_name("Leeds General") == "Leeds-General-848e5a01"
    assert safe_name("São Paulo") == "Sao-Paulo-f00fd81d"
    assert safe_name("reducer") == "reducer-d5bb10af"
    assert safe_name("東京") == "task-130016b2"
    assert safe_names(["a", "Hull", "A"]) == ("a-ca978112", "Hull", "A-559aead0")


@given(st.lists(st.one_of(NAMES, st.sampled_from(["a", "A", "é", "É", "x-1", "X-1"])), unique=True, max_size=12))
def test_the_forms_of_a_roster_never_meet(names: list[str]) -> None:
    forms = safe_names(names)
    for form in forms:
        assert_safe(form)
    assert len({form.lower() for form in forms}) == len(names), "nor where case does not count"
    for name, form in zip(names, forms, strict=True):
        assert form == name or form not in names, "no form is the name of another task"
    shuffled = random.Random(0).sample(names, len(names))
    assert dict(zip(shuffled, safe_names(shuffled), strict=True)) == dict(zip(names, forms, strict=True))


@given(st.lists(NAMES, unique_by=lambda name: safe_name(name).lower(), max_size=12))
def test_a_name_that_meets_no_other_has_the_form_that_it_has_alone(names: list[str]) -> None:
    alone = tuple(map(safe_name, names))
    if all(form == name or form not in names for name, form in zip(names, alone, strict=True)):
        assert safe_names(names) == alone


def test_a_name_that_is_made_to_meet_the_form_of_another_does_not() -> None:
    names = ["Leeds General"]
    for _ in range(4):
        names.append(safe_names(names)[0])
    forms = safe_names(names)
    assert len(set(forms)) == 5
    assert not set(forms) & set(names)


@given(st.text())
def test_what_is_tidy_and_has_no_control_characters_is_a_name(text: str) -> None:
    name = tidy(text)
    assert tidy(name) == name
    assert not any(char.isspace() and char != " " for char in name)
    assert is_name(name) == bool(re.fullmatch(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,200}", name))


def test_white_space_and_length() -> None:
    assert tidy("\t Leeds \u00a0\r\n General ") == "Leeds General"
    assert is_name("x" * LONGEST) and not is_name("x" * (LONGEST + 1))
    assert not is_name("") and not is_name("a  b") and not is_name(" a") and not is_name("a\nb")
    assert is_name("\u202egnirts") and is_name("👩‍🌾") and is_name("a=b%c{d}$e\"f'g[red]")
