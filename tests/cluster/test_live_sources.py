"""Live data through real processes: applications, files and pipes in; kills in the middle; the same bits again."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from by_hand import QUICK, free_endpoint, start_star
from processes import DEADLINE_S, Family, family, wait_until

from drom_net.client import Site
from drom_net.storage.journal import FOLDER, ExampleJournal

pytestmark = [pytest.mark.process, pytest.mark.large]

LAYOUTS = {
    "star": "algorithm: {name: drom}",
    "ring": "algorithm: {name: drom-d, tau: 3}\ntopology: {graph: ring}",
}
TASKS = ["north", "south", "west"]


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Family]:
    with family(tmp_path) as found:
        yield found


def write_config(folder: Path, source: str, *, layout: str = "star", more: str = "") -> Path:
    waits = ", ".join(f"{key}: {value}" for key, value in QUICK.items())
    path = folder / "live.yaml"
    path.write_text(
        f"{LAYOUTS[layout]}\ndata: {{dataset: live, tasks: [{', '.join(TASKS)}], features: [a, b, c]}}\n"
        f"source: {{{source}, keep: all}}\ncheckpoint: {{every_s: 0.1}}\ntimeouts: {{{waits}}}\n{more}"
    )
    return path


def rows(number: int, *, seed: int = 0) -> tuple[np.ndarray, list[int]]:
    found = np.random.default_rng(seed).standard_normal((number, 3))
    return found, np.where(found @ [1.0, -2.0, 0.5] >= 0.0, 1, -1).tolist()


def process_of(processes: Family, name: str) -> int:
    """The node's process of this task."""
    return next(number for number, command in processes.alive().items() if f"nodes/{name}/spec.json" in command)


def spooled(run: Path, name: str) -> np.ndarray:
    """The rows that a task has accepted, in their order, as they came."""
    rows = np.array([features for features, _ in ExampleJournal(run / "nodes" / name / FOLDER).load().examples])
    assert rows.shape[1] == 4 and not rows[:, 3].any(), "the last place is for what is missing"
    return rows[:, :3]


def replays(processes: Family, run: str) -> None:
    code, said, err = processes.run("replay", run)
    assert code == 0 and "the same, bit for bit" in said, err


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_node_killed_in_the_middle_loses_no_accepted_example_and_learns_none_twice(
    processes: Family, tmp_path: Path, layout: str
) -> None:
    config = write_config(tmp_path, f"bind: 'ipc://{tmp_path}/{{task}}'", layout=layout, more="restart: 2\n")
    launcher = processes.start("run", str(config), "--out", "run", "--json")
    sites = [Site(f"ipc://{tmp_path}/{name}", timeout_s=DEADLINE_S) for name in TASKS]
    data = [rows(120, seed=task) for task in range(len(sites))]
    for number in range(0, 120, 2):
        for task, site in enumerate(sites):
            x, labels = data[task]
            if task == 2 and number >= 60:
                continue  # it has fewer, and is idle from then on
            predictions = site.predict(x[number : number + 2])
            if (task, number) == (0, 40):
                os.kill(process_of(processes, "north"), signal.SIGKILL)
            site.label(predictions, labels[number : number + 2])
        if number == 80:
            os.kill(process_of(processes, "south"), signal.SIGKILL)
    for site in sites:
        site.finish()
        site.close()
    out, err = launcher.communicate(timeout=DEADLINE_S)
    assert launcher.returncode == 0, err
    summary = json.loads(out)
    assert [task["examples"] for task in summary["tasks"]] == [120, 120, 60]
    assert summary["error_rate"] < 0.3, "and it has learned from them"
    for task, name in enumerate(TASKS):
        x = data[task][0][: 60 if task == 2 else 120]
        np.testing.assert_array_equal(spooled(tmp_path / "run", name), x)
    replays(processes, "run")
    code, _, err = processes.run("verify", "run")
    assert code == 0, err


