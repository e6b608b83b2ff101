"""The image is built and the compose files run for real, also through what happens to containers."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from containers import IMAGE, Docker, Project, base_image
from processes import CONFIGS, wait_until

from drom_net import __version__
from drom_net.cli import main

pytestmark = pytest.mark.docker

TASKS = ("Pump_North", "pump.north", "7", "site-" + "of-a-plant-with-a-long-name-" * 2)
SERVICES = ("pump-north", "pump-north-2", "t-7", "site-of-a-plant-with-a-long-name-of-a-plant-with-a")
ROWS = 3000
SLOWLY = ("--set", "data.pace_s=0.03", "--set", "checkpoint.every_s=0.3", "--set", "timeouts.heartbeat_s=1")


def owners(folder: Path) -> set[int]:
    return {path.stat().st_uid for path in (folder, *folder.rglob("*"))}


def test_a_fresh_clone_comes_up_and_ends_with_its_result(docker: Docker, checkout: Project) -> None:
    reference = {}
    runs = [("star-4", "star-4.yaml", ("up", "--build")), ("star-4-2", "star-4.yaml", ("up",))]
    runs.append(("ring-4", "ring-4.yaml", ("--profile", "drom-d", "up", "--build")))
    for name, file, command in runs:
        began = time.monotonic()
        told = checkout.compose(*command)
        print(f"\ndocker compose {' '.join(command)}: {time.monotonic() - began:.1f} s")
        if file not in reference:
            reference[file] = docker.reference(CONFIGS, file)
        assert f"run directory runs/{name}" in told
        assert f"digest {reference[file]}" in told
        assert ("reducer: finished" in told) == (file == "star-4.yaml")
        assert checkout.digest(name) == reference[file]
    assert owners(checkout.folder / "runs") == {1000}
    assert sorted(path.name for path in (checkout.folder / "runs").iterdir()) == [
        "logs",
        "ring-4",
        "star-4",
        "star-4-2",
    ]
    for name in ("star-4", "star-4-2"):
        logs = {path.name: path.read_text() for path in (checkout.folder / "runs" / name / "logs").iterdir()}
        assert sorted(logs) == ["reducer.log", *(f"task-0{number}.log" for number in range(1, 5))]
        assert logs["reducer.log"].count("reducer: finished") == 1
    checkout.compose("--profile", "drom", "--profile", "drom-d", "down", "-v")
    assert not docker("ps", "-aq") and not docker("volume", "ls", "-q")


def test_the_image_is_small_and_runs_as_nobody_special(docker: Docker, checkout: Project) -> None:
    docker.try_to("compose", "build", "-q", cwd=checkout.folder)
    image = json.loads(docker("image", "inspect", IMAGE))[0]
    base = json.loads(docker("image", "inspect", base_image()))[0]
    added = image["Size"] - base["Size"]
    print(f"\nimage {image['Size'] / 1e6:.0f} MB, {added / 1e6:.0f} MB of it above {base_image()}")
    assert added < 100e6
    assert image["Config"]["User"] == "1000:1000"
    assert image["Config"]["Labels"]["org.opencontainers.image.version"] == __version__
    look = "id -u; find / -xdev -name '*.secret' -o -xdev -name 'star-*.yaml'"
    found = docker("run", "--rm", "--read-only", "--entrypoint", "sh", IMAGE, "-c", look)
    assert found.split() == ["1000"]


def pumps(folder: Path) -> Path:
    """Four sites' files, with names that no host may have; the image reads such without any extra."""
    draw = random.Random(6)
    for task in TASKS:
        rows = np.array([[draw.gauss(0, 1) for _ in range(5)] for _ in range(ROWS)])
        np.savez(folder / f"pump-{task}.npz", X=rows, y=np.where(rows.sum(axis=1) > 0, 1, 0))
    config = folder / "pumps.yaml"
    config.write_text(
        f"algorithm: {{name: drom}}\ndata:\n  files: 'pump-{{task}}.npz'\n  tasks: {json.dumps(TASKS)}\n  dim: 5\n"
    )
    return config


