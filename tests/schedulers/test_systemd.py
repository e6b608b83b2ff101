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
from drom_net.config.load import load_config
from drom_net.config.model import config_digest
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
        node = "reducer" if role == "reducer" else "%i"
        assert service["EnvironmentFile"] == f"-/etc/drom-net/{node}.env"
        assert service["MemoryMax"] == ("75%" if layout != "ring" and node == "%i" else "512M"), "of files not seen"
        assert (service["TasksMax"], service["LimitNOFILE"], service["LimitCORE"]) == ("100", "65536", "0")
        assert service["StateDirectory"] == ("drom-net/reducer" if role == "reducer" else "drom-net/%i")
    text = "".join((folder / unit).read_text() for unit in UNITS[layout])
    assert "DROM_NET_TASK=%i" in text
    assert not [word for word in ("@ROLE@", "@NODE@", "@TASK@", "@NAME@", "@MEMORY@") if word in text]


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


class Host:
    """Where `install.sh` of an export is called: as it is, but below another root, and with a systemctl that only says
    what it was told."""

    def __init__(self, root: Path, folder: Path, data: str = "") -> None:
        """
        Args:
            data: A file that is there.
        """
        self.root, self.folder = root, folder
        assert main(["keys", "create", str(folder / "cluster.yaml")]) == 0
        for place in ("opt/drom-net/bin", "etc/systemd/system", "bin", "srv/drom-net"):
            (root / place).mkdir(parents=True)
        if data:
            (root / "srv/drom-net" / data).touch()
        for name, text in {
            "opt/drom-net/bin/drom-net": f'exec {sys.executable} -P -m drom_net "$@"',
            "bin/systemctl": f"""echo "$@" >>{root}/orders
case $1 in
is-active) cat {root}/state ;;
show) echo 2 ;;
restart) [ ! -e {root}/broken ] ;;
esac""",
            "bin/journalctl": "echo what the node said",
            "bin/sleep": "exit 0",
            "bin/id": "exit 0",
            # The user drom-net is not on this machine: all but the owner is as the script says.
            "bin/runuser": 'shift 3; exec "$@"',
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
        text = script.read_text()
        for place in ("opt", "etc", "srv"):
            text = text.replace(f"/{place}/", f"{root}/{place}/")
        # The tests' own folder may be below one that units do not see.
        script.write_text(text.replace(" root run/user tmp ", " run/user unseen "))
        self.becomes("active")

    def becomes(self, state: str) -> None:
        """What `systemctl is-active` says from now on."""
        (self.root / "state").write_text(f"{state}\n")

    def install(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        (self.root / "orders").write_text("")
        environment = os.environ | {"PATH": f"{self.root}/bin:{os.environ['PATH']}"}
        command = ["./install.sh", *arguments]
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True)

    def orders(self) -> list[str]:
        """What the last call has told systemctl to do."""
        told = (self.root / "orders").read_text().splitlines()
        return [line for line in told if not line.startswith(("is-active", "show"))]


@pytest.mark.parametrize(
    ("layout", "node", "unit", "data"),
    [
        ("star", "reducer", "drom-net-reducer.service", ""),
        ("star", "South_2", "drom-net-worker@South_2.service", "South_2.csv"),
        ("names", "reducer", "drom-net-reducer.service", ""),
        ("names", "Leeds-General-848e5a01", "drom-net-worker@Leeds-General-848e5a01.service", "all.csv"),
        ("names", "reducer-d5bb10af", "drom-net-worker@reducer-d5bb10af.service", "all.csv"),
        ("ring", "task-02", "drom-net-peer@task-02.service", ""),
    ],
)
def test_install_puts_a_nodes_own_files_into_place(
    layout: str, node: str, unit: str, data: str, export: Export, tmp_path: Path
) -> None:
    host = Host(tmp_path / "root", export("systemd", TEXTS[layout]), data)
    for wrong in ([], ["north-pole"]):
        done = host.install(*wrong)
        assert done.returncode == 2 and "expected a node of nodes.txt" in done.stderr
    done = host.install(node)
    assert done.returncode == 0, done.stderr
    etc = host.root / "etc" / "drom-net"
    there = {str(path.relative_to(etc)) for path in etc.rglob("*") if path.is_file()}
    assert there == {"cluster.yaml", f"{node}.env", f"{node}.started", "keys/public.keys", f"keys/{node}.secret"}
    assert (etc / "keys" / f"{node}.secret").stat().st_mode & 0o777 == 0o600
    assert host.orders() == ["daemon-reload", f"enable --quiet {unit}", f"restart {unit}"]
    assert f"{unit} runs" in done.stdout
    (host.folder / "keys" / f"{node}.secret").unlink()
    done = host.install(node)
    assert done.returncode == 2 and f"keys/{node}.secret: expected a key file, got none" in done.stderr


def test_install_wants_the_data_where_the_unit_reads_it(export: Export, tmp_path: Path) -> None:
    host = Host(tmp_path / "root", export("systemd", STAR))
    done = host.install("north")
    assert done.returncode == 2 and host.orders() == []
    place = host.root / "srv" / "drom-net"
    assert f"{place}/north.csv: expected data of north that the user drom-net may read, got none" in done.stderr
    for folder, code in (("/home/me", 2), (str(tmp_path / "mine"), 0)):  # as the node's own file says
        environment = host.root / "etc" / "drom-net" / "north.env"
        environment.write_text(f'DROM_NET_DATA="{folder}"\n')
        (tmp_path / "mine").mkdir(exist_ok=True)
        (tmp_path / "mine" / "north.csv").touch()
        done = host.install("north")
        assert done.returncode == code, done.stderr
        assert ("/home/me/north.csv: expected data where the unit sees it" in done.stderr) == (code == 2)


def test_what_each_node_reads_is_listed(export: Export, tmp_path: Path) -> None:
    text = STAR.replace("{task}.csv", "in/{task}.svm").replace(
        "columns: {x: number, y: number}", "features: features.txt"
    )
    (tmp_path / "features.txt").write_text("x\n")
    lines = (export("systemd", text) / "data.txt").read_text().splitlines()[1:]
    own = [
        f"{name}\t{file}" for name in ("north", "South_2", "west.x-3") for file in ("features.txt", f"in/{name}.svm")
    ]
    assert lines == ["reducer\tfeatures.txt", *own]


def test_install_restarts_what_has_changed_and_nothing_else(export: Export, tmp_path: Path) -> None:
    host = Host(tmp_path / "root", export("systemd", RING))
    unit = "drom-net-peer@task-01.service"
    for change, order in (
        ("", "restart"),
        ("", "start"),
        ("etc/drom-net/task-01.env", "restart"),
        ("", "start"),
        ("drom-net-peer@.service", "restart"),
        ("cluster.yaml", "restart"),
        ("", "start"),
    ):
        if change:
            path = (host.root if change.startswith("etc") else host.folder) / change
            path.write_text(path.read_text() + "# changed\n")
        assert host.install("task-01").returncode == 0
        assert host.orders() == ["daemon-reload", f"enable --quiet {unit}", f"{order} {unit}"], change


@pytest.mark.parametrize("state", ["failed", "activating", "broken"])
def test_install_says_what_has_failed(state: str, export: Export, tmp_path: Path) -> None:
    host = Host(tmp_path / "root", export("systemd", RING))
    unit = "drom-net-peer@task-01.service"
    host.becomes("active" if state == "broken" else state)
    if state == "broken":  # systemctl itself has failed
        (host.root / "broken").touch()
    got = "failed" if state == "broken" else state
    for _ in range(2):  # the next call tries again
        done = host.install("task-01")
        assert (done.returncode, done.stdout) == (1, "")
        assert f"error: {unit}: expected it to run, got {got}, exit code 2" in done.stderr
        assert f"journalctl -u {unit}" in done.stderr and "what the node said" in done.stderr
        assert host.orders()[-1] == f"restart {unit}"


def test_a_node_that_has_finished_is_no_failure(export: Export, tmp_path: Path) -> None:
    host = Host(tmp_path / "root", export("systemd", RING))
    host.becomes("inactive")
    done = host.install("task-01")
    assert done.returncode == 0 and "drom-net-peer@task-01.service has come to its end" in done.stdout


def test_two_nodes_of_a_host_have_an_environment_each(export: Export, tmp_path: Path) -> None:
    host = Host(tmp_path / "root", export("systemd", RING))
    for node in ("task-01", "task-02"):
        assert host.install(node).returncode == 0
    etc = host.root / "etc"
    own = [etc / "drom-net" / f"{node}.env" for node in ("task-01", "task-02")]
    own[0].write_text("DROM_NET_METRICS=127.0.0.1:9101\n")
    assert host.install("task-01").returncode == 0
    assert own[0].read_text() == "DROM_NET_METRICS=127.0.0.1:9101\n", "it is not replaced"
    assert own[1].read_text() == (host.folder / "node.env").read_text()
    (unit,) = (etc / "systemd" / "system").iterdir()
    assert "EnvironmentFile=-/etc/drom-net/%i.env" in unit.read_text()


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
