"""The compose files as text: in step with their configurations, whole for any number and any names of tasks."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from containers import base_image
from packaging.requirements import Requirement
from processes import DEADLINE_S

from drom_net import __version__
from drom_net.cli import main
from drom_net.config.load import load_config
from drom_net.config.model import config_digest
from drom_net.core.names import safe_names
from drom_net.data.datasets import task_names
from drom_net.deploy.compose import checkout_files, render
from drom_net.deploy.deployment import host_names, memory_mib, plan_deployment

ROOT = Path(__file__).parents[2]
SITES = ("Leeds General", "York $1 \"'", "São Paulo", "reducer", "init", "a", "A", "\u202egnirts", "{task}", "x: #&*")
AWKWARD = ("Pump_North", "pump.north", "pump-north", "7", "2019-11", "init", "keys", "yes", "x" * 64, "x" * 63 + "y")


def load_compose(text: str) -> dict[str, Any]:
    return dict(yaml.safe_load(text))


def export(config: Path, *overrides: str) -> tuple[dict[str, Any], str]:
    """(the compose file, the text of the YAML file)"""
    files = render(plan_deployment(load_config(config, overrides)))
    return load_compose(files["docker-compose.yml"]), files["cluster.yaml"]


def test_the_files_of_this_checkout_are_in_step() -> None:
    for name, text in checkout_files(ROOT).items():
        assert (ROOT / name).read_text() == text, f"{name}: python -m drom_net.deploy.compose"


@pytest.mark.parametrize(
    ("file", "tasks"), [("star-4.yaml", 1), ("star-4.yaml", 1000), ("ring-4.yaml", 2), ("ring-4.yaml", 1000)]
)
def test_a_service_for_each_node(file: str, tasks: int) -> None:
    compose, _ = export(ROOT / "configs" / file, f"data.tasks={tasks}")
    services = compose["services"]
    nodes = {name: each for name, each in services.items() if name not in ("init", "collect")}
    assert len(nodes) == tasks + (file == "star-4.yaml")
    assert set(services["collect"]["depends_on"]) == set(nodes)
    for name, node in nodes.items():
        assert node["read_only"] and node["cap_drop"] == ["ALL"] and node["restart"] == "on-failure:10"
        assert node["depends_on"] == {"init": {"condition": "service_completed_successfully"}}
        assert f"{name}:/node" in node["volumes"], "its own volume"
        log = f"./runs/logs/{Path(file).stem}/{name}:/logs"
        own = [volume for volume in node["volumes"] if isinstance(volume, str)]
        assert own == [f"{name}:/node", log], "and no other node's"
        assert name in compose["volumes"]
    assert {service["pull_policy"] for service in services.values()} == {"never"}, "no registry is asked"
    assert compose["networks"] == {"cluster": {"internal": True}}


def test_names_become_hosts_and_stay_distinct() -> None:
    hosts = host_names(AWKWARD, taken=("init", "keys"))
    assert hosts[:8] == ("pump-north", "pump-north-2", "pump-north-3", "t-7", "t-2019-11", "init-2", "keys-2", "yes")
    assert len(set(hosts)) == len(AWKWARD)
    assert all(len(host) <= 63 and host.replace("-", "").isalnum() and host.islower() for host in hosts)


def test_awkward_names_reach_their_nodes(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    tasks = ", ".join(map(repr, AWKWARD))
    config.write_text(
        f"algorithm: {{name: drom}}\ndata: {{files: '{{task}}.csv', tasks: [{tasks}], columns: {{x: number}}}}\n"
    )
    compose, text = export(config)
    commands = [service.get("command") for service in compose["services"].values()]
    for name in AWKWARD:
        assert ["worker", "--task", name] in commands
    assert all(isinstance(name, str) for name in (*compose["services"], *compose["volumes"]))
    exported = tmp_path / "exported.yaml"
    exported.write_text(text)
    assert load_config(exported).reducer.endpoint == "tcp://reducer:5571"


def test_any_site_has_a_service_a_volume_and_its_own_file(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(
        f"algorithm: {{name: drom}}\ndata: {{files: 'site {{task}}.csv', "
        f"tasks: {json.dumps(SITES)}, columns: {{x: number}}}}\n"
    )
    compose, text = export(config)
    services = [service for service in compose["services"] if service not in ("init", "collect", "reducer")]
    assert len(services) == len(SITES)
    seen = compose["services"]["init"]["volumes"]
    for service, name, node in zip(services, SITES, safe_names(SITES), strict=True):
        one = compose["services"][service]
        assert re.fullmatch("[a-z][a-z0-9-]{0,62}", service) and service in compose["volumes"]
        assert one["command"] == ["worker", "--task", node]
        assert f"{service}:/nodes/{node}" in seen, "where its secret key is copied to"
        targets = [volume["target"] for volume in one["volumes"] if isinstance(volume, dict)]
        assert targets == ["/cluster.yaml", f"/data/site {name}.csv".replace("$", "$$")]
    (tmp_path / "exported.yaml").write_text(text)
    assert load_config(tmp_path / "exported.yaml").data.tasks == SITES  # type: ignore[attr-defined]


def test_each_site_sees_its_own_file_alone(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "columns.txt").write_text("a\nb\n")
    config = tmp_path / "c.yaml"
    config.write_text(
        "algorithm: {name: drom}\n"
        "data: {files: '../up/{task}/rows $1.svm', tasks: [north, south], features: sub/columns.txt}\n"
    )
    compose, text = export(config)

    def mounted(service: str) -> dict[str, str]:
        volumes = compose["services"][service]["volumes"]
        return {volume["target"]: volume["source"] for volume in volumes if isinstance(volume, dict)}

    shared = {
        "/cluster.yaml": "./cluster.yaml",
        "/data/sub/columns.txt": f"${{DROM_NET_DATA:-{tmp_path}}}/sub/columns.txt",
    }
    assert mounted("reducer") == shared
    rows = {"/data/up/north/rows $$1.svm": f"${{DROM_NET_DATA:-{tmp_path}}}/../up/north/rows $$1.svm"}
    assert mounted("north") == shared | rows
    assert set(mounted("south")) == {*shared, "/data/up/south/rows $$1.svm"}
    exported = tmp_path / "exported.yaml"
    exported.write_text(text)
    settings: Any = load_config(exported).data
    assert (settings.directory, settings.files) == ("/data", "up/{task}/rows $1.svm")


def test_public_data_is_where_the_host_says(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("algorithm: {name: drom}\ndata: {dataset: spam-pu}\n")
    files = render(plan_deployment(load_config(config)))
    services = load_compose(files["docker-compose.yml"])["services"]
    node = services["pu1"]
    source = "${DROM_NET_DATA:?the folder of the public data sets}"
    mount = {"type": "bind", "source": source, "target": "/data", "read_only": True}
    assert mount | {"bind": {"create_host_path": False}} in node["volumes"]
    assert node["environment"]["DROM_NET_DATA"] == "/data"
    assert "mem_limit" not in node, "nobody knows how much it reads"
    assert "--build-arg EXTRAS=metrics,data " in files["docker-compose.yml"]


@pytest.mark.parametrize(
    ("file", "overrides"),
    [
        ("star-4.yaml", ()),
        ("ring-4.yaml", ("data.tasks=12", "topology.graph=erdos-renyi", "topology.probability=0.4")),
        ("ring-4.yaml", ("data.tasks=12", "topology.graph=grid", "topology.weights=metropolis")),
    ],
)
def test_an_export_is_the_same_run(file: str, overrides: tuple[str, ...], tmp_path: Path) -> None:
    """So a container and a process by hand, each with its own file, let each other in."""
    original = load_config(ROOT / "configs" / file, overrides)
    _, text = export(ROOT / "configs" / file, *overrides)
    (tmp_path / "cluster.yaml").write_text(text)
    exported = load_config(tmp_path / "cluster.yaml")
    names = task_names(original.data, original.base)
    assert config_digest(exported, names) == config_digest(original, names)
    assert exported.security.keys == str(tmp_path / "keys")  # beside the file, wherever that is seen
    if exported.topology is not None:
        assert exported.topology.graph in ("edges", "grid"), "nobody draws the graph again"


def test_memory_grows_with_what_a_node_holds() -> None:
    def limits(*overrides: str) -> tuple[int, int]:
        services = export(ROOT / "configs" / "star-4.yaml", *overrides)[0]["services"]
        reducer, task = (int(services[name]["mem_limit"].removesuffix("m")) for name in ("reducer", "task-01"))
        return reducer, task

    small, wide = limits(), limits("data.dim=100000", "data.examples=20")
    assert small == (192, 192)
    # Seen of a process with 4 tasks of d = 100,000: 76 and 98 MiB at most.
    assert 160 < wide[0] < 256 and 192 < wide[1] < 400
    many = limits("data.dim=100000", "data.examples=20", "data.tasks=90")
    assert many[0] > 700 and many[1] == wide[1]


@pytest.mark.parametrize("suffix", ["csv.gz", "csv.zst", "parquet", "pq"])
def test_memory_counts_packed_examples_as_they_are_read(suffix: str, tmp_path: Path) -> None:
    def memory(suffix: str, size: int) -> int:
        with (tmp_path / f"a.{suffix}").open("wb") as file:
            file.truncate(size)
        config = tmp_path / f"{suffix}.yaml"
        data = f"data: {{files: '{{task}}.{suffix}', tasks: [a, b], columns: {{x: number}}}}"
        config.write_text(f"algorithm: {{name: drom}}\n{data}\n")
        return memory_mib(plan_deployment(load_config(config)), 0)

    assert memory(suffix, 10**7) == memory("csv", 10**8) > memory("csv", 10**7)


def test_what_a_node_alone_cannot_know_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "c.yaml"
    ring = "algorithm: {name: drom-d}\ntopology: {graph: ring}\n"
    for text, told in (
        ("algorithm: {name: drom}\ndata: {files: '{task}.svm', tasks: [a, b]}\n", "data.dim: expected the number of"),
        ("algorithm: {name: drom}\ndata: {files: '{task}.csv', tasks: [a, b]}\n", "data.columns: expected the kind"),
        (ring + "data: {files: '{task}.parquet', tasks: [a, b, c]}\n", "data.columns: expected the kind of each"),
    ):
        config.write_text(text)
        assert main(["export", "compose", str(config), "-o", str(tmp_path / "out")]) == 2
        assert told in capsys.readouterr().err
        assert not (tmp_path / "out").exists()


def test_the_image_is_built_once_for_both_profiles() -> None:
    services = load_compose((ROOT / "docker-compose.yml").read_text())["services"]
    assert [name for name, service in services.items() if "build" in service] == ["image"]
    assert "profiles" not in services["image"]
    assert {service["pull_policy"] for service in services.values()} == {"never"}, "no registry is asked"
    for init in ("init", "peers-init"):
        assert services[init]["depends_on"] == {"image": {"condition": "service_completed_successfully"}}


@pytest.mark.process
@pytest.mark.parametrize("ends", ["by itself", "when told to"])
def test_what_a_node_says_is_kept_and_its_end_is_its_own(ends: str, tmp_path: Path) -> None:
    """The entrypoint of a container, with a node that says what it is told, waits, and has an exit code."""
    node = load_compose((ROOT / "docker-compose.yml").read_text())["services"]["task-01"]
    entrypoint = [word.replace("$$", "$").replace("/tmp/", f"{tmp_path}/") for word in node["entrypoint"]]
    entrypoint = [word.replace("/logs/", f"{tmp_path}/") for word in entrypoint]
    fake = tmp_path / "drom-net"
    last = "while :; do sleep 0.01; done" if ends == "when told to" else "exit 3"
    fake.write_text(f"#!/bin/sh\ntrap 'echo closed its round; exit 143' TERM\necho \"$@\" >&2\n{last}\n")
    fake.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    (tmp_path / "log.txt").write_text("of an earlier start\n")
    process = subprocess.Popen([*entrypoint, *node["command"]], env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        told = process.stdout.readline()
        if ends == "when told to":
            process.send_signal(signal.SIGTERM)
        told += process.communicate(timeout=DEADLINE_S)[0]
    finally:
        process.kill()
    said = "worker --task task-01\n"
    assert (told, process.returncode) == ((said, 3) if ends == "by itself" else (said + "closed its round\n", 143))
    assert (tmp_path / "log.txt").read_text() == "of an earlier start\n" + told


_NOT_IN_IMAGES = ("dev", "docs", "release")
"""Extras."""


def test_all_that_an_image_may_have_is_of_one_version() -> None:
    pinned: dict[str, str] = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if not line.startswith("#"):
            found = re.fullmatch(r"([a-z0-9-]+)==([0-9.]+)", line)
            assert found is not None, line
            pinned[found[1]] = found[2]

    def requirements(name: str, extras: tuple[str, ...]) -> set[str]:
        """What it needs, as installed here, itself included."""
        needed = {name}
        for line in metadata.requires(name) or ():
            one = Requirement(line)
            if one.name not in needed and (
                one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *extras))
            ):
                needed |= requirements(re.sub("[-_.]+", "-", one.name).lower(), tuple(one.extras))
        return needed

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    needed = requirements("drom-net", tuple(extra for extra in extras if extra not in ("all", *_NOT_IN_IMAGES)))
    assert needed - {"drom-net"} <= pinned.keys()
    lines = [line for line in metadata.requires("drom-net") or () if not any(extra in line for extra in _NOT_IN_IMAGES)]
    direct = [Requirement(line) for line in lines]
    too_old = [str(one) for one in direct if one.name != "drom-net" and pinned[one.name.lower()] not in one.specifier]
    assert not too_old


def test_the_image_says_what_it_is() -> None:
    text = (ROOT / "Dockerfile").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="(.*?)"', text))
    assert labels == {
        "title": project["name"],
        "description": project["description"],
        "version": __version__,
        "licenses": project["license"],
    }
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", base_image()), "one patch version, on one Debian"
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["$BASE", "$BASE"]