def kill_as_the_kernel_does(project: Project, service: str) -> None:
    """SIGKILL to its process, as when memory is short: the engine then follows the restart policy."""
    before = project.state(service)
    process = before["State"]["Pid"]
    assert process > 1, f"{service} does not run"
    os.kill(process, signal.SIGKILL)
    wait_until(
        lambda: project.state(service)["RestartCount"] > before["RestartCount"], f"{service} was not started again"
    )


@contextmanager
def out_of_reach(project: Project, name: str, who_tells: str) -> Iterator[None]:
    """Within, a node becomes out of reach; at the end a node on the other side has noticed that."""
    yield

    def is_lost() -> bool:
        told = project.docker("logs", project.container(who_tells))
        found = [match.start() for match in re.finditer(rf"{re.escape(name)}\b.* is connected again", told)]
        return told.rfind(f"lost the connection to {name}") > max(found, default=-1)

    wait_until(is_lost, f"{who_tells} has not lost the connection to {name}")


def cut_off_for_a_while(project: Project, service: str, name: str, who_tells: str) -> None:
    """Take it from its network until the other side has seen that, and give it back."""
    container = project.container(service)
    with out_of_reach(project, name, who_tells):
        project.docker("network", "disconnect", project.network, container)
    project.docker("network", "connect", "--alias", service, project.network, container)


def pause_for_a_while(project: Project, service: str, name: str, who_tells: str) -> None:
    with out_of_reach(project, name, who_tells):
        project.compose("pause", service)
    project.compose("unpause", service)


def recreate_elsewhere(project: Project, service: str) -> None:
    """Another container in its place, with its volume and another address: the old one is somebody else's now."""
    old = project.address(service)
    project.docker("rm", "-f", project.container(service))
    sitting = []
    for _ in range(20):
        command = ("run", "-d", "--network", project.network, "--entrypoint", "sleep", IMAGE, "600")
        sitting.append(project.docker(*command).strip())
        (network,) = json.loads(project.docker("inspect", sitting[-1]))[0]["NetworkSettings"]["Networks"].values()
        if network["IPAddress"] == old:
            break
    else:
        raise AssertionError(f"nobody got {old}")
    project.compose("up", "-d", "--no-deps", service)
    assert project.address(service) != old
    project.wait_for_progress(service)
    project.docker("rm", "-f", *sitting)


def test_a_star_of_sites_comes_through_it_all(docker: Docker, export: Callable[..., Project], tmp_path: Path) -> None:
    config = pumps(tmp_path)
    project = export("star", str(config), *SLOWLY)
    first, second, third, fourth = SERVICES
    project.compose("up", "-d", "reducer", *SERVICES)
    for service in ("reducer", *SERVICES):
        project.wait_for_progress(service)

    assert project.inside(first, "ls /node/keys").stdout.split() == ["Pump_North.secret", "public.keys"]
    assert project.inside(first, "ls /data").stdout.split() == ["pump-Pump_North.npz"]
    for what in ("/x", "/data/pump-Pump_North.npz"):
        assert project.inside(first, f"touch {what}").returncode
    assert project.inside("reducer", "ls /data").returncode
    check = json.loads(project.compose("config", "--format", "json"))["services"][first]["healthcheck"]["test"][1]
    check = check.replace("$$", "$")
    assert project.inside(first, check).returncode == 0
    assert project.inside(first, f"touch -d '2 minutes ago' /node/nodes/*/lock; {check}").returncode == 1
    wait_until(lambda: project.inside(first, check).returncode == 0, "a node at work did not touch its lock again")

    kill_as_the_kernel_does(project, first)
    project.compose("kill", second)
    project.compose("start", second)
    pause_for_a_while(project, third, TASKS[2], "reducer")
    cut_off_for_a_while(project, fourth, TASKS[3], "reducer")
    project.wait_for_progress("reducer")

    began = time.monotonic()
    project.compose("stop", third)
    print(f"\nstopped after {time.monotonic() - began:.1f} s")
    assert project.state(third)["State"]["ExitCode"] == 143
    project.compose("start", third)
    recreate_elsewhere(project, "reducer")
    cut_off_for_a_while(project, "reducer", "the reducer", first)

    told = project.compose("up")  # who has finished says so, the others go on; and there is the result
    reference = docker.reference(tmp_path, "pumps.yaml")
    assert f"digest {reference}" in told
    assert project.digest("pumps") == reference
    assert owners(project.folder / "runs") == {1000}