def test_files_are_followed_and_bad_lines_told(processes: Family, tmp_path: Path) -> None:
    config = write_config(tmp_path, "file: '{task}.csv', follow: false")
    for seed, name in enumerate(TASKS):
        x, labels = rows(50 + 10 * seed, seed=seed)
        lines = [f"{a!r},{label},{c!r},{b!r}" for (a, b, c), label in zip(x.tolist(), labels, strict=True)]
        lines.insert(30, "1,1,nothing,2")
        (tmp_path / f"{name}.csv").write_text("\n".join(["a,label,c,b", *lines]) + "\n")
    code, _, err = processes.run("run", str(config), "--out", "run")
    assert code == 0, err
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert [task["examples"] for task in summary["tasks"]] == [50, 60, 70]
    assert f'left out {tmp_path}/north.csv:32, column "c": expected a number, got "nothing"' in err
    assert "Traceback" not in err
    replays(processes, "run")


def test_workers_by_hand_read_their_standard_input(processes: Family, tmp_path: Path) -> None:
    config = write_config(tmp_path, "stdin: true", more=f"reducer: {{endpoint: '{free_endpoint()}'}}\n")
    started = [processes.start("reducer", str(config), "--out", "out")]
    for seed, name in enumerate(TASKS):
        x, labels = rows(40, seed=seed)
        lines = [
            json.dumps({"a": a, "b": b, "c": c, "label": label})
            for (a, b, c), label in zip(x.tolist(), labels, strict=True)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        before = ["sh", "-c", 'exec "$@" < "$0"', str(tmp_path / f"{name}.jsonl")]
        started.append(processes.start("worker", str(config), "--task", name, "--out", "out", before=before))
    for process in started:
        _, err = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0, err
    code, out, err = processes.run("merge", "out", "--json")
    assert code == 0, err
    assert json.loads(out)["examples"] == 120
    replays(processes, "out")


def test_ctrl_c_ends_a_live_run_with_what_it_has_and_it_can_go_on(processes: Family, tmp_path: Path) -> None:
    config = write_config(tmp_path, f"bind: 'ipc://{tmp_path}/{{task}}'")
    launcher = processes.start("run", str(config), "--out", "run", "--json")
    x, labels = rows(20)
    with Site(f"ipc://{tmp_path}/south", timeout_s=DEADLINE_S) as site:
        site.learn(x[:10], labels[:10])
        wait_until(lambda: site.status()["learned"] == 10, "not learned")
        launcher.send_signal(signal.SIGINT)
        out, err = launcher.communicate(timeout=DEADLINE_S)
        assert launcher.returncode == 130, err
        assert json.loads(out)["examples"] == 10
        replays(processes, "run")
        launcher = processes.start("run", "--resume", "run", "--json")
        site.learn(x[10:], labels[10:])
    for name in TASKS:
        with Site(f"ipc://{tmp_path}/{name}", timeout_s=DEADLINE_S) as site:
            site.finish()
    out, err = launcher.communicate(timeout=DEADLINE_S)
    assert launcher.returncode == 0, err
    assert json.loads(out)["examples"] == 20
    replays(processes, "run")


@pytest.mark.parametrize(
    ("arguments", "source", "told"),
    [
        (["run", "--driver", "reference"], "stdin: true", "--driver reference needs them"),
        (["run", "--driver", "simulation"], "stdin: true", "--driver simulation needs them"),
        (["simulate"], "stdin: true", "a simulation needs them"),
        (["compare", "--out", "compared"], "stdin: true", "a comparison needs them"),
        (["run"], "stdin: true", "source.stdin is for nodes that are started by hand"),
        (["run"], "bind: 'tcp://127.0.0.1:5601'", "source.bind gives several tasks the same address"),
        (["run"], "bind: 'tcp://0.0.0.0:5601'", "whoever reaches tcp://0.0.0.0:5601 could teach this site"),
    ],
)
def test_what_cannot_be_is_told_in_one_sentence(
    processes: Family, tmp_path: Path, arguments: list[str], source: str, told: str
) -> None:
    config = write_config(tmp_path, source)
    command, *rest = arguments
    code, _, err = processes.run(command, str(config), *rest)
    assert code == 2 and told in err and "Traceback" not in err, err
    assert len(err.strip().split("\n")) == 1


def test_check_says_where_each_source_is(processes: Family, tmp_path: Path) -> None:
    code, out, _ = processes.run("check", str(write_config(tmp_path, "file: 'in/{task}.jsonl'")))
    assert code == 0 and f"{tmp_path}/in/west.jsonl" in out and "without an end" in out
    code, out, _ = processes.run("check", str(write_config(tmp_path, "bind: 'ipc://{task}'")), "--json")
    assert [task["source"] for task in json.loads(out)["tasks"]] == ["ipc://north", "ipc://south", "ipc://west"]


def test_a_live_graph_has_no_stream_that_is_too_short(processes: Family, tmp_path: Path) -> None:
    code, out, err = processes.run("topology", str(write_config(tmp_path, "bind: 'ipc://{task}'", layout="ring")))
    assert code == 0 and "longer than the stream" not in out + err


def test_a_run_that_did_not_keep_its_examples_says_so(processes: Family, tmp_path: Path) -> None:
    config = write_config(tmp_path, "file: '{task}.jsonl', follow: false")
    config.write_text(config.read_text().replace(", keep: all", ""))
    for name in TASKS:
        (tmp_path / f"{name}.jsonl").write_text('{"a": 1, "b": 2, "c": 3, "label": 1}\n')
    code, _, err = processes.run("run", str(config), "--out", "run", "--quiet")
    assert code == 0, err
    assert not (tmp_path / "run" / "nodes").exists()
    code, _, err = processes.run("replay", "run")
    assert code == 2 and "did not keep its examples (source.keep: all)" in err


def test_a_run_without_any_example_ends_in_order(tmp_path: Path) -> None:
    """Its reducer once failed to say so, and its next start then said that it had finished before."""
    config = tmp_path / "none.yaml"
    config.write_text(
        "algorithm: {name: drom}\ndata: {dataset: live, tasks: [north, south], dim: 3}\nsource: {stdin: true}\n"
        f"reducer: {{endpoint: 'ipc://{tmp_path}/meet'}}\n"
    )
    with family(tmp_path) as processes:
        started = start_star(processes, config, ["north", "south"], out="run")
        told = [process.communicate(timeout=DEADLINE_S)[1] for process in started]
        assert [process.returncode for process in started] == [0, 0, 0], told
        assert "finished: 1 rounds, no examples, digest" in told[0]
        assert json.loads((tmp_path / "run" / "summary.json").read_text())["examples"] == 0
        assert processes.run("merge", "run")[0] == 0


def test_merge_takes_the_kept_examples_along(tmp_path: Path) -> None:
    """Without them a run by hand could not be replayed."""
    config = tmp_path / "kept.yaml"
    (tmp_path / "in").mkdir()
    for task in ("north", "south"):
        (tmp_path / "in" / f"{task}.jsonl").write_text(
            '{"x": [1, 0, 0.5], "label": 1}\n{"x": [0, 1, 0.5], "label": -1}\n'
        )
    config.write_text(
        "algorithm: {name: drom}\ndata: {dataset: live, tasks: [north, south], dim: 3}\n"
        "source: {file: 'in/{task}.jsonl', follow: false, keep: all}\n"
        f"reducer: {{endpoint: 'ipc://{tmp_path}/meet'}}\n"
    )
    with family(tmp_path) as processes:
        started = start_star(processes, config, ["north", "south"], out="by-hand")
        assert [process.wait(DEADLINE_S) for process in started] == [0, 0, 0]
        assert processes.run("merge", "by-hand", "--out", "result")[0] == 0
        code, out, err = processes.run("replay", "result")
        assert code == 0 and "the same, bit for bit" in out, err
