"""The page for Prometheus: what it says, and where it cannot be served."""

from __future__ import annotations

import socket
import urllib.request
from pathlib import Path

import pytest

from drom_net.cli import main
from drom_net.core.errors import ClusterError, UsageError
from drom_net.node import metrics_page
from drom_net.node.metrics_page import METRICS, MetricsPage


def read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as page:
        return str(page.read().decode())


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_the_page_has_each_count_with_its_node(host: str) -> None:
    with MetricsPage(f"{host}:0") as page:
        assert page.url.startswith(f"http://{host}:")
        assert read(page.url) == ""
        page.counts = {
            "north": {"drom_net_rounds_total": 12, "drom_net_overdue_peers": 0},
            "reducer": {"drom_net_rounds_total": 11, "drom_net_sigma_1": 2.5},
        }
        assert read(page.url).splitlines() == [
            "# HELP drom_net_rounds_total Rounds closed by a reducer; begun by a task.",
            "# TYPE drom_net_rounds_total counter",
            'drom_net_rounds_total{node="north"} 12.0',
            'drom_net_rounds_total{node="reducer"} 11.0',
            f"# HELP drom_net_overdue_peers {METRICS['drom_net_overdue_peers']}",
            "# TYPE drom_net_overdue_peers gauge",
            'drom_net_overdue_peers{node="north"} 0.0',
            f"# HELP drom_net_sigma_1 {METRICS['drom_net_sigma_1']}",
            "# TYPE drom_net_sigma_1 gauge",
            'drom_net_sigma_1{node="reducer"} 2.5',
        ]
    with pytest.raises(OSError, match="refused"):
        read(page.url)


def test_a_port_in_use_is_named() -> None:
    with MetricsPage("127.0.0.1:0") as page:
        endpoint = page.url.removeprefix("http://").removesuffix("/metrics")
        with pytest.raises(ClusterError, match=f"cannot serve metrics on {endpoint}: Address already in use"):
            MetricsPage(endpoint)


def test_idle_connections_use_up_no_descriptors_and_shut_nobody_out(capfd: pytest.CaptureFixture[str]) -> None:
    with MetricsPage("127.0.0.1:0") as page:
        port = int(page.url.removesuffix("/metrics").rpartition(":")[2])
        idle = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(60)]
        assert read(page.url) == ""
        for connection in idle[:40]:
            assert connection.recv(1) == b""  # closed there
        assert len(page._server.connections) <= metrics_page._CONNECTIONS
        for connection in idle:
            connection.close()
    assert capfd.readouterr() == ("", "")


def test_without_prometheus_client_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_page.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'drom-net\[metrics\]'"):
        MetricsPage("127.0.0.1:0")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--metrics", "0.0.0.0:9100"], "0.0.0.0:9100 can be read from other machines"),
        (["--metrics", "9100"], "expected HOST:PORT, such as 127.0.0.1:9100, got '9100'"),
        (["--metrics", "127.0.0.1:65536"], "expected HOST:PORT"),
        (["--metrics", "127.0.0.1:0", "--driver", "reference"], "expected the driver processes, got reference"),
    ],
)
def test_wrong_use_is_told_and_starts_nothing(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = Path(__file__).parents[2] / "configs" / "synthetic-12.yaml"
    assert main(["run", str(config), "--out", str(tmp_path / "run"), *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
