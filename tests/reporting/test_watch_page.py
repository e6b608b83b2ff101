"""The page of `drom-net watch --web` in a browser: a star and a ring, and a site that is killed and comes back."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import DEADLINE_S, Family, family, read_until

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not here")

from selenium.webdriver.chrome.options import Options  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

from drom_net.reporting.facts import RunFacts  # noqa: E402
from drom_net.reporting.feed import NOTHING  # noqa: E402
from drom_net.reporting.figures import figures_of  # noqa: E402
from drom_net.reporting.page import page_of  # noqa: E402

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not here"),
]
DATA = "restart: 3\ndata: {dataset: synthetic, tasks: 4, examples: 200, dim: 5, passes: 100000}\n"
FILES = {
    "star": DATA,
    "ring": f"algorithm: {{name: drom-d, tau: 5}}\ntopology: {{graph: ring}}\n{DATA}",
}


FIGURES = {"star": ["error", "gain", "noise", "sent", "late"], "ring": ["error", "sent", "late"]}
"""Of each layout: drom-d keeps no evidence."""
WATCH_SHIFTS = """window.shifts = [];
const at = source => source.node?.id || source.node?.nodeName;
const moved = source => `${at(source)}: ${source.previousRect.y} -> ${source.currentRect.y}`;
const note = list => shifts.push(...list.getEntries().map(entry => entry.sources.map(moved).join(', ')));
new PerformanceObserver(note).observe({type: 'layout-shift'});"""


@pytest.fixture
def browser() -> Iterator[Any]:
    options = Options()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.binary_location = str(CHROMIUM)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield found
    finally:
        found.quit()


def until(what: Callable[[], bool], why: Callable[[], str]) -> None:
    give_up_at = time.monotonic() + DEADLINE_S
    while not what():
        assert time.monotonic() < give_up_at, why()
        os.sched_yield()


def text_of(browser: Any, part: str) -> str:
    return str(browser.execute_script("return document.getElementById(arguments[0]).textContent", part))


def kinds(browser: Any) -> list[str]:
    """How the nodes of the graph look, in order."""
    script = "return [...document.querySelectorAll('#graph .node')].map(node => node.getAttribute('class'))"
    return [found.removeprefix("node ") for found in browser.execute_script(script)]


def process_of(processes: Family, node: str) -> int:
    return next(number for number, command in processes.alive().items() if f"nodes/{node}/spec.json" in command)


@pytest.mark.parametrize("layout", FILES)
def test_a_site_that_is_killed_is_seen_to_go_and_to_come_back(layout: str, browser: Any, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(FILES[layout])
    nodes = 5 if layout == "star" else 4
    with family(tmp_path) as processes:
        launcher = processes.start("run", "c.yaml", "--out", "out", "-q")
        state = tmp_path / "out" / "state.json"
        until(lambda: state.exists() and state.read_text().count('"learning"') >= 4, lambda: "it does not begin")
        watch = processes.start("watch", "out", "--web")
        url = read_until(watch, "token=").strip().splitlines()[-1]
        browser.get(url)
        until(lambda: kinds(browser) == ["learning"] * nodes, lambda: str(kinds(browser)))
        assert len(browser.find_elements("css selector", "#graph .edge")) == 4
        assert "running: round" in text_of(browser, "status")
        until(lambda: text_of(browser, "key").split() == ["all", "majority"], lambda: text_of(browser, "key"))
        until(lambda: "alike" in text_of(browser, "told"), lambda: text_of(browser, "told"))
        browser.execute_script(WATCH_SHIFTS)
        os.kill(process_of(processes, "task-02"), signal.SIGKILL)
        until(lambda: "task-02 was killed by SIGKILL" in text_of(browser, "events"), lambda: text_of(browser, "events"))
        until(lambda: "learning, start 2" in text_of(browser, "rows"), lambda: text_of(browser, "rows"))
        until(lambda: kinds(browser) == ["learning"] * nodes, lambda: str(kinds(browser)))
        assert browser.execute_script("return shifts") == []  # nothing has moved when news came
        for figure in FIGURES[layout]:
            browser.find_element("css selector", f"#figure option[value={figure}]").click()
            assert ("gain" if figure == "gain" else "From 0") in text_of(browser, "scale")
            browser.find_element("id", "map").send_keys(Keys.ARROW_LEFT)
            assert text_of(browser, "cell").startswith("task-01, round ")
            browser.find_element("id", "map").send_keys(Keys.ARROW_DOWN)
            assert text_of(browser, "cell").startswith("task-02, round ")
            browser.execute_script("document.activeElement.blur()")
        browser.find_element("id", "alike").send_keys(Keys.ARROW_LEFT)
        assert re.fullmatch(r"task-0\d and task-0\d: -?\d\.\d\d", text_of(browser, "pair"))
        search = browser.find_element("id", "filter")
        search.send_keys("task-03")
        assert text_of(browser, "rows").count("task-0") == 1
        for part in ("pause", "which", "figure", "map", "alike"):  # all that can be used can be reached by keys
            browser.switch_to.active_element.send_keys(Keys.TAB)
            assert browser.switch_to.active_element.get_attribute("id") == part
        browser.switch_to.active_element.send_keys(Keys.TAB)  # to the table, which can be scrolled by keys
        assert browser.switch_to.active_element.get_attribute("aria-label") == "Table of sites"
        launcher.send_signal(signal.SIGINT)
        launcher.communicate(timeout=DEADLINE_S)
        until(lambda: "interrupted: round" in text_of(browser, "status"), lambda: text_of(browser, "status"))
        assert browser.get_log("browser") == []  # nothing was refused by the page's own policy, or failed
        watch.send_signal(signal.SIGINT)
        watch.communicate(timeout=DEADLINE_S)
        assert watch.returncode == 130


def test_a_site_that_is_gone_is_red_and_named_in_words(browser: Any, tmp_path: Path) -> None:
    tasks = [{"name": "north", "round": 3, "state": "learning"}, {"name": "<b>s</b>", "round": 2, "state": "gone"}]
    state = {"name": "c", "status": "failed", "pid": 1, "error": "it was killed", "edges": [[0, 1]], "tasks": tasks}
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "config.yaml").write_text("")
    (tmp_path / "out" / "state.json").write_text(json.dumps(state))
    with family(tmp_path) as processes:
        watch = processes.start("watch", "out", "--web")
        browser.get(read_until(watch, "token=").strip().splitlines()[-1])
        until(lambda: kinds(browser) == ["learning", "gone"], lambda: str(kinds(browser)))
        for scheme, red in (("light", "rgb(163, 22, 46)"), ("dark", "rgb(255, 154, 168)")):
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
            node = browser.find_element("css selector", "#graph .node.gone")
            assert node.value_of_css_property("fill") == red
        assert "1 gone: <b>s</b>" in text_of(browser, "trouble")
        assert text_of(browser, "events") == NOTHING
        label = browser.find_element("id", "graph").get_attribute("aria-label")
        assert "<b>s</b>: gone: its process has ended" in label
        assert len(browser.find_elements("css selector", "#graph .edge.off")) == 1
        browser.set_window_size(480, 900)
        assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
        watch.send_signal(signal.SIGINT)
        watch.communicate(timeout=DEADLINE_S)


def test_the_report_fits_a_small_window_and_is_dark_where_wanted(browser: Any, tmp_path: Path) -> None:
    task = {"error_rate": 0.1, "majority_error_rate": 0.3, "examples": 9, "bytes_sent": 1, "bytes_received": 2}
    task |= {"sharing": {"gain_points": 1.0, "gain_points_interval": [-1.0, 3.0], "effect": "cannot tell yet"}}
    tasks = [task | {"name": name} for name in ("north", "x" * 200, "שלום")]
    summary = {"name": "x", "algorithm": "drom", "driver": "processes", "status": "finished", "rounds": 9}
    path = tmp_path / "report.html"
    facts = RunFacts(tmp_path, summary | {"verdict": ["v"], "tasks": tasks})
    path.write_text(page_of(facts, figures_of(facts)), encoding="utf-8")
    browser.set_window_size(480, 900)
    browser.get(path.as_uri())
    assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    assert len(browser.find_elements("css selector", ".panels > svg")) == 2  # one below the other, and none cut off
    assert browser.execute_script(
        "const [one, other] = [...document.querySelectorAll('.panels > svg')].map(svg => svg.getBoundingClientRect());"
        "return one.bottom <= other.top && Math.max(one.right, other.right) <= window.innerWidth"
    )
    for scheme, paper in (("light", "rgba(255, 255, 255, 1)"), ("dark", "rgba(20, 20, 20, 1)")):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        assert browser.find_element("css selector", "body").value_of_css_property("background-color") == paper
    assert browser.get_log("browser") == []
