"""Who worked, waited for words under way, and waited for words not said yet: by rows made up by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers import graph_of

from drom_net.algorithms.base import SyncRounds
from drom_net.core.errors import UsageError
from drom_net.graph.graph import GraphSchedule
from drom_net.graph.neighborhood import Neighborhood, neighborhoods
from drom_net.plots.timeline import Timeline, draw_timeline, draw_timelines
from drom_net.protocol.node import TIMES_DTYPE
from drom_net.results.timeline import (
    KINDS,
    Disturbance,
    Lane,
    Rows,
    Spent,
    lost_lane,
    make_lanes,
    peer_words,
    star_words,
)


def rows_of(*rows: tuple[int, float, float, float]) -> Rows:
    return np.array(list(rows), dtype=TIMES_DTYPE)


def hoods(kind: str, taus: list[int], **settings: object) -> list[Neighborhood]:
    schedule = GraphSchedule((graph_of(kind, len(taus), **settings),))
    return neighborhoods(schedule, [SyncRounds(tau) for tau in taus])


def pairs(lane: Lane, kind: str) -> list[list[float]]:
    return lane.segments(kind).tolist()


FAST = rows_of((0, 0, 0, 0), (1, 1, 1, 5), (2, 6, 6, 9), (2, 9, 9, 9))
SLOW = rows_of((0, 1, 1, 1), (1, 4, 4, 4.5), (2, 8, 8, 8.25), (2, 8.25, 8.25, 8.25))


def test_a_wait_is_idle_until_the_last_word_is_said_and_communication_from_then_on() -> None:
    fast, slow = make_lanes(["fast", "slow"], [FAST, SLOW], star_words([FAST, SLOW]))
    assert pairs(fast, "local") == [[0, 1], [5, 6]]
    assert pairs(fast, "idle") == [[1, 4], [6, 8]]
    assert pairs(fast, "communication") == [[4, 5], [8, 9]]
    assert pairs(slow, "local") == [[1, 4], [4.5, 8]]
    assert pairs(slow, "idle") == []
    assert pairs(slow, "communication") == [[4, 4.5], [8, 8.25]]
    assert fast.spent == Spent(local_s=2, communication_s=2, idle_s=5)


def test_the_segments_of_a_lane_are_all_of_its_time() -> None:
    rng = np.random.default_rng(3)
    rows = []
    for _ in range(4):
        times = np.zeros(30, dtype=TIMES_DTYPE)
        times["round"] = np.arange(30)
        steps = np.cumsum(rng.random(90)).reshape(30, 3)
        times["sent_s"], times["idle_s"], times["closed_s"] = steps.T
        rows.append(times)
    for lane, own in zip(make_lanes(list("abcd"), rows, star_words(rows)), rows, strict=True):
        found = np.concatenate([lane.segments(kind) for kind in KINDS])
        found = found[np.argsort(found[:, 0])]
        assert found[0, 0] == own["closed_s"][0]
        assert found[-1, 1] == own["closed_s"][-1]
        assert (found[1:, 0] == found[:-1, 1]).all()
        assert sum(lane.spent) == pytest.approx(own["closed_s"][-1] - own["closed_s"][0])


def test_what_is_done_while_a_word_travels_is_local() -> None:
    """exchange: overlap; said at 1, the next example done at 3, and by then the other's word was under way."""
    overlap = rows_of((0, 0, 0, 0), (1, 1, 3, 5), (1, 5, 5, 5))
    other = rows_of((0, 0, 0, 0), (1, 2, 4, 4), (1, 4, 4, 4))
    lane, _ = make_lanes(["a", "b"], [overlap, other], star_words([overlap, other]))
    assert pairs(lane, "local") == [[0, 3]]
    assert pairs(lane, "idle") == []
    assert pairs(lane, "communication") == [[3, 5]]


def test_a_clock_that_is_ahead_does_not_put_a_word_behind_its_use() -> None:
    ahead = SLOW.copy()
    for field in ("sent_s", "idle_s", "closed_s"):
        ahead[field] += 100.0
    lane, _ = make_lanes(["a", "b"], [FAST, ahead], star_words([FAST, ahead]))
    assert pairs(lane, "idle") == [[1, 5], [6, 9]]
    assert pairs(lane, "communication") == []


