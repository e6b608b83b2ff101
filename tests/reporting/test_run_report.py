"""The report of a run: what is in it, that it needs nothing else, and that no name becomes markup."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import re
import signal
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image
from processes import family

from drom_net import __version__
from drom_net.algorithms.adadrom.mixing import EXPERTS as experts
from drom_net.cli import main
from drom_net.cli import run as run_module
from drom_net.core.errors import ClusterError, UsageError
from drom_net.plots import report as report_plots
from drom_net.plots.base import inline_svg
from drom_net.plots.report import draw_picture
from drom_net.plots.sheet import draw_sheet
from drom_net.reporting import facts as facts_module
from drom_net.reporting import page as page_module
from drom_net.reporting.about import EXPERTS, TERMS, about
from drom_net.reporting.facts import RunFacts, Task, read_facts
from drom_net.reporting.figures import figures_of
from drom_net.reporting.page import page_of, sentence_of, write_report
from drom_net.results.evidence import SO_FAR
from drom_net.results.relatedness import cosines, group_sentence, groups_of
from drom_net.results.report import Panel, Picture, Reference, Series
from drom_net.results.timeline import STRETCH_DTYPE, Lane
from drom_net.results.verdict import task_verdict

pytestmark = pytest.mark.slow

SECTIONS = ["answer", "about", "sites", "curves", "relatedness", "calibration", "privacy", "time", "faults", "repeat"]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class Page(HTMLParser):
    """What a reader has of a page: its parts, and the text of each section."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.sections: dict[str, str] = {}
        self.names: list[str] = []
        """What stands in the first cells of rows, but for those that say what was learned."""
        self._section, self._in_name = "", False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        its = {key: value or "" for key, value in attrs}
        self.tags.append((tag, its))
        if tag == "section":
            self._section = its["id"]
            self.sections[self._section] = ""
        if tag == "th" and its.get("scope") == "row" and self._section != "about":
            self._in_name = True
            self.names.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "section":
            self._section = ""
        if tag == "th":
            self._in_name = False

    def handle_data(self, data: str) -> None:
        if self._section:
            self.sections[self._section] += data
        if self._in_name:
            self.names[-1] += data

    def all(self, tag: str) -> list[dict[str, str]]:
        return [its for name, its in self.tags if name == tag]


def pictures_of(page: Page) -> list[dict[str, str]]:
    """What is around each picture, which may have several parts, and says what it shows."""
    return [its for its in page.all("div") if its.get("role") == "img"]


POLICY = {
    "http-equiv": "Content-Security-Policy",
    "content": "default-src 'none'; style-src 'unsafe-inline'; img-src data:",
}


def whole_page(facts: RunFacts) -> str:
    return page_of(facts, figures_of(facts))


def require_whole(text: str) -> Page:
    """It needs no network and no script, its pictures have words, and no two parts have the same id."""
    page = Page(text)
    assert list(page.sections) == SECTIONS
    assert POLICY in page.all("meta")
    assert not page.all("script") and not page.all("link") and not page.all("img") and not page.all("iframe")
    assert not any(key.startswith("on") for _, its in page.tags for key in its)
    for _, its in page.tags:
        for key in ("href", "src", "xlink:href"):
            assert its.get(key, "#").startswith(("#", "data:image/png;base64,")), its
    assert "@import" not in text and "url(http" not in text
    assert all(picture["aria-hidden"] == "true" for picture in page.all("svg"))
    assert all(len(picture["aria-label"]) > 20 for picture in pictures_of(page))
    assert bool(page.all("svg")) == bool(pictures_of(page))
    ids = [its["id"] for _, its in page.tags if "id" in its]
    assert len(ids) == len(set(ids))
    used = {its["xlink:href"][1:] for _, its in page.tags if its.get("xlink:href", "")[:1] == "#"}
    assert used <= set(ids)
    assert "prefers-color-scheme:dark" in text and "@media print" in text
    return page


