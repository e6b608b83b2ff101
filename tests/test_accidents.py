"""Accidents of such systems that belong to no single module; all others have a test beside what prevents them."""

from __future__ import annotations

from pathlib import Path

import pytest

import drom_net
from drom_net.cluster.local import node_environment
from drom_net.core.blas import ONE_THREAD
from drom_net.core.fields import Endpoint

SOURCES = sorted(Path(drom_net.__file__).parent.rglob("*.py"))


def test_accident_09_every_node_computes_with_one_blas_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """failures.md, 9: "one BLAS thread a process, set before NumPy is imported"."""
    for name in ONE_THREAD:
        monkeypatch.setenv(name, "7")
    environment = node_environment()
    assert {environment[name] for name in ONE_THREAD} == {"1"}
    assert {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"} <= ONE_THREAD.keys()


@pytest.mark.parametrize("host", ["svc_with_underscores", "Reducer-0", "a" * 63 + ".example", "[::1]", "10.0.0.1"])
def test_accident_21_any_host_name_will_do(host: str) -> None:
    """failures.md, 21: "service names with underscores, long names, upper case: work"."""
    assert Endpoint().parse(f"tcp://{host}:5571") == f"tcp://{host}:5571"


def test_accident_39_no_context_outlives_a_fork() -> None:
    """failures.md, 39: "contexts made after the fork": each is made by the transport of a process of its own, which was
    started anew; nobody forks, and nobody shares the global one."""
    text = {path: path.read_text() for path in SOURCES}
    makes = {path.name for path, source in text.items() if "zmq.Context()" in source}
    assert makes == {
        "base.py",
        "client.py",
    }  # the last is the application's: a Site each process
    for path, source in text.items():
        assert "Context.instance" not in source, path
        assert "os.fork" not in source, path