def test_a_task_that_did_not_begin_has_an_empty_lane() -> None:
    nothing = rows_of()
    _, lane = make_lanes(["a", "b"], [FAST, nothing], star_words([FAST, nothing]))
    assert lane.spent == Spent(0, 0, 0)
    assert pairs(lane, "local") == []


def test_in_a_star_a_task_that_has_ended_is_not_waited_for() -> None:
    longer = rows_of((0, 0, 0, 0), (1, 1, 1, 2), (2, 3, 3, 4), (3, 5, 5, 6), (3, 6, 6, 6))
    words = star_words([FAST, longer])
    assert words(1, 2) == [(0, 2), (1, 2)]
    assert words(1, 3) == [(1, 3)]


LONG = rows_of((0, 0, 0, 0), (12, 50, 50, 50))


def test_peers_wait_for_the_neighbors_words_that_count() -> None:
    words = peer_words(hoods("path", [2, 3, 2]), [LONG] * 3, rounds=None, delayed=False)
    assert words(1, 3) == [(0, 2), (2, 2)]
    assert words(1, 6) == [(0, 6), (2, 6)]
    assert words(0, 2) == []  # the middle one has said nothing yet
    assert words(0, 4) == [(1, 3)]


def test_delayed_peers_wait_for_the_words_of_the_sync_round_before() -> None:
    words = peer_words(hoods("ring", [2, 2, 2]), [LONG] * 3, rounds=None, delayed=True)
    assert words(0, 2) == []
    assert words(0, 6) == [(1, 4), (2, 4)]


@pytest.mark.parametrize(("limit", "expected"), [(None, 6), (6, 6), (5, 9)])
def test_a_last_word_stays_and_there_is_none_where_the_run_ends_before(limit: int | None, expected: int) -> None:
    """The neighbor's last example is that of round 5: it says its last word in sync round 6."""
    short = rows_of((0, 0, 0, 0), (3, 1, 1, 1), (5, 20, 20, 20))
    words = peer_words(hoods("path", [3, 3]), [LONG, short], rounds=limit, delayed=False)
    assert words(0, 9) == [(1, expected)]


def test_a_last_word_behind_the_last_round_is_said_when_learning_ends() -> None:
    short = rows_of((0, 0, 0, 0), (3, 1, 1, 1), (5, 20, 20, 20))
    long = rows_of((0, 0, 0, 0), (3, 2, 2, 2), (6, 4, 4, 21), (9, 25, 25, 26), (9, 26, 26, 26))
    lane, _ = make_lanes(
        ["a", "b"], [long, short], peer_words(hoods("path", [3, 3]), [long, short], rounds=None, delayed=False)
    )
    assert pairs(lane, "idle") == [[4, 20]]
    assert pairs(lane, "communication") == [[20, 21], [25, 26]]  # a word used before was said long ago


# Pictures


def steady(num_tasks: int, *, begun_s: float = 0.0) -> list[Lane]:
    """Each task works for as long as its number says, and then waits for the slowest."""
    rows = []
    for task in range(num_tasks):
        at = begun_s
        own = [(0, at, at, at)]
        for t in range(1, 6):
            own.append((t, at + 1 + task, at + 1 + task, at + 2 + num_tasks))
            at += 2 + num_tasks
        rows.append(rows_of(*own, (5, at, at, at)))
    return make_lanes([f"site-{task}" for task in range(num_tasks)], rows, star_words(rows))


def test_a_timeline_is_drawn_the_same_each_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in ("a.svg", "b.svg"):
        draw_timeline(steady(4, begun_s=7e5), tmp_path / name, "a $title$")
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text()
    for word in (
        "a $title$",
        "site-0",
        "site-3",
        "seconds since all tasks had begun",
        "local 42 %, communication 33 %, idle 25 %",
    ):
        assert word in text


