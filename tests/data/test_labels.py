"""Which label is +1: by counting and a stated rule, or as the settings say; what is refused, with the line to write."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drom_net.core.errors import DataError
from drom_net.data.cells import MISSING
from drom_net.data.datasets import load_dataset
from drom_net.data.faults import Faults
from drom_net.data.labels import NUMERIC, Labels, clashes, find_labels
from drom_net.data.settings import FileData, LiveData


def find(found: dict[str, int], **options: Any) -> tuple[Labels, str]:
    faults = Faults()
    given: dict[str, Any] = {"positive": None, "negative": None, "rest": None} | options
    labels, why = find_labels(Counter(found), 'a.csv, column "ill"', faults, **given)
    faults.raise_if_any()
    assert labels is not None
    return labels, why


def refused(found: dict[str, int], **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        find(found, **options)
    return str(caught.value).removeprefix('a.csv, column "ill": ')


YES_AND_NO = [
    *(("1", "0"), ("+1", "-1"), ("1.0", "0.0"), ("1", "-1"), ("TRUE", "FALSE"), ("True", "False"), ("true", "false")),
    *(("yes", "no"), ("Yes", "No"), ("Y", "N"), ("t", "f"), ("on", "off"), ("WAHR", "FALSCH"), ("ja", "nein")),
    *(("VRAI", "FAUX"), ("oui", "non"), ("sí", "no"), ("positive", "negative"), ("pos", "neg")),
]


@pytest.mark.parametrize(("yes", "no"), YES_AND_NO)
def test_the_one_that_means_yes_is_positive(yes: str, no: str) -> None:
    for counts in ({yes: 3, no: 5}, {no: 1, yes: 50}):
        labels, why = find(counts)
        assert (labels.sign(yes), labels.sign(no), why) == (1.0, -1.0, "it means yes")


@pytest.mark.parametrize("other", ["maybe", "healthy", "2"])
def test_one_that_means_yes_beside_anything_else_is_positive(other: str) -> None:
    labels, why = find({"yes": 50, other: 3})
    assert (labels.positive, labels.negative, why) == (("yes",), (other,), "it means yes")


def test_else_the_rarer_one_is_positive() -> None:
    labels, why = find({"ham": 50, "spam": 3, "": 7})
    assert (labels.positive, labels.negative, why) == (("spam",), ("ham",), "it is the rarer one")
    assert find({"b": 5, "a": 5})[0].positive == ("a",), "of equals the first by name"
    assert find({"2": 5, "3.0": 7})[0] == Labels(("2",), ("3",))


def test_whatever_spelling_a_number_has_it_is_the_same_label() -> None:
    labels, _ = find({"1": 3, "1.0": 4, "+1": 2, " 0 ": 2, "0.0": 2, "-0": 3})
    assert labels == Labels(("1",), ("0",))
    assert [labels.sign(label) for label in (1, 1.0, True, "1", " +1.00 ", "1e0")] == [1.0] * 6
    assert [labels.sign(label) for label in (0, -0.0, False, "0")] == [-1.0] * 4


@pytest.mark.parametrize(
    ("counts", "hint"),
    [
        ({"pos": 210, "POS": 12, "neg": 300, "pos ": 5}, 'positive: ["pos", "POS", "pos "]'),
        ({"neg": 300, "NEG": 2, "pos": 5}, 'positive: ["pos"]'),
        ({"ill": 3, "Ill": 2, "well": 5}, 'positive: ["ill", "Ill"]'),
    ],
)
def test_several_spellings_of_two_are_refused_with_the_line_to_write(counts: dict[str, int], hint: str) -> None:
    listed = ", ".join(f'"{text}" {count}' for text, count in sorted(counts.items(), key=lambda item: -item[1]))
    told = refused(counts)
    assert told == f"expected 2 labels, each spelled in one way, got {listed}; if these are the same, write: {hint}"
    chosen = tuple(json.loads(hint.removeprefix("positive: ")))
    labels, why = find(counts, positive=chosen)  # and with that line it runs
    assert why == "data.positive says so"
    signs = {labels.sign(text) for text in counts if text not in chosen}
    assert {labels.sign(text) for text in chosen} == {1.0} and signs == {-1.0}


@pytest.mark.parametrize(
    ("counts", "best", "none"),
    [
        ({"a": 5, "b": 3, "c": 9}, "b", '"a"'),
        ({"yes": 50, "no": 30, "unknown": 2}, "yes", '"unknown"'),
        ({"yes": 50, "no": 3, "unknown": 20, "pending": 9}, "yes", '["unknown", "pending"]'),
        ({"4": 5, "2": 3, "3": 9}, "2", '"4"'),
    ],
)
def test_more_than_two_labels_are_refused_with_the_line_to_write(counts: dict[str, int], best: str, none: str) -> None:
    listed = ", ".join(f'"{text}" {count}' for text, count in sorted(counts.items(), key=lambda item: -item[1]))
    assert refused(counts) == (
        f"expected two labels, got {len(counts)}: {listed}; "
        f'if "{best}" is +1 and all others -1, write: positive: "{best}" and rest: negative; '
        + ("if " + none.strip("[]").replace(", ", " and ") + (" are no labels" if "[" in none else " is no label"))
        + f", write: unlabelled: {none}"
    )
    labels, _ = find(counts, positive=(best,), rest="negative")
    assert {text: labels.sign(text) for text in counts} == {text: 1.0 if text == best else -1.0 for text in counts}
    left_out = json.loads(none) if none.startswith("[") else [json.loads(none)]
    labels, _ = find(counts, missing=tuple(left_out))
    assert {labels.sign(text) for text in left_out} == {0.0}
    assert {labels.sign(text) for text in counts if text not in left_out} == {1.0, -1.0}


def test_minus_one_and_zero_and_one() -> None:
    assert refused({"1": 3, "0": 4, "-1": 5}) == (
        'expected two labels, got 3: "-1" 5, "0" 4, "1" 3; -1 and +1, or 0 and 1; '
        'if "1" is +1 and all others -1, write: positive: "1" and rest: negative; '
        'if "0" is no label, write: unlabelled: "0"'
    )
    assert refused({"0": 4, "-1": 5}) == 'expected -1 and +1, or 0 and 1, got "-1" 5, "0" 4'


def test_a_column_of_numbers_is_regression() -> None:
    assert refused({str(number / 7): 1 for number in range(40)}) == (
        "expected two labels, for regression is not supported, got 40 different numbers; "
        "a column that says whether it is above some number can be learned"
    )


def test_at_most_eight_labels_are_listed() -> None:
    told = refused({f"level {number}": 1 for number in range(2000)})
    assert told.startswith('expected two labels, got 2000: "level 0" 1, ') and "and 1,992 more; if" in told


@pytest.mark.parametrize(
    ("only", "sign", "why"),
    [
        ("1", 1.0, 'all labels are "1", which means yes'),
        ("ja", 1.0, 'all labels are "ja", which means yes'),
        ("0", -1.0, 'all labels are "0", which means no'),
        ("-1.0", -1.0, 'all labels are "-1", which means no'),
        ("FALSCH", -1.0, 'all labels are "FALSCH", which means no'),
    ],
)
def test_one_label_that_means_something(only: str, sign: float, why: str) -> None:
    labels, told = find({only: 9})
    assert (labels.sign(only), told) == (sign, why)


def test_one_label_that_means_nothing_is_refused() -> None:
    assert refused({"ill": 9, "": 4}) == 'expected two labels, got "ill" 9; data.positive says what "ill" is'
    assert find({"ill": 9}, positive=("ill",))[0].sign("ill") == 1.0


def test_no_label_at_all() -> None:
    assert refused({"": 9, "NA": 3}) == "expected labels, got none"


# --- as the settings say -----------------------------------------------------------------------------


def test_positive_alone_leaves_one_other_label() -> None:
    labels, why = find({"spam": 50, "ham": 3}, positive=("spam",))
    assert (labels, why) == (Labels(("spam",), ("ham",)), "data.positive says so")
    assert find({"spam": 5, "ham": 3, "Ham": 2}, positive=("spam",))[0].negative == ("ham", "Ham")
    assert find({"2.0": 5, "1": 3}, positive=("2",))[0].sign(2) == 1.0


def test_positive_makes_nothing_of_further_labels_unless_rest_says_so() -> None:
    assert refused({"spam": 50, "ham": 3, "eggs": 4}, positive=("spam",)) == (
        'expected "spam" (data.positive) and one other label, got "eggs" 4, "ham" 3; '
        'if all of them are -1, write: rest: negative; if "ham" is no label, write: unlabelled: "ham"'
    )


def test_negative_lists_the_others() -> None:
    labels, _ = find({"spam": 50, "ham": 3, "eggs": 4}, positive=("spam",), negative=("ham", "eggs"))
    assert (labels.sign("ham"), labels.sign("eggs"), labels.sign("beans")) == (-1.0, -1.0, None)
    assert refused({"spam": 50, "ham": 3, "eggs": 4}, positive=("spam",), negative=("ham",)) == (
        'expected a label of data.positive or data.negative ("ham"), got "eggs" 4; '
        'list it there, or write: rest: negative; if "eggs" is no label, write: unlabelled: "eggs"'
    )


@pytest.mark.parametrize(("said", "hint"), [("spm", 'did you mean "spam"?'), ("x", 'labels are "spam" 50, "ham" 3')])
def test_a_positive_that_does_not_occur(said: str, hint: str) -> None:
    told = refused({"spam": 50, "ham": 3}, positive=(said,))
    assert told == f'data.positive: expected a label that occurs, got "{said}"; {hint}'
    labels, _ = find({"ham": 3}, positive=("spam",), sees_all=False)
    assert labels.sign("ham") == -1.0, "a node that sees its own rows may have none of it"


def test_a_node_that_sees_its_own_rows_alone_cannot_tell_which_is_rarer() -> None:
    assert refused({"spam": 5, "ham": 3}, sees_all=False) == (
        "data.positive: expected the label that is +1, for a node that sees only its own rows, got none; "
        'data.positive says which; `drom-net init` writes it: "spam" or "ham"'
    )
    assert find({"yes": 5, "no": 30}, sees_all=False)[0].positive == ("yes",)


# --- missing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [*sorted(MISSING), " ", " NA ", "k. A.", None, float("nan")])
def test_a_row_without_a_label_has_none(text: object) -> None:
    labels, _ = find({"ill": 5, "well": 9, "NA": 3, "k. A.": 2}, missing=("k. A.",))
    assert labels.sign(text) == 0.0
    assert Labels(("ill",), (), rest_is_negative=True, missing=("k. A.",)).sign(text) == 0.0


@pytest.mark.parametrize("text", ["9", "9.0", " 9.00 ", "+9"])
def test_what_is_no_label_has_any_spelling_of_it(text: str) -> None:
    labels, _ = find({"1.0": 5, "0.0": 9, "9.0": 3}, missing=(text,))
    assert [labels.sign(label) for label in ("9", "9.0", 9, 9.0, " 9e0 ")] == [0.0] * 5
    assert (labels.positive, labels.negative, labels.sign("8")) == (("1",), ("0",), None)


def test_white_space_about_what_is_no_label_does_not_matter() -> None:
    labels, _ = find({"ill": 5, "well": 9, "unknown": 3}, missing=(" unknown ",))
    assert [labels.sign(label) for label in ("unknown", "unknown ", "Unknown")] == [0.0, 0.0, None]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"positive": ["yes"], "negative": ["no"], "unlabelled": ["no", "?!"]}, [("unlabelled", "no", "negative")]),
        ({"positive": ["yes"], "unlabelled": [" yes"]}, [("unlabelled", " yes", "positive")]),
        ({"positive": ["1"], "negative": ["0.0"], "missing": ["0"]}, [("missing", "0", "negative")]),
        ({"positive": ["1"], "negative": ["0", "+1.0"]}, [("negative", "+1.0", "positive")]),
        ({"positive": ["yes"], "negative": ["NA"]}, [("negative", "NA", "")]),
        ({"positive": None, "negative": ["no"], "rest": None}, [("positive", "", "negative")]),
        ({"positive": None, "rest": "negative"}, [("positive", "", "rest")]),
        ({"negative": ["no"]}, []),
        ({"positive": ["yes"], "negative": ["no"], "unlabelled": ["NO", "?!"], "missing": ["?!"]}, []),
        (dict.fromkeys(("positive", "negative", "rest", "unlabelled")) | {"missing": ("0",)}, []),
    ],
)
def test_no_label_means_two_things(said: dict[str, Any], expected: list[tuple[str, str, str]]) -> None:
    assert [(clash.key, clash.text, clash.other) for clash in clashes(said)] == expected


@pytest.mark.parametrize(
    ("yes", "no"), [("True", "False"), ("TRUE", "FALSE"), ("true", "false"), ("1", "0"), ("1", "-1")]
)
def test_truth_of_json_is_that_of_files(yes: str, no: str) -> None:
    labels, _ = find({yes: 5, no: 9})
    assert labels.sign(True) == 1.0
    assert labels.sign(False) == -1.0


def test_labels_survive_json() -> None:
    for labels in (NUMERIC, Labels(("a", "b"), (), True, ("?!",))):
        assert Labels.from_json(json.loads(json.dumps(labels.to_json()))) == labels


# --- in files ----------------------------------------------------------------------------------------


def signs(base: Path, *labels: str, **options: Any) -> tuple[list[float], str]:
    lines = [f"{number + 0.5},{label}" for number, label in enumerate(labels)]
    (base / "a.csv").write_text("x,ill\n" + "\n".join(lines) + "\n", encoding="utf-8")
    data = load_dataset(FileData(files="a.csv", label="ill", **options), base=base)
    [note] = [note for note in data.notes if note.startswith("labels:")]
    return data.tasks[0].labels.tolist(), note


def test_what_was_decided_is_printed(tmp_path: Path) -> None:
    assert signs(tmp_path, "well", "ill", "", "well", "NA", "well") == (
        [-1.0, 1.0, 0.0, -1.0, 0.0, -1.0],
        'labels: +1 is "ill" (1 rows; it is the rarer one), -1 "well" (3 rows), '
        "2 without a label (predicted, not learned)",
    )
    assert signs(tmp_path, "a", "b", "c", positive=("b",), rest="negative")[1] == (
        'labels: +1 is "b" (1 rows; data.positive says so), -1 every other label (2 rows)'
    )
    assert signs(tmp_path, "0", "0")[1] == (
        'labels: +1 is no label (0 rows; all labels are "0", which means no), -1 "0" (2 rows)'
    )


@pytest.mark.parametrize(("yes", "no"), YES_AND_NO)
def test_labels_of_every_spelling_just_work(tmp_path: Path, yes: str, no: str) -> None:
    assert signs(tmp_path, yes, no, no, yes, "")[0] == [1.0, -1.0, -1.0, 1.0, 0.0]


def test_errors_show_the_label_as_the_file_has_it(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        signs(tmp_path, "1.0", "+1", "0", "2.50")
    assert '"+1" 1, "0" 1, "1.0" 1, "2.50" 1' in str(caught.value)


def test_labels_are_counted_over_all_files(tmp_path: Path) -> None:
    for task, labels in (("a", "spam ham ham"), ("b", "spam spam spam"), ("c", "spam spam spam")):
        rows = "".join(f"{number},{label}\n" for number, label in enumerate(labels.split(), start=2))
        (tmp_path / f"{task}.csv").write_text("x,label\n" + rows)
    data = load_dataset(FileData(files="{task}.csv"), base=tmp_path)
    assert [task.labels.tolist() for task in data.tasks] == [[-1.0, 1.0, 1.0], [-1.0] * 3, [-1.0] * 3]


def test_live_labels_follow_the_same_rules(tmp_path: Path) -> None:
    settings = LiveData(tasks=("a",), dim=1, positive=("ill", "Ill"), negative=("well",))
    labels = load_dataset(settings, base=tmp_path).labels
    assert labels is not None
    assert [labels.sign(text) for text in ("ill", " Ill", "well", "", None, "ILL", 1)] == [1, 1, -1, 0, 0, None, None]
    numeric = load_dataset(LiveData(tasks=("a",), dim=1), base=tmp_path).labels
    assert numeric is not None
    assert [numeric.sign(label) for label in (1, "+1", True, 0, "-1", 2, "yes")] == [1, 1, 1, -1, -1, None, None]
    np.testing.assert_equal(numeric.expected, "-1 or +1 (or 0 and 1)")


@pytest.mark.parametrize("labels", [{}, {"positive": ("1",), "negative": ("0",)}])
def test_live_rows_have_what_is_no_label(tmp_path: Path, labels: dict[str, Any]) -> None:
    settings = LiveData(tasks=("a",), dim=1, unlabelled=("9.0", "unknown"), missing=("-7",), **labels)
    found = load_dataset(settings, base=tmp_path).labels
    assert found is not None
    assert [found.sign(label) for label in (9, 9.0, "9", "unknown", -7, 1, 0, 8)] == [0, 0, 0, 0, 0, 1, -1, None]


def test_zero_may_be_no_label_of_live_rows(tmp_path: Path) -> None:
    labels = load_dataset(LiveData(tasks=("a",), dim=1, unlabelled=("0",)), base=tmp_path).labels
    assert labels is not None
    assert [labels.sign(label) for label in (1, -1, 0.0, 2)] == [1, -1, 0, None]
    assert labels.expected == "-1 or +1"
