"""The export for systemd: units that systemd itself finds nothing wrong with, and what the script puts where."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import DEADLINE_S

from drom_net.cli import main
from drom_net.config import config_digest, load_config
from drom_net.data.datasets import task_names

STAR = """\
name: Pumps_1
algorithm: {name: drom}
data: {files: "{task}.csv", tasks: [north, South_2, west.x-3], columns: {x: number, y: number}}
reducer: {endpoint: "tcp://The_Hub:5571"}
"""
NAMES = """\
algorithm: {name: drom}
data: {files: all.csv, task_column: site, tasks: [Leeds General, reducer, South_2, 'a%i $x/"', A, a],
  columns: {x: number}}
reducer: {endpoint: "tcp://hub:5571"}
"""
RING = """\
algorithm: {name: drom-d}
topology: {graph: ring}
data: {dataset: synthetic, tasks: 3}
peers: {endpoints: ["tcp://a:5571", "tcp://b:5571", "tcp://c:5571"]}
"""
_STAR_UNITS = ["drom-net-reducer.service", "drom-net-worker@.service"]
UNITS = {"star": _STAR_UNITS, "names": _STAR_UNITS, "ring": ["drom-net-peer@.service"]}
TEXTS = {"star": STAR, "names": NAMES, "ring": RING}
BOTH = pytest.mark.parametrize("layout", TEXTS)
Export = Callable[..., Path]


@BOTH
def test_what_is_written(layout: str, export: Export, tmp_path: Path) -> None:
    folder = export("systemd", TEXTS[layout])
    assert sorted(path.name for path in folder.glob("*.service")) == UNITS[layout]
    config, original = load_config(folder / "cluster.yaml"), load_config(tmp_path / "deploy.yaml")
    names = task_names(original.data, original.base)
    assert config_digest(config, names) == config_digest(original, names)
    assert (config.reducer, config.peers) == (original.reducer, original.peers)
    assert config.security.keys == str(folder / "keys")
    for unit in UNITS[layout]:
        parsed = configparser.RawConfigParser(strict=False)
        parsed.optionxform = str  # type: ignore[assignment,method-assign]
        parsed.read(folder / unit)
        service = parsed["Service"]
        role = unit.removeprefix("drom-net-").partition("@")[0].removesuffix(".service")
        assert service["ExecStart"] == f"/opt/drom-net/bin/drom-net {role}"
        assert (service["Restart"], service["RestartPreventExitStatus"]) == ("on-failure", "2 3")
        assert service["StateDirectory"] == ("drom-net/reducer" if role == "reducer" else "drom-net/%i")
    text = "".join((folder / unit).read_text() for unit in UNITS[layout])
    assert "DROM_NET_TASK=%i" in text
    assert not [word for word in ("@ROLE@", "@NODE@", "@TASK@", "@NAME@") if word in text]


@BOTH
def test_systemd_finds_nothing_wrong(layout: str, export: Export, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze here; Debian's package systemd has it")
    folder = export("systemd", TEXTS[layout])
    units = tmp_path / "units"
    units.mkdir()
    for name in UNITS[layout]:
        # It looks whether the program is there, which it is not on this machine.
        text = (folder / name).read_text().replace("/opt/drom-net/bin/drom-net", "/bin/true")
        (units / name.replace("@.", "@South_2.")).write_text(text)
    paths = [str(path) for path in sorted(units.iterdir())]
    done = analyze("verify", "--man=no", "--recursive-errors=no", *paths)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    for path in paths:
        rated = analyze("security", "--offline=yes", "--threshold=25", path)  # of 100: "OK"; a plain unit has 96
        assert rated.returncode == 0, rated.stdout + rated.stderr


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"SYSTEMD_PAGER": "", "SYSTEMD_COLORS": "0"}
    return subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, timeout=DEADLINE_S, env=environment
    )


@pytest.mark.parametrize(
    ("layout", "node", "unit"),
    [
        ("star", "reducer", "drom-net-reducer"),
        ("star", "South_2", "drom-net-worker@South_2"),
        ("names", "reducer", "drom-net-reducer"),
        ("names", "Leeds-General-848e5a01", "drom-net-worker@Leeds-General-848e5a01"),
        ("names", "reducer-d5bb10af", "drom-net-worker@reducer-d5bb10af"),
        ("ring", "task-02", "drom-net-peer@task-02"),
    ],
)
def test_install_puts_a_nodes_own_files_into_place(
    layout: str, node: str, unit: str, export: Export, tmp_path: Path
) -> None:
    """As it is, but below another root, with a systemctl that only says what it was told."""
    folder = export("systemd", TEXTS[layout])
    assert main(["keys", "create", str(folder / "cluster.yaml")]) == 0
    root = tmp_path / "root"
    for place in ("opt/drom-net/bin", "etc/systemd/system", "bin"):
        (root / place).mkdir(parents=True)
    for name, text in {
        "opt/drom-net/bin/drom-net": f'exec {sys.executable} -P -m drom_net "$@"',
        "bin/systemctl": f'echo "$@" >>{root}/systemctl.txt',
        "bin/id": "exit 0",
        # The user drom-net is not on this machine: all but the owner is as the script says.
        "bin/install": "\n".join(
            [
                "line=",
                'for word; do case $word in drom-net | -o | -g) ;; *) line="$line $word" ;; esac; done',
                "exec /usr/bin/install $line",
            ]
        ),
    }.items():
        (root / name).write_text(f"#!/bin/sh\n{text}\n")
        (root / name).chmod(0o755)
    script = folder / "install.sh"
    script.write_text(script.read_text().replace("/opt/", f"{root}/opt/").replace("/etc/", f"{root}/etc/"))
    environment = os.environ | {"PATH": f"{root}/bin:{os.environ['PATH']}"}

    def install(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["./install.sh", *arguments], cwd=folder, env=environment, capture_output=True, text=True)

    for wrong in ([], ["north-pole"]):
        done = install(*wrong)
        assert done.returncode == 2 and "expected a node of nodes.txt" in done.stderr
    done = install(node)
    assert done.returncode == 0, done.stderr
    etc = root / "etc" / "drom-net"
    there = {str(path.relative_to(etc)) for path in etc.rglob("*") if path.is_file()}
    assert there == {"cluster.yaml", "drom-net.env", "keys/public.keys", f"keys/{node}.secret"}
    assert (etc / "keys" / f"{node}.secret").stat().st_mode & 0o777 == 0o600
    assert (root / "systemctl.txt").read_text() == f"daemon-reload\nenable --now {unit}\n"
    assert unit in done.stdout
    (folder / "keys" / f"{node}.secret").unlink()
    done = install(node)
    assert done.returncode == 2 and f"keys/{node}.secret: expected a key file, got none" in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (STAR.replace('reducer: {endpoint: "tcp://The_Hub:5571"}', ""), "reducer.endpoint: expected an address"),
        (RING[: RING.index("peers:")], "peers.endpoints: expected where each task's peer is reached"),
    ],
)
def test_a_file_that_names_no_hosts_is_refused(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cluster.yaml").write_text(text)
    assert main(["export", "systemd", str(tmp_path / "cluster.yaml"), "-o", str(tmp_path / "out")]) == 2
    assert said in capsys.readouterr().err