def test_of_many_tasks_some_are_drawn_and_the_picture_says_so(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    draw_timeline(steady(31), tmp_path / "many.svg", "", shown=4)
    text = (tmp_path / "many.svg").read_text()
    assert "4 of 31 tasks, the slowest first" in text
    assert [task for task in range(31) if f"<!-- site-{task} -->" in text] == [0, 10, 20, 30]
    assert text.index("<!-- site-30 -->") < text.index("<!-- site-0 -->")


def test_several_runs_stand_above_each_other(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    draw_timelines(
        [Timeline("one", steady(2)), Timeline("two", steady(3))], tmp_path / "all.png", "", window=(0.5, 5.0)
    )
    assert (tmp_path / "all.png").read_bytes().startswith(b"\x89PNG")
    draw_timelines(
        [Timeline("one", steady(2)), Timeline("two", steady(3))], tmp_path / "all.svg", "", window=(0.1, 0.9)
    )
    text = (tmp_path / "all.svg").read_text()
    assert text.index("<!-- one -->") < text.index("<!-- two -->")
    assert text.count("milliseconds since all tasks had begun") == 1


def test_faults_are_hatched_where_they_struck_and_named(tmp_path: Path) -> None:
    """Of a simulation, by its clock; the default window is long enough for them."""
    pytest.importorskip("matplotlib")
    lanes = steady(40, begun_s=3.0)  # learning goes on until 213
    faults = [Disturbance("crash", "site-7", 20.0, 50.0), Disturbance("partition", "network", 60.0, 170.0)]
    draw_timeline(lanes, tmp_path / "a.svg", "", shown=2, faults=faults, virtual=True)
    text = (tmp_path / "a.svg").read_text()
    assert [task for task in range(40) if f"<!-- site-{task} -->" in text] == [0, 7, 39]
    assert "<!-- network -->" in text
    assert "crash, partition" in text
    assert "seconds of the virtual clock" in text
    assert "<!-- 150 -->" in text  # a tick of the axis
    assert text.count("url(#h") >= 3  # the legend's and two on the lanes
    draw_timeline(lanes, tmp_path / "b.svg", "", shown=2, virtual=True)
    assert "url(#h" not in (tmp_path / "b.svg").read_text()


def test_what_was_done_before_a_crash_and_done_again_is_a_stretch_of_its_own() -> None:
    rows = np.array([(2, 1.0, 1.0, 1.5), (3, 2.0, 2.5, 2.75), (4, 3.0, 3.5, 4.0)], dtype=TIMES_DTYPE)
    lane = lost_lane("north", rows)
    assert lane.segments("local").tolist() == [[1.5, 2.5], [2.75, 3.5]]
    assert lane.segments("idle").tolist() == [[2.5, 2.75], [3.5, 4.0]]
    assert lane.segments("communication").tolist() == []


def test_others_waited_for_the_word_that_was_said_before_the_crash() -> None:
    waits = np.array([(0, 0.0, 0.0, 0.0), (1, 1.0, 1.0, 3.0), (1, 3.0, 3.0, 3.0)], dtype=TIMES_DTYPE)
    again = np.array([(0, 0.0, 0.0, 0.0), (1, 9.0, 9.0, 9.5), (1, 9.5, 9.5, 9.5)], dtype=TIMES_DTYPE)
    taken_back = np.array([(0, 0.0, 0.0, 0.0), (1, 2.0, 2.0, 3.5)], dtype=TIMES_DTYPE)
    rows, names = [waits, again], ["a", "b"]
    for lost, idle in (([], [[1.0, 3.0]]), ([("b", taken_back)], [[1.0, 2.0]])):
        lane, _ = make_lanes(names, rows, star_words(rows), lost)
        assert lane.segments("idle").tolist() == idle


@pytest.mark.parametrize(
    "window", [(3.0, 2.0), (30.0, None), (None, -1.0), (float("nan"), None), (None, float("inf"))], ids=str
)
def test_a_window_with_nothing_in_it_is_told(window: tuple[float | None, float | None], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(UsageError, match=r"cannot draw from .* s to .* s: the run goes from 0 s to 20 s"):
        draw_timeline(steady(2), tmp_path / "a.png", "", window=window)
    assert not (tmp_path / "a.png").exists()