def test_a_ring_of_peers_comes_through_it_all(docker: Docker, export: Callable[..., Project]) -> None:
    longer = ("--set", f"data.examples={ROWS}")
    project = export("ring", str(CONFIGS / "ring-4.yaml"), *longer, *SLOWLY)
    services = [f"task-{task:02d}" for task in range(1, 5)]
    project.compose("up", "-d", *services)
    for service in services:
        project.wait_for_progress(service)
    kill_as_the_kernel_does(project, "task-01")
    project.compose("kill", "task-02")
    project.compose("start", "task-02")
    pause_for_a_while(project, "task-03", "task-03", "task-04")
    cut_off_for_a_while(project, "task-04", "task-04", "task-03")
    recreate_elsewhere(project, "task-01")
    told = project.compose("up")
    reference = docker.reference(CONFIGS, "ring-4.yaml", *longer)
    assert f"digest {reference}" in told
    assert project.digest("ring-4") == reference


def test_compose_takes_a_thousand_tasks(docker: Docker, export: Callable[..., Project]) -> None:
    project = export("thousand", str(CONFIGS / "star-4.yaml"), "--set", "data.tasks=1000")
    services = project.compose("config", "--services").split()
    assert len(services) == len(set(services)) == 1003


def test_without_an_image_there_is_one_error_and_no_registry_is_asked(
    docker: Docker, export: Callable[..., Project]
) -> None:
    project = export("missing", str(CONFIGS / "star-4.yaml"))
    (project.folder / ".env").write_text("DROM_NET_IMAGE=drom-net:missing\n")
    done = docker.try_to("compose", "up", cwd=project.folder)
    assert done.returncode
    told = re.findall("^Error response from daemon: (.+)$", done.stdout, re.MULTILINE)
    assert told == ["No such image: drom-net:missing"]
    assert "pull" not in done.stdout.lower()


def test_sites_with_a_folder_each_run_one_container_each(
    docker: Docker, checkout: Project, export: Callable[..., Project], tmp_path: Path
) -> None:
    """By the files of `--per-site`; the reducer is reached at a port of the host, as from another one."""
    host = "10.99.0.1"
    docker("network", "create", "--subnet", f"{host}/24", "--gateway", host, "of-the-host")
    config = tmp_path / "cluster.yaml"
    config.write_text(
        f"algorithm: {{name: drom}}\nreducer: {{endpoint: 'tcp://{host}:5600'}}\nsecurity: {{keys: keys}}\n"
        "data: {dataset: synthetic, tasks: 2, examples: 60, dim: 8}\n"
    )
    assert main(["keys", "create", str(config)]) == 0
    folder = export("sites", str(config), "--per-site").folder
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 1000, 1000)
    sites = [Project(docker, site) for site in sorted(folder.iterdir())]
    try:
        for site in sites:
            site.compose("up", "-d")
        for site in sites:
            role = "reducer" if site.folder.name == "reducer" else "worker"
            assert docker("wait", site.container(role)).strip() == "0", site.compose("logs")
    finally:
        for site in sites:
            site.compose("down", "-t", "1")
        docker("network", "rm", "of-the-host")
    merged = tmp_path / "merged"
    assert main(["merge", *(str(site.folder / "run") for site in sites), "--out", str(merged)]) == 0
    digest = json.loads((merged / "summary.json").read_text())["digest"]
    assert digest == docker.reference(tmp_path, "cluster.yaml")
