"""What `drom-net export kubernetes` writes, run as its pods would run, as far as that goes without a Kubernetes.

Each pod is a host in a network namespace, known by its host name and Service. It has its volumes mounted where the
manifest says, its environment, its init container's command and then its own. Where the NetworkPolicies let nobody
connect no packet goes. What is not tried here: the controllers, the image, users, limits and probes.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from by_hand import digest_of_loop
from processes import DEADLINE_S, Family, Told, family, wait_until
from schedulers.test_kubernetes import allowed_connections, node_of, of_kind, pods

pytestmark = [pytest.mark.network, pytest.mark.process, pytest.mark.slow, pytest.mark.usefixtures("may_make_networks")]

DATA = """\
data: {dataset: synthetic, tasks: 5, examples: 400, dim: 8, pace_s: 0.015}
checkpoint: {every_s: 0.1}
timeouts: {heartbeat_s: 0.5}
name: Nine_Lives
"""
STAR = "algorithm: {name: drom}\n" + DATA
PEERS = "algorithm: {name: drom-d, tau: 2}\ntopology: {graph: regular, degree: 2, graph_seed: 2}\n" + DATA


class Pods:
    """The pods of an export, on hosts of their own."""

    def __init__(self, netlab: ModuleType, folder: Path, deploy: Path, stack: ExitStack) -> None:
        self.folder, self.deploy = folder, deploy
        self.pods = {f"p{number}": pod for number, pod in enumerate(pods(deploy))}
        self.lab = stack.enter_context(netlab.Lab(list(self.pods)))
        self.processes: Family = stack.enter_context(family(folder))
        lines = [f"{self.lab.ip(host)} {pod['name']}.{pod['spec']['subdomain']}\n" for host, pod in self.pods.items()]
        (folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(lines))
        allowed = allowed_connections(deploy)
        for one, first in self.pods.items():
            for other, second in self.pods.items():
                if one < other and not {(first["name"], second["name"]), (second["name"], first["name"])} & allowed:
                    self.lab.link(one, other, blocked=True)
        command = folder / "bin" / "drom-net"
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m drom_net "$@"\n')
        command.chmod(0o755)
        self.path = f"{command.parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

    def start(self, host: str) -> tuple[subprocess.Popen[str], Told]:
        """A node's pod, with a memory of its own and the folder that its predecessor had."""
        pod = self.pods[host]
        # Seen in this command's own mounts only.
        steps = [f"mount --bind {self.folder}/hosts /etc/hosts", "mount -t tmpfs pod /srv"]
        (init,), (node,) = pod["spec"]["initContainers"], pod["spec"]["containers"]
        variables = {"PATH": self.path}
        steps += [*self.mounts(pod, init), self.command(init, variables)]
        steps += [*self.mounts(pod, node), f"exec {self.command(node, variables)}"]
        before = ("ip", "netns", "exec", self.lab.ns(host), "sh", "-euc", "\n".join(steps), "sh")
        process = self.processes.start(before=before)
        return process, self.processes.watch(process)

    def mounts(self, pod: dict[str, Any], container: dict[str, Any]) -> list[str]:
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        steps = []
        for mount in container["volumeMounts"]:
            at, volume = mount["mountPath"], volumes[mount["name"]]
            if at == "/tmp":
                continue
            if "configMap" in volume:
                source = self.deploy
            elif "secret" in volume:
                source = self.folder / "secrets" / node_of(pod)
            elif "persistentVolumeClaim" in volume:
                source = self.folder / volume["persistentVolumeClaim"]["claimName"]
                source /= mount.get("subPath", "")
                source.mkdir(parents=True, exist_ok=True)
            else:
                steps.append(f"[ -d {at} ] || {{ mkdir -p {at} && mount -t tmpfs memory {at} && chmod 2777 {at}; }}")
                continue
            steps.append(f"[ -d {at} ] || {{ mkdir -p {at} && mount --bind {source} {at}; }}")
            if mount.get("readOnly"):
                steps.append(f"mount -o remount,bind,ro {at}")
        return steps

    def command(self, container: dict[str, Any], variables: dict[str, str]) -> str:
        given = {each["name"]: each["value"] for each in container.get("env", []) if "value" in each}
        # What is said is looked for in sentences.
        given = variables | given | ({"DROM_NET_LOG_FORMAT": "text"} if given else {})
        return shlex.join(["env", *(f"{name}={value}" for name, value in given.items()), *container["command"]])


@pytest.mark.parametrize("layout", ["star", "peers"])
def test_pods_by_the_manifests(layout: str, netlab: ModuleType, tmp_path: Path) -> None:
    """One is killed in the middle and made again; then the result is collected."""
    (tmp_path / "cluster.yaml").write_text(STAR if layout == "star" else PEERS)
    with ExitStack() as stack:
        setup = stack.enter_context(family(tmp_path))
        for arguments in (
            ("export", "kubernetes", "cluster.yaml", "-o", "deploy"),
            ("keys", "create", "deploy/cluster.yaml"),
        ):
            code, _, err = setup.run(*arguments)
            assert code == 0, err
        for pod in pods(tmp_path / "deploy"):
            secret = tmp_path / "secrets" / node_of(pod)
            secret.mkdir(parents=True)
            for name in ("public.keys", f"{node_of(pod)}.secret"):
                shutil.copy(tmp_path / "deploy" / "keys" / name, secret)
                (secret / name).chmod(0o440)  # as a Secret is mounted beside an fsGroup
        cluster = Pods(netlab, tmp_path, tmp_path / "deploy", stack)
        started = {host: cluster.start(host) for host in cluster.pods}
        victim = "p1"
        (volume,) = [each["metadata"]["name"] for each in of_kind(tmp_path / "deploy", "PersistentVolumeClaim")]
        run = cluster.pods[victim]["spec"]["containers"][0]["volumeMounts"]
        folder = tmp_path / volume / next(mount["subPath"] for mount in run if mount["name"] == "run")
        probe = cluster.pods[victim]["spec"]["containers"][0]["startupProbe"]["exec"]["command"]
        assert probe[-1] == "test -e /srv/drom-net/run/nodes/*/lock"
        here = probe[-1].replace("/srv/drom-net/run", str(folder))
        wait_until(lambda: subprocess.run(["sh", "-c", here]).returncode == 0, "what the probe looks for")
        wait_until(lambda: list(folder.glob("nodes/*/snapshot-*.drom")), "a snapshot of the victim")
        started[victim][0].kill()
        started[victim][0].wait(DEADLINE_S)
        started[victim] = cluster.start(victim)
        for host, (process, told) in started.items():
            assert process.wait(DEADLINE_S) == 0, f"{cluster.pods[host]['name']}: {told.all_of_it()}"
        assert "going on from the snapshot" in started[victim][1].all_of_it()
        for own in (tmp_path / volume).iterdir():
            assert len(list((own / "nodes").iterdir())) == 1, "a pod has written in another one's folder"
        (collect,) = of_kind(tmp_path / "deploy", "Pod")
        merge = collect["spec"]["initContainers"][0]["command"][-1].replace("/srv/drom-net/run", str(tmp_path / volume))
        done = setup.start(before=("env", f"PATH={cluster.path}", "sh", "-euc", merge))
        out, err = done.communicate(timeout=DEADLINE_S)
        assert done.returncode == 0, err
        result = json.loads((tmp_path / volume / "result" / "summary.json").read_text())
        assert result["digest"] == digest_of_loop(tmp_path / "cluster.yaml")
        assert result["digest"] in out