def run(config: str, *more: str) -> tuple[Page, dict[str, Any]]:
    """Run it with a report: the page, and the summary."""
    Path("cluster.yaml").write_text(config)
    driver = () if "--driver" in more else ("--driver", "reference")
    assert main(["run", "cluster.yaml", "--out", "out", "--report", "-q", *driver, *more]) == 0
    assert Path("out/report.png").read_bytes().startswith(b"\x89PNG")
    text = Path("out/report.html").read_text()
    assert len(text) < 1_000_000
    return require_whole(text), json.loads(Path("out/summary.json").read_text())


def table(names: list[str], rows: int = 30) -> str:
    """A table of these sites, in a file of its own; the configuration."""
    rng = np.random.default_rng(0)
    with Path("sites.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["site", "a", "b", "ill"])
        for name in names:
            writer.writerows([name, *row, int(sum(row) > 0)] for row in rng.standard_normal((rows, 2)).tolist())
    return "data: {files: sites.csv, task_column: site, label: ill}\n"


def test_it_says_the_answer_first_and_all_that_follows() -> None:
    assert main(["init", "--example", "pumps", "-o", "pumps"]) == 0
    assert main(["run", "pumps/pumps.yaml", "--driver", "reference", "--out", "out", "--report", "-q"]) == 0
    text = Path("out/report.html").read_text()
    page, summary = require_whole(text), json.loads(Path("out/summary.json").read_text())
    said = page.sections["answer"]
    assert said.index(summary["verdict"][0][1:]) < said.index("south:")
    for task in summary["tasks"]:
        assert f"{task['name']}: {task_verdict(task['sharing'])}" in said
        assert task["name"] in page.names
        assert f"{100 * task['error_rate']:.2f} %" in page.sections["sites"]
        assert f"{100 * task['majority_error_rate']:.2f} %" in page.sections["sites"]
    assert summary["what_leaves"].replace("`", "") in page.sections["privacy"]  # commands have a look of their own
    assert SO_FAR in said
    assert "drom-net run out/config.yaml --driver reference" in page.sections["repeat"]
    assert summary["digest"] in page.sections["repeat"] and "numpy" in page.sections["repeat"]
    assert "--driver reference) has no clock" in page.sections["time"]
    assert len(pictures_of(page)) == 5  # overview, curves, sharing, relatedness, calibration
    assert len(page.all("svg")) == (1 + 4) + (1 + 3) + 3  # the two first have a legend, and a part for each panel
    assert len(text) < 1_000_000


def test_it_names_what_was_learned_and_explains_its_terms() -> None:
    assert main(["init", "--example", "pumps", "-o", "pumps"]) == 0
    assert main(["run", "pumps/pumps.yaml", "--driver", "reference", "--out", "out", "--report", "-q"]) == 0
    page = require_whole(Path("out/report.html").read_text())
    told = page.sections["about"]
    assert "column service: +1 is yes, -1 is no" in told
    assert "number: temperature, vibration, pressure, hours" in told and "category: model" in told
    assert "3 sites, 510 labelled examples, 240 rounds" in told and "adadrom, with a reducer (tau = 20" in told
    assert "began2" in told and "UTC" in told and f"drom_net {__version__}" in told
    assert all(meaning in page.sections["sites"] for meaning in TERMS.values())
    assert all(
        name in page.sections["curves"] and meaning in page.sections["curves"] for name, meaning in EXPERTS.items()
    )
    assert set(EXPERTS) == set(experts)
    assert f"pip install drom-net=={__version__}" in page.sections["repeat"]


def test_the_picture_has_the_answer_and_every_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(page_module, "draw_sheet", lambda *given: (drawn.append(given), draw_sheet(*given)))
    _, summary = run("data: {dataset: synthetic, tasks: 3, examples: 40, dim: 5}\n")
    ((head, pictures, _),) = drawn
    words = [text for text, _, _ in head]
    assert words[0] == "cluster" and words[2].lower() == f"{summary['verdict'][0]}.".lower()
    assert any(text.startswith("learner: adadrom") for text in words)
    assert [caption for caption, _ in pictures] == [its.caption for its in figures_of(read_facts(Path("out"))).values()]
    assert len(pictures) == 5


def test_a_sheet_has_words_and_pictures_below_each_other() -> None:
    def draw(path: Path) -> None:
        draw_picture(Picture([Panel("", "x", "y", [Series("a", [0.0, 1.0], [0.0, 1.0])])], 1), path)

    def nothing(path: Path) -> None:
        raise UsageError("there is nothing to draw")

    heights = []
    for pictures in ([], [("one", draw)], [("one", draw), ("none", nothing), ("two", draw)]):
        draw_sheet([("a $name", 12.0, "bold"), ("word " * 60, 9.0, "normal")], pictures, Path("sheet.png"))
        with Image.open("sheet.png") as found:
            heights.append(found.height)
    assert 0 < heights[0] < heights[1] and heights[2] - heights[1] == heights[1] - heights[0]


def sites_of(points: list[float]) -> RunFacts:
    """A run of sites that gained so many points by sharing, and have models of their own."""
    tasks = []
    for number, gain in enumerate(points):
        its = {"error_rate": 0.1, "error_rate_alone": 0.2, "gain_points": gain, "gain_nats": 0.1, "noise": None}
        its |= {"gain_points_interval": [gain - 1, gain + 1], "gain_nats_interval": [0.0, 0.2], "effect": "helps"}
        its |= {"examples_missing": None, "weight": 0.5, "weights_at_end": {"local": 0.5, "shared": 0.5}}
        rates = {"error_rate": 0.1, "majority_error_rate": 0.3, "examples": 9, "bytes_sent": 1, "bytes_received": 2}
        tasks.append({"name": f"site-{number:03}", "sharing": its} | rates)
    summary = {"name": "x", "algorithm": "adadrom", "driver": "processes", "status": "finished", "rounds": 9}
    summary |= {"verdict": ["sharing helps"], "sharing": tasks[0]["sharing"], "tasks": tasks, "seconds": 1.0}
    stretches = np.zeros(1, STRETCH_DTYPE)
    stretches["sent_s"], stretches["closed_s"] = 0.1, 0.2
    lanes = [Lane(task["name"], stretches) for task in tasks]
    rows = [Task(list(range(20)), [False] * 20, [1.0] * 20, [1.0] * 20, [0.9] * 20)] * len(points)
    return RunFacts(Path("x"), summary, models=np.ones((len(points), 2)), lanes=lanes, tasks=rows)


@pytest.mark.parametrize("count", [5, 15, 25])
def test_sites_stand_in_one_order_in_the_table_and_in_all_pictures(count: int) -> None:
    facts = sites_of([float(number * 7 % count) for number in range(count)])
    page = require_whole(whole_page(facts))
    order = page.names[: min(count, 20)]  # of more the first and the last ten stand in two tables
    assert (order == facts.names) == (count <= 20)
    figures = figures_of(facts)
    assert set(figures) == {"overview", "curves", "sharing", "relatedness", "calibration", "time"}
    for name, its in figures.items():
        its.draw(Path(f"{name}.svg"))
        drawn = re.findall(r"<!-- (site-\d+) -->", Path(f"{name}.svg").read_text())
        if name == "relatedness":  # whose side is written from below
            drawn[len(drawn) // 2 :] = reversed(drawn[len(drawn) // 2 :])
        drawn = [site for site in drawn if site in order]
        once = [site for site in order if site in drawn]
        most = {"calibration": 0, "overview": 12, "curves": 12}.get(name, count)
        assert len(once) == min(len(order), most)
        assert drawn == once * (len(drawn) // max(1, len(once))), name


def test_no_two_lines_of_a_picture_look_alike() -> None:
    points = Panel("", "", "", [Series("gain", [0], [0.0])], [Reference("no gain", 0.0)], points=True, ticks=["a"])
    ideal = Series("ideal", [0.0, 1.0], [0.0, 1.0], guide=True)
    lines = [Series("this run", [0.0, 1.0], [1.0, 2.0]), Series("majority", [0.0, 1.0], [3.0, 2.0])]
    panels = [Panel("", "", "", lines, [Reference("alone", 1.0)]), points, Panel("", "", "", [lines[0], ideal])]
    looks: dict[str, set[tuple[str, ...]]] = {}
    for panel in panels:
        figure = Figure()
        axes = figure.subplots()
        for label, handle in report_plots._draw_panel(axes, panel, report_plots._labels(Picture(panels, 2))).items():
            line = handle if isinstance(handle, Line2D) else handle[0]
            looks.setdefault(label, set()).add((str(line._dash_pattern), line.get_linestyle(), line.get_marker()))
    assert set(looks) == {"this run", "majority", "alone", "gain", "no gain", "ideal"}
    assert all(len(its) == 1 for its in looks.values())  # in all panels the same
    assert len({look for its in looks.values() for look in its}) == len(looks)


@pytest.mark.parametrize(
    ("seconds", "driver", "told"),
    [
        (3.25, "x", "3.25 s"),
        (600.0, "simulation", "10 minutes of the simulated clock"),
        (9000.0, "x", "2.5 hours"),
    ],
)
def test_a_duration_is_told_in_a_fitting_unit(seconds: float, driver: str, told: str) -> None:
    summary = {"name": "x", "algorithm": "drom", "driver": driver, "seconds": seconds, "rounds": 1, "tasks": []}
    assert ("lasted", told) in about(RunFacts(Path("x"), summary))


def test_no_name_becomes_markup_or_turns_its_neighbors() -> None:
    names = ["<script>alert(1)</script>", "x" * 200, "שלום עולם", "a\"b & c'd", "</title><svg onload=1>"]
    page, _ = run(table(names))
    shown = [name if len(name) <= 60 else f"{name[:59]}…" for name in names]
    assert sorted(page.names[: len(names)]) == sorted(shown)
    assert len(page.all("bdi")) >= 2 * len(names)
    assert names[1] in {its.get("title") for its in page.all("bdi")}


def test_no_figure_of_a_summary_of_somebody_else_becomes_markup() -> None:
    bad = "<script>alert(1)</script>"
    task = {"name": bad, "examples": bad, "sharing": {"effect": bad, "effect_by": "errors"}, "lost": True}
    summary = {"name": bad, "algorithm": bad, "driver": bad, "status": bad, "rounds": bad, "error_rate": 0.1}
    facts = RunFacts(Path("x"), summary | {"tasks": [task], "what_leaves": bad, "verdict": [bad], "digest": bad})
    text = whole_page(facts)
    assert not Page(text).all("script") and text.count("&lt;script&gt;") > 8


def test_no_name_is_looked_for_in_the_markup_of_another() -> None:
    one = "א onmouseover=alert(document.domain) style=position:fixed;inset:0 " + "x" * 60
    names = [one, f"!{one}", "bdi", "title"]
    told = sentence_of(f"groups: {names[1]}, {names[0]}; <bdi>", names)
    page = Page(f"<section id=s>{told}</section>")
    assert page.tags[1:] == [("bdi", {"title": names[1]}), ("bdi", {"title": names[0]})]
    assert page.sections["s"] == f"Groups: {names[1][:59]}…, {names[0][:59]}…; <bdi>"


def test_who_keeps_no_evidence_has_none_in_the_report() -> None:
    page, summary = run("algorithm: {name: drom}\ndata: {dataset: synthetic, tasks: 3, examples: 40, dim: 5}\n")
    assert "keeps no evidence" in page.sections["answer"]
    assert f"{100 * summary['error_rate']:.2f} % errors" in page.sections["answer"]
    assert "alone" not in page.sections["sites"]


def test_a_graph_with_crashes_tells_of_both() -> None:
    config = (
        "algorithm: {name: drom-d, tau: 5}\ntopology: {graph: ring}\n"
        "data: {dataset: synthetic, tasks: 4, examples: 60, dim: 5}\n"
    )
    Path("cluster.yaml").write_text(config)
    network = ["--latency", "1ms", "--round", "5ms", "--crash", "task-02@0.1s+0.2s", "--no-compare"]
    assert main(["simulate", "cluster.yaml", "--out", "out", "--report", "-q", *network]) == 0
    page = require_whole(Path("out/report.html").read_text())
    assert "over 4 edges" in page.sections["privacy"] and "task-01 – task-02" in page.sections["privacy"]
    assert "crash of task-02 from 0.1 s to 0.3 s (simulated)" in page.sections["faults"]
    assert "waited for others" in page.sections["time"] and "sim seed" in page.sections["repeat"]


def test_one_site_alone() -> None:
    page, _ = run("data: {dataset: synthetic, tasks: 1, examples: 60, dim: 5}\n")
    assert "one task, and nobody to share with" in page.sections["answer"]
    assert "There is one site" in page.sections["relatedness"]


@pytest.mark.process
def test_a_live_run_has_one_too() -> None:
    assert main(["init", "--example", "live", "-o", "live"]) == 0
    assert main(["run", "live/live.yaml", "--out", "out", "--report", "-q"]) == 0
    page = require_whole(Path("out/report.html").read_text())
    assert {"north", "south", "harbor"} <= set(page.names)
    assert not Path("out/state.json").exists()  # the summary says it all


@pytest.mark.process
def test_a_run_without_records_says_what_is_left_out() -> None:
    config = "keep_records: false\ndata: {dataset: synthetic, tasks: 2, examples: 40, dim: 5}\n"
    page, _ = run(config, "--driver", "processes")
    for section in ("curves", "calibration"):
        assert "keep_records: false" in page.sections[section]


def test_a_run_without_any_example_has_a_page() -> None:
    summary = {"name": "x", "algorithm": "drom", "driver": "reference", "status": "finished", "rounds": 0, "tasks": []}
    page = require_whole(whole_page(RunFacts(Path("x"), summary | {"verdict": []})))
    assert "had reported anything" in page.sections["sites"]


def test_a_thousand_sites_are_a_page_that_can_be_read() -> None:
    facts = dataclasses.replace(sites_of([number / 100 - 5 for number in range(1000)]), lanes=(), models=None, tasks=())
    text = whole_page(facts)
    page = require_whole(text)
    assert page.names[:10] == [f"site-{number:03}" for number in range(999, 989, -1)]
    assert page.names[19] == "site-000"
    assert len(page.all("details")) == 3  # all sites, what the columns say, and what left the sites
    assert len(text) < 2_000_000


def test_without_matplotlib_nothing_begins(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    Path("c.yaml").write_text("data: {dataset: synthetic, tasks: 2, examples: 9, dim: 5}\n")
    assert main(["run", "c.yaml", "--driver", "reference", "--out", "out", "--report"]) == 2
    assert capsys.readouterr().err == "error: pictures need matplotlib: pip install 'drom-net[plots]'\n"
    assert not Path("out").exists()


def test_show_writes_it_where_it_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    Path("c.yaml").write_text("data: {dataset: synthetic, tasks: 2, examples: 30, dim: 5}\n")
    assert main(["run", "c.yaml", "--driver", "reference", "--out", "out", "-q"]) == 0
    assert main(["show", "out", "--report"]) == 0
    told = capsys.readouterr()
    assert told.out.endswith("report out/report.html\n") and told.err == "writing out/report.html\n"
    assert main(["show", "out", "--report", "elsewhere.html", "--json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["rounds"] == 30
    assert json.loads(told.err) == {"message": "writing elsewhere.html"}
    assert Path("elsewhere.png").exists()
    assert Path("elsewhere.html").read_text() == Path("out/report.html").read_text()


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ([], "writing out/report.html"),
        (["-q"], None),
        (["--json"], '{"message": "writing out/report.html"}'),
        (["--json", "-q"], None),
    ],
)
@pytest.mark.parametrize("fails", [False, True])
def test_that_a_report_is_written_is_a_line_of_progress(
    more: list[str],
    told: str | None,
    fails: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also of the report of a run that has failed."""
    Path("c.yaml").write_text("data: {dataset: synthetic, tasks: 2, examples: 9, dim: 5}\n")
    monkeypatch.setattr(page_module, "write_report", lambda out, **_: out / "report.html")
    if fails:
        make = run_module.run_prepared

        def fail(*given: Any, **also: Any) -> Any:
            make(*given, **also)
            raise ClusterError("north was killed")

        monkeypatch.setattr(run_module, "run_prepared", fail)
    assert main(["run", "c.yaml", "--driver", "reference", "--out", "out", "--report", *more]) == (4 if fails else 0)
    written = [line for line in capsys.readouterr().err.splitlines() if "writing" in line]
    assert written == ([told] if told else [])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["show", "out", "out", "--report"], "--report is of one run, got 2"),
        (["show", "out", "--report", "page.pdf"], "expected a name that ends in .html, got page.pdf"),
        (["show", "out", "--report"], "out is not the directory of a finished run"),
        (["simulate", "c.yaml", "--report"], "--report needs --out"),
    ],
)
def test_what_cannot_be_reported_is_said(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("c.yaml").write_text("data: {dataset: synthetic, tasks: 2, examples: 9, dim: 5}\n")
    assert main(arguments) == 2
    assert told in capsys.readouterr().err


@pytest.mark.process
def test_a_run_that_fails_leaves_a_report_of_why(tmp_path: Path) -> None:
    Path("c.yaml").write_text("data: {dataset: synthetic, tasks: 2, examples: 200, dim: 5, passes: 100000}\n")
    with family(tmp_path) as processes:
        launcher = processes.start("run", "c.yaml", "--out", "out", "--report")
        state = tmp_path / "out" / "state.json"
        while not (state.exists() and '"learning"' in state.read_text()):
            assert launcher.poll() is None
        victim = next(number for number, command in processes.alive().items() if "nodes/task-01/spec.json" in command)
        os.kill(victim, signal.SIGKILL)
        _, err = launcher.communicate(timeout=60)
        assert launcher.returncode == 1
    assert "report out/report.html" in err
    page = require_whole(Path("out/report.html").read_text())
    assert "The run failed. Task-01 was killed by SIGKILL" in page.sections["answer"]
    assert "task-02" in page.names
    assert json.loads(state.read_text())["status"] == "failed"


def test_damaged_files_are_said_and_left_out() -> None:
    Path("c.yaml").write_text("data: {dataset: synthetic, tasks: 2, examples: 30, dim: 5}\n")
    assert main(["run", "c.yaml", "--driver", "reference", "--out", "out", "-q"]) == 0
    Path("out/records.csv").write_text("nonsense\n1,2\n")
    Path("out/model.npz").write_bytes(b"nonsense")
    Path("out/events.jsonl").write_text('{"text": "north is back", "at_s": 1}\n{"text": 3}\nhalf a li')
    page = require_whole(write_report(Path("out")).read_text())
    assert "damaged" in page.sections["curves"] and "damaged" in page.sections["relatedness"]
    assert "north is back" in page.sections["faults"]


def test_the_last_events_are_told() -> None:
    Path("events.jsonl").write_text("".join(json.dumps({"text": str(number)}) + "\n" for number in range(9)))
    assert [event["text"] for event in facts_module.read_events(Path(), limit=2)] == ["7", "8"]


def event(number: int) -> dict[str, str]:
    return {"time": f"2026-11-30T00:{number // 60:02}:{number % 60:02}.000Z", "text": f"event {number}"}


def test_of_many_events_the_last_are_shown_with_their_times() -> None:
    summary = {"name": "x", "algorithm": "drom", "driver": "processes", "status": "finished", "rounds": 0, "tasks": []}
    events: list[Any] = [*map(event, range(1200)), {"text": "damaged", "time": 3}]
    page = require_whole(whole_page(RunFacts(Path("x"), summary | {"verdict": []}, events=events)))
    said = page.sections["faults"]
    assert "The last 100 of 1,201 events" in said and "event 1100" not in said
    assert "2026-11-30 00:18:21event 1101" in said and "–damaged" in said


def test_a_resumed_run_that_fails_is_not_reported_as_its_earlier_interruption() -> None:
    Path("c.yaml").write_text("data: {dataset: synthetic, tasks: 2, examples: 30, dim: 5}\n")
    assert main(["run", "c.yaml", "--driver", "reference", "--out", "out", "-q"]) == 0
    summary = json.loads(Path("out/summary.json").read_text())
    Path("out/summary.json").write_text(json.dumps(summary | {"status": "interrupted"}))
    state = {"status": "failed", "error": "north was killed", "pid": 1, "rounds": 77, "tasks": [{"name": "north"}]}
    Path("out/state.json").write_text(json.dumps(state))
    found = read_facts(Path("out"))
    assert (found.error, found.names, found.summary["rounds"]) == ("north was killed", ["north"], 77)
    assert not found.tasks and found.models is None


def test_a_run_that_went_well_is_told_also_where_its_report_cannot_be_drawn(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("no such font")

    monkeypatch.setattr(page_module, "draw_sheet", fail)
    Path("c.yaml").write_text("data: {dataset: synthetic, tasks: 1, examples: 30, dim: 5}\n")
    monkeypatch.setattr(page_module, "page_of", lambda facts, figures: "")
    assert main(["run", "c.yaml", "--driver", "reference", "--out", "out", "--report"]) == 0
    told = capsys.readouterr()
    assert "warning: there is no report: no such font" in told.err
    assert told.out.endswith("run directory out\n")


def test_what_the_curves_count_is_what_the_summary_says() -> None:
    config = "data: {dataset: synthetic, tasks: 3, examples: 50, dim: 5, flip: 0.1}\n"
    _, summary = run(config)
    found = read_facts(Path("out"))
    for task, its in zip(found.tasks, summary["tasks"], strict=True):
        assert sum(task.wrong) == its["errors"]
        truth = np.where(np.array(task.clean) > 0, task.p, 1 - np.array(task.p))
        assert -np.log(truth).mean() == pytest.approx(its["log_loss"])
    assert len(found.digest) == 64


def test_sites_whose_models_are_alike_are_one_group() -> None:
    models = np.array([[1.0, 0.1], [-1.0, 0.0], [2.0, 0.0], [-3.0, 0.1], [0.0, 0.0]])
    similarity = cosines(models)
    assert similarity[0, 2] == pytest.approx(1.0, abs=0.01) and similarity[4].tolist() == [0.0] * 5
    groups = groups_of(similarity)
    assert groups == [[0, 2], [1, 3], [4]]
    told = group_sentence("abcde", groups)
    assert told.startswith("2 groups of sites with models alike: ") and told.endswith("; 1 stands alone.")
    assert "a, c; b, d" in told
    assert "s0, s1, s2, s3, s4 and 4 more" in group_sentence([f"s{n}" for n in range(9)], [list(range(9))])
    assert groups_of(np.zeros((0, 0))) == [] and groups_of(np.ones((1, 1))) == [[0]]
    assert np.isfinite(cosines(np.full((2, 2), 1e300))).all()


def test_a_picture_in_a_page_keeps_its_text() -> None:
    def draw(path: Path) -> None:
        path.write_text('<?xml?><svg width="1" viewBox="0 0 72 36"><g id="a"/><use xlink:href="#a"/></svg>')

    found = inline_svg(draw, name="p")
    assert 'id="p-a"' in found and 'xlink:href="#p-a"' in found and "--wide:72pt" in found
