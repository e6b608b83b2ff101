"""A Docker engine, and projects of `docker compose` in it, as tests use them."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from processes import PATIENCE, wait_until

from drom_net import __version__

IMAGE = f"drom-net:{__version__}"
DOCKERFILE = Path(__file__).parents[1] / "Dockerfile"
DEADLINE_S = 240 * PATIENCE


def base_image() -> str:
    """What the image is built on."""
    (found,) = re.findall(r"^ARG BASE=(.+)$", DOCKERFILE.read_text(), re.MULTILINE)
    return str(found)


@dataclass(frozen=True)
class Docker:
    """The engine."""

    environment: Mapping[str, str]

    def try_to(self, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """`docker` with these arguments; what it said, both streams together."""
        return subprocess.run(
            ["docker", *arguments],
            cwd=cwd,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE_S,
        )

    def __call__(self, *arguments: str, cwd: Path | None = None) -> str:
        """The same, which must succeed."""
        done = self.try_to(*arguments, cwd=cwd)
        assert done.returncode == 0, f"docker {shlex.join(arguments)}: {done.returncode}\n{done.stdout}"
        return done.stdout

    def reference(self, folder: Path, *arguments: str) -> str:
        """The digest of the plain loop over a file of this folder: in a container, with the nodes' own NumPy."""
        told = self(
            *("run", "--rm", "--network", "none", "--read-only", "--tmpfs", "/tmp", "-v", f"{folder}:/given:ro"),
            *("--user", "0:0"),  # the tests' folders are root's alone
            *("-w", "/given", IMAGE, "run", *arguments, "--driver", "reference", "--out", "/tmp/run", "--json", "-q"),
        )
        return str(json.loads(told[told.index("{") :])["digest"])


@dataclass(frozen=True)
class Project:
    """A folder with a compose file."""

    docker: Docker
    folder: Path

    @property
    def network(self) -> str:
        """The cluster's."""
        return f"{self.folder.name}_cluster"

    def compose(self, *arguments: str) -> str:
        """`docker compose` there."""
        return self.docker("compose", *arguments, cwd=self.folder)

    def container(self, service: str) -> str:
        """The id of its container."""
        return self.compose("ps", "-aq", service).strip()

    def state(self, service: str) -> dict[str, Any]:
        """Of its container, as `docker inspect` has it."""
        return dict(json.loads(self.docker("inspect", self.container(service)))[0])

    def address(self, service: str) -> str:
        """Its container's, on the cluster's network."""
        (network,) = self.state(service)["NetworkSettings"]["Networks"].values()
        return str(network["IPAddress"])

    def inside(self, service: str, command: str) -> subprocess.CompletedProcess[str]:
        """A shell command in its container."""
        return self.docker.try_to("exec", self.container(service), "sh", "-c", command)

    def wait_for_progress(self, service: str) -> None:
        """Wait until this node, started as it is now, has kept one more snapshot."""
        look = "ls /node/nodes/*/snapshot-*"
        before = self.inside(service, look).stdout

        def has_news() -> bool:
            now = self.inside(service, look)
            return now.returncode == 0 and now.stdout != before

        wait_until(has_news, f"no new snapshot of {service}")

    def digest(self, run: str) -> str:
        """Of a run directory, after a look at all that is in it."""
        told = self.docker(
            *("run", "--rm", "--network", "none", "--read-only", "-v", f"{self.folder}/runs:/runs:ro"),
            *(IMAGE, "verify", f"/runs/{run}", "--json"),
        )
        document = json.loads(told)
        assert document["verified"]
        return str(document["digest"])
