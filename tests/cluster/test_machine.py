"""What a cluster needs of one machine, and what a machine that has too little is told."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import pytest

from drom_net.cluster.cost import Cost, cost
from drom_net.cluster.machine import Machine, lacks, require_room, this_machine
from drom_net.cluster.plan import Roster, peer_graph
from drom_net.cluster.view import _SAYINGS, View
from drom_net.config.load import load_config
from drom_net.core.errors import UsageError
from drom_net.data.datasets import task_names

LARGE = Machine(memory_bytes=10**13, file_descriptors=10**6, threads=10**6, cores=2)


def cost_of(tmp_path: Path, tasks: int, text: str) -> Cost:
    file = tmp_path / "cluster.yaml"
    file.write_text(f"{text}\ndata: {{dataset: synthetic, tasks: {tasks}, examples: 20, dim: 60}}\n")
    config = load_config(file)
    names = task_names(config.data, config.base)
    roster = Roster(names, 60, "", 20)
    return cost(config, roster, peer_graph(config, names), last_rounds=[20] * tasks)


STAR = "algorithm: {name: drom}"
MESH = "algorithm: {name: drom-d}\ntopology: {graph: full}"


def test_what_a_star_and_a_mesh_of_a_thousand_need(tmp_path: Path) -> None:
    star, mesh = cost_of(tmp_path, 1000, STAR), cost_of(tmp_path, 1000, MESH)
    assert (star.processes, star.connections, star.threads) == (1001, 1000, 4004)
    assert (mesh.processes, mesh.connections, mesh.threads) == (1000, 999 * 1000 // 2, 4000)
    assert star.reducer_file_descriptors > 1000 < mesh.worker_file_descriptors
    assert 21e9 < star.memory_bytes < 24e9 < 45e9 < mesh.memory_bytes
    assert lacks(star, LARGE) == lacks(mesh, LARGE) == []


@pytest.mark.parametrize(
    ("machine", "match"),
    [
        ({"memory_bytes": 24 * 10**9}, r"at least 49\.9 GB of memory for 1000 processes and 499500 connections"),
        ({"file_descriptors": 1000}, r"about 1019 file descriptors in one process, the limit here is 1000; raise it"),
        ({"threads": 3999}, r"about 4000 threads, the limit here is 3999"),
    ],
)
def test_accident_40_what_cannot_work_is_refused_before_anything_starts(
    tmp_path: Path, machine: dict[str, Any], match: str
) -> None:
    mesh = cost_of(tmp_path, 1000, MESH)
    small = Machine(**{field: getattr(LARGE, field) for field in Machine.__slots__} | machine)
    with pytest.raises(UsageError, match=f"^1000 tasks need {match}") as error:
        require_room(mesh, small, 1000)
    assert error.value.exit_code == 2


def test_all_that_is_too_little_is_named_together(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        require_room(cost_of(tmp_path, 1000, MESH), Machine(10**9, 100, 100, 1), 1000)
    assert len(str(error.value).splitlines()) == 3


def test_what_is_not_known_is_no_limit(tmp_path: Path) -> None:
    assert lacks(cost_of(tmp_path, 1000, MESH), Machine(None, None, None, 1)) == []


def test_this_machine_knows_what_it_has() -> None:
    machine = this_machine()
    assert machine.cores >= 1
    assert machine.memory_bytes is None or machine.memory_bytes > 10**8
    assert machine.file_descriptors in (None, resource.getrlimit(resource.RLIMIT_NOFILE)[1])


class _Said(list[str]):
    def say(self, text: str) -> None:
        self.append(text)


def test_of_many_nodes_in_the_same_trouble_the_first_ones_tell() -> None:
    said = _Said()
    view = View(said, 1, _Calm())  # type: ignore[arg-type]
    for number in range(200):
        view.on_line(_Named(f"task-{number}"), {"say": "waiting"})  # type: ignore[arg-type]
    assert said[0] == "task-0: waiting"
    assert len(said) == _SAYINGS + 1
    assert said[-1].startswith("more such lines are left out")


class _Calm:
    exit_code = 0


class _Named:
    def __init__(self, name: str) -> None:
        self.name = name
