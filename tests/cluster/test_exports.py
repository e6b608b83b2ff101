"""What all exports share: live sources in the places of others."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from drom_net.cluster.compose import render
from drom_net.cluster.deployment import plan_deployment
from drom_net.cluster.plan import source_of
from drom_net.config import load_config
from drom_net.errors import ConfigError
from drom_net.names import safe_names

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
    files: Mapping[str, str] = importlib.import_module(f"drom_net.cluster.{format}").render(
        plan_deployment(load_config(file))
    )
    for name, text in files.items():
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
