"""What a run says of sharing: what it gained each task, what the experts weigh, how noisy the labels look."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from helpers import random_streams

from drom_net.algorithms.adadrom.learner import adadrom
from drom_net.algorithms.adadrom.mixing import EVIDENCE, EXPERTS
from drom_net.core.errors import UsageError
from drom_net.learning.metrics import Totals
from drom_net.learning.records import TASK_DTYPE
from drom_net.learning.reference import run_reference
from drom_net.plots.sharing import draw_sharing
from drom_net.results.run_directory import aucs
from drom_net.results.sharing import Figures, sharing_figures, sharing_sections
from drom_net.results.summary import TaskFigures, summarize
from drom_net.results.verdict import _nats, effect_in_words, sharing_verdict, verdict


def evidence(**counts: float) -> np.ndarray:
    return np.array([float(counts.get(name, 0.0)) for name in EVIDENCE])


EVEN = np.full(len(EXPERTS), 1.0 / len(EXPERTS))


def test_the_figures_are_those_of_the_records() -> None:
    streams = random_streams([200, 150, 90], flip=0.1)
    result = run_reference(adadrom(), streams, seed=0)
    for task, rows in zip(result.tasks, result.task_records, strict=True):
        found = sharing_figures(task.model["mixture"], task.model["evidence"])
        records = np.frombuffer(rows, TASK_DTYPE)
        wrong = np.where(records["score"] >= 0.0, 1.0, -1.0) != records["label"]
        sure = (np.abs(records["score"]) / 0.4) ** 4
        assert found["errors"] == wrong.sum() == task.totals.seen_errors
        assert found["error_rate"] == task.totals.seen_error_rate
        assert found["noise"] == pytest.approx(sure[wrong].sum() / sure.sum(), abs=1e-12)
        assert sum(found["weights_at_end"].values()) == pytest.approx(1.0)
        assert found["weight_at_end"] == pytest.approx(
            1.0 - found["weights_at_end"]["local"] - found["weights_at_end"]["local ridge"]
        )
        alone = dict(zip(EVIDENCE, task.model["evidence"], strict=True))["loss_alone"]
        assert found["gain_nats"] == pytest.approx((alone - records["loss"].sum()) / len(records), abs=1e-12)


def test_alone_is_what_a_task_would_have_done_whatever_the_others_send() -> None:
    (stream,) = random_streams([200], flip=0.1)
    others = random_streams([200] * 3, seed=9)
    by_itself, together = (run_reference(adadrom(), some, seed=0).tasks[0] for some in ([stream], [stream, *others]))
    found = [sharing_figures(task.model["mixture"], task.model["evidence"]) for task in (by_itself, together)]
    assert found[0]["errors_alone"] == found[1]["errors_alone"] > 0
    assert found[0]["gain_nats"] != found[1]["gain_nats"]


def test_the_noise_follows_the_flipped_labels_and_names_the_one_noisy_task() -> None:
    def noise(flips: list[float]) -> list[float]:
        streams = [random_streams([600] * 4, flip=flip)[task] for task, flip in enumerate(flips)]
        result = run_reference(adadrom(), streams, seed=0)
        return [sharing_figures(task.model["mixture"], task.model["evidence"])["noise"] for task in result.tasks]

    means = [float(np.mean(noise([flip] * 4))) for flip in (0.0, 0.1, 0.2)]
    assert means[0] < 0.05
    assert means[1] == pytest.approx(0.1 + means[0], abs=0.04)
    assert means[2] == pytest.approx(0.2 + means[0], abs=0.05)
    one = noise([0.0, 0.0, 0.2, 0.0])
    assert one[2] > 0.15 > 2 * max(one[:2] + one[3:])


def test_nothing_is_said_where_there_is_too_little() -> None:
    empty = sharing_figures(EVEN, evidence())
    assert (empty["errors"], empty["error_rate"], empty["gain_points"], empty["noise"]) == (0, None, None, None)
    assert empty["weight_at_end"] == pytest.approx(7 / 9)
    counts = {"examples": 19, "errors": 4, "errors_alone": 5, "weight_of_sharing": 9.5}
    counts |= {"confidence": 8.0, "confident_errors": 2.0}
    few = sharing_figures(EVEN, evidence(**counts))
    assert (few["noise"], few["weight"]) == (None, 0.5)
    assert few["gain_points"] == pytest.approx(100 / 19)
    assert sharing_figures(EVEN, evidence(**counts | {"examples": 20}))["noise"] == 0.25
    counts |= {"examples": 20, "confidence": 0.0, "confident_errors": 0.0}
    assert sharing_figures(EVEN, evidence(**counts))["noise"] is None


def of(errors: int, alone: int, examples: int = 400, *, nats: float = 0.0, level: float | None = 0.025) -> Figures:
    """Of one of two tasks, in which 30 predictions were other ones than alone, or as many as errors differ.

    Args:
        nats: How much log loss sharing gained, of ranges whose squared halves have the sum 10.
    """
    counts = {
        "examples": examples,
        "errors": errors,
        "errors_alone": alone,
        "disagreements": max(30, abs(errors - alone)),
    }
    return sharing_figures(EVEN, evidence(**counts, loss_alone=nats, loss_variance=10.0), level)


NO_NUMBER = "; where no number stands, it would take more than 100 times the examples so far"


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        (
            [of(10, 90), of(15, 15)],
            [
                "sharing helps: 3.12 % errors instead of 13.12 % alone, +10.00 points [5.42, 14.58]",
                "sharing helps 1 of 2 tasks: a +20.00 points [11.84, 28.16]",
                f"cannot tell yet of 1 of 2 tasks: b{NO_NUMBER}",
            ],
        ),
        (
            [of(90, 10), of(10, 20)],
            [
                "sharing hurts: 12.50 % errors instead of 3.75 % alone, -8.75 points [-13.33, -4.17]",
                "sharing hurts 1 of 2 tasks: a -20.00 points [-28.16, -11.84]",
                "cannot tell yet of 1 of 2 tasks: b (about 1300 more examples)",
            ],
        ),
        (
            [of(10, 11), of(11, 10, nats=16.0)],
            [
                "sharing helps (log loss): 2.62 % errors, as alone, +0.020 nats [0.002, 0.038]",
                "sharing helps 1 of 2 tasks: b (log loss) +0.040 nats [0.012, 0.068]",
                f"cannot tell yet of 1 of 2 tasks: a{NO_NUMBER}",
            ],
        ),
        (
            [of(10, 20), of(20, 10)],
            [
                "sharing: cannot tell yet whether it helps: 3.75 % errors, as alone, +0.00 points [-3.31, 3.31]",
                "cannot tell yet of 2 of 2 tasks: a (about 1300 more examples), b (about 1300 more examples)",
            ],
        ),
        (
            [of(10, 11, nats=-1.0), of(10, 12), of(10, 14), of(10, 19), of(0, 0, examples=0), of(10, 18)],
            [
                "sharing: cannot tell yet whether it helps, about 6800 more examples: "
                "2.50 % errors instead of 3.70 % alone, +1.20 points [-1.19, 3.59]",
                "cannot tell yet of 6 of 6 tasks: d (about 1700 more examples), f (about 2300 more examples), "
                "c (about 12000 more examples) and 3 more",
            ],
        ),
    ],
    ids=["helps", "hurts", "log loss alone", "as good", "many"],
)
def test_the_verdict_says_what_is_sure_and_how_long_the_rest_takes(tasks: list[Figures], said: list[str]) -> None:
    names, better = "abcdef"[: len(tasks)], [True] * len(tasks)
    examples = 400 * sum(task["error_rate"] is not None for task in tasks)
    sums = {key: sum(task[key] for task in tasks) for key in ("errors", "errors_alone")}
    differ = sum(max(30, abs(task["errors"] - task["errors_alone"])) for task in tasks)
    nats = 400 * sum(task["gain_nats"] or 0.0 for task in tasks)
    variance = 10.0 * len(tasks)
    together = evidence(examples=examples, **sums, disagreements=differ, loss_alone=nats, loss_variance=variance)
    overall = sharing_figures(EVEN, together, 0.05)
    assert sharing_verdict(names, tasks, overall, flipped=False, useful=True, better=better) == said
    flipped = sharing_verdict(names, tasks, overall, flipped=True, useful=True, better=better)
    assert "alone, by the labels seen, " in flipped[0]


def test_an_effect_is_told_with_the_interval_that_tells_it() -> None:
    its = {"effect": "helps", "gain_points_interval": [-0.1, 0.5], "gain_nats_interval": [0.00012, 0.039]}
    by_nats = "helps (log loss) [0.0001, 0.039] nats"
    assert effect_in_words(its) == effect_in_words(its | {"effect_by": "log loss"}) == by_nats  # at first of before
    assert effect_in_words(its | {"effect_by": "errors"}) == "helps [-0.10, 0.50]", "effect_by counts where it is there"
    assert effect_in_words(its | {"gain_nats_interval": None}) == "helps (log loss)"
    assert effect_in_words(its | {"effect": "cannot tell yet", "effect_by": None}) == "cannot tell yet [-0.10, 0.50]"
    assert effect_in_words({"effect": None}) == effect_in_words(None) == ""


def test_a_task_that_is_no_better_than_its_majority_is_not_called_helped() -> None:
    tasks = [of(10, 90), of(10, 90), of(90, 10)]
    said = sharing_verdict("abc", tasks, of(110, 190, 1200), flipped=False, useful=True, better=[True, False, False])
    assert [line.split(":")[0] for line in said[1:]] == ["sharing helps 1 of 3 tasks", "sharing hurts 1 of 3 tasks"]


def test_levels_are_of_all_tasks_and_of_all_together() -> None:
    counts = evidence(examples=400, errors=10, errors_alone=28, disagreements=18, loss_alone=12.0, loss_variance=10.0)

    def effects(num_tasks: int) -> tuple[str | None, str | None, int | None]:
        overall, (first, *_) = sharing_sections(np.stack([EVEN] * num_tasks), np.stack([counts] * num_tasks))
        return overall["effect"], first["effect"], first["examples_missing"]

    assert effects(1) == (None, None, None), "there is nobody to share with"
    assert effects(2) == ("helps", "helps", None)
    of_all, of_each, more = effects(50)
    assert (of_all, of_each) == ("helps", "cannot tell yet")
    assert more is not None and more > 0


def test_of_a_run_by_an_earlier_version_no_evidence_is_known() -> None:
    overall, of_tasks = sharing_sections(np.stack([EVEN] * 2), np.ones((2, 8)))
    assert [figures["effect"] for figures in (overall, *of_tasks)] == [None] * 3
    said = sharing_verdict("ab", of_tasks, overall, flipped=False, useful=True, better=[True] * 2)
    assert said == ["sharing: 100.00 % errors, as alone"]


def judged(
    errors: int, majority: int, positives: int = 200, examples: int = 400, seen_errors: int | None = None
) -> Totals:
    return Totals(
        examples=examples,
        errors=errors,
        true_positives=positives,
        seen_errors=errors if seen_errors is None else seen_errors,
        majority_errors=majority,
        log_loss_sum=0.5 * examples,
    )


NO_BETTER = "no better than always giving each site's commoner label: "


@pytest.mark.parametrize(
    ("counts", "dim", "auc", "rates", "why"),
    [
        (
            *(judged(150, 150), 3, 0.5, "37.50 % errors against 37.50 %"),
            "the columns may not tell the label, or labels may be wrong: look at `drom-net data stats FILE`",
        ),
        (
            *(judged(21, 20, positives=20), 3, 0.8125, "5.25 % errors against 5.00 %"),
            "only 5.0 % of the labels are +1, so the error says little: look at AUC (0.812) and log loss (0.500)",
        ),
        (
            *(judged(21, 20, positives=380), 3, None, "5.25 % errors against 5.00 %"),
            "only 5.0 % of the labels are -1, so the error says little: look at log loss",
        ),
        (
            *(judged(200, 190), 41, 0.5, "50.00 % errors against 47.50 %"),
            "there may be too few examples, 400 for 41 features",
        ),
        (
            *(judged(200, 190, seen_errors=199), 40, 0.5, "50.00 % errors against 47.50 %"),
            "labels were flipped (data.flip)",
        ),
        (judged(0, 0, positives=400), 3, None, "0.00 % errors against 0.00 %", "every label is +1"),
    ],
    ids=["columns", "rare", "rare without AUC", "few", "noise", "one label"],
)
def test_a_run_that_is_no_better_than_its_majority_says_so_first_and_why(
    counts: Totals, dim: int, auc: float | None, rates: str, why: str
) -> None:
    alone = of(10, 20, level=None)
    found = verdict(["a"], [counts], alone, [alone], dim=dim, auc=auc)
    assert found == [f"{NO_BETTER}{rates}; {why}", "sharing: there is one task, and nobody to share with"]


def test_nothing_helped_where_the_run_is_no_better_than_its_majority() -> None:
    """The run of the issue: 51.3 % errors instead of 52 % alone, and always the commoner label has 48.5 %."""
    counts = [judged(205, 194), judged(206, 194), judged(206, 195)]
    sharing = [of(205, 210), of(206, 208), of(206, 206)]
    first, second = verdict("abc", counts, of(617, 624, 1200), sharing, dim=3, auc=0.5)
    assert first.startswith(NO_BETTER + "51.42 % errors against 48.58 %; ")
    assert second == "sharing: 51.42 % errors instead of 52.00 % alone"
    sure = [of(205, 300), of(206, 300), of(206, 300)]
    said = verdict("abc", counts, of(617, 900, 1200), sure, dim=3, auc=0.5)
    assert len(said) == 2 and not any("helps" in sentence for sentence in said)


def test_tasks_that_are_no_better_than_their_majority_are_named_and_not_helped() -> None:
    good, bad = judged(40, 200), judged(100, 80)
    said = verdict("ab", [good, bad], of(140, 280, 800), [of(40, 110), of(100, 170)], dim=3, auc=0.9)
    assert said == [
        "tasks no better than their commoner label: b (25.00 % errors against 20.00 %)",
        "sharing helps: 17.50 % errors instead of 35.00 % alone, +17.50 points [12.00, 23.00]",
        "sharing helps 1 of 2 tasks: a +17.50 points [9.90, 25.10]",
    ]
    (many,) = verdict("abcdef", [good, *[bad] * 5], None, [], dim=3, auc=0.9)
    assert many.count("(25.00 %") == 3 and many.endswith(" and 2 more")
    assert verdict("ab", [good, good], None, [], dim=3, auc=0.9) == []
    few = [judged(3, 2, examples=examples) for examples in (5, 19, 20)]
    (only,) = verdict("abcd", [good, *few], None, [], dim=3, auc=0.9)
    assert only == "tasks no better than their commoner label: d (15.00 % errors against 10.00 %)"
    assert verdict("abc", [good, *few[:2]], None, [], dim=3, auc=0.9) == [], "rows that say nothing"


def test_a_summary_has_sharing_where_it_is_known_of_all_tasks() -> None:
    def document(*counts: np.ndarray | None) -> dict[str, object]:
        tasks = [
            TaskFigures(name, 9, Totals(), mixture=None if its is None else EVEN, evidence=its)
            for name, its in zip("ab", counts, strict=True)
        ]
        found = summarize(tasks, about={}, driver="reference", rounds=9, seconds=1.0, digest="")
        json.dumps(found, allow_nan=False)
        return found

    empty, full = (
        evidence(),
        evidence(examples=50, errors=5, errors_alone=10, weight_of_sharing=40, confidence=10, disagreements=5),
    )
    both = document(full, full)
    overall = both["sharing"]
    assert isinstance(overall, dict)
    assert (overall["errors"], overall["errors_alone"], overall["gain_points"]) == (10, 20, 10.0)
    assert (overall["weight"], overall["noise"]) == (0.8, 0.0)
    reach = math.sqrt(2.0 * math.log(40.0)) / 100
    assert (overall["effect"], overall["gain_nats_interval"]) == ("cannot tell yet", pytest.approx([-reach, reach]))
    assert both["verdict"] == ["sharing: 10.00 % errors instead of 20.00 % alone"], "no better than the majority"
    assert [task["sharing"]["gain_points"] for task in both["tasks"]] == [10.0, 10.0]  # type: ignore[attr-defined]
    assert document(empty, empty)["verdict"] == ["sharing: there were no examples"]
    assert document(empty, full)["sharing"]["gain_points"] == 10.0  # type: ignore[index]
    for some in (document(None, None), document(full, None)):
        assert "sharing" not in some
        assert all("sharing" not in task for task in some["tasks"])  # type: ignore[attr-defined]


def test_the_picture_has_the_tasks_in_the_order_given(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    figures = [of(10, 12), of(10, 30), of(13, 10), of(0, 0, examples=0)]
    for name in ("a.svg", "b.svg"):
        draw_sharing(["one", "two", "$x$", "none"], figures, tmp_path / name, "a $title$")
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text()
    places = [text.index(f"<!-- {name} -->") for name in ("one", "two", "$x$", "alone", "which lost", *EXPERTS[1:])]
    assert places[:3] == sorted(places[:3])
    assert "a $title$" in text and "<!-- none -->" not in text
    with pytest.raises(UsageError, match="no task has any examples"):
        draw_sharing(["none"], figures[3:], tmp_path / "c.png", "")
    assert not (tmp_path / "c.png").exists()


def test_of_many_tasks_those_are_drawn_that_gained_or_lost_most(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    figures = [of(100, 50 + task) for task in range(100)]
    figures[1], figures[90] = figures[90], figures[1]
    draw_sharing([f"site-{task}" for task in range(100)], figures, tmp_path / "a.svg", "many")
    text = (tmp_path / "a.svg").read_text()
    assert "many: 40 of 100 tasks, those that gained or lost most" in text
    shown = [int(task) for task in re.findall(r"<!-- site-(\d+) -->", text)]
    assert shown == [*range(20), *range(80, 100)]


def test_the_auc_is_of_the_labelled_predictions() -> None:
    """A row without a label is predicted, and says nothing of the ranking; it does not take the AUC of all away."""
    rows = np.zeros(5, TASK_DTYPE)
    rows["active"] = [1, 1, 2, 0, 1]
    rows["score"] = [-1.0, 2.0, 9.0, 0.0, 1.0]
    rows["clean_label"] = [-1.0, 1.0, 0.0, 0.0, -1.0]
    assert aucs([rows, rows[:3]], [3, 2]) == (1.0, [1.0, 1.0])
    assert aucs([rows, rows[1:]], [3, 3]) == (None, [1.0, None]), "rows are missing"


def test_a_bound_shows_on_which_side_of_0_it_is() -> None:
    assert [_nats(value) for value in (0.0204, -0.02, 0.0004, -0.00031)] == ["0.020", "-0.020", "0.0004", "-0.0003"]
