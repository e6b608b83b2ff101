"""Keys between a node and its site's applications, on real sockets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import zmq

from drom_net.client import NoAnswerError, Site
from drom_net.core.errors import ConfigError
from drom_net.data.incoming import RowReader
from drom_net.data.preprocessing import Preprocessing
from drom_net.node.live.service import Service
from drom_net.transport.keys import client_of, create_keys, read_keyring


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("keys") / "keys"
    create_keys(found, ["north", "south", client_of("north"), client_of("south")])
    return found


@pytest.fixture
def endpoint(folder: Path) -> Iterator[str]:
    """Of north, served."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        found = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    ended = threading.Event()
    listens = threading.Event()

    def serve() -> None:
        live_input: Any = SimpleNamespace(bad=0, commit=lambda: None, say=lambda text: None)
        model: Any = SimpleNamespace(round=0, predict=lambda x: float(x.sum()), probability=lambda score: 0.5)
        rows = RowReader(Preprocessing(raw_dim=2))
        keys = read_keyring(folder, "north")
        service = Service(live_input, found, rows, model, unlabelled=9, incarnation=1, keys=keys)
        listens.set()
        while not ended.is_set():
            zmq.zmq_poll([(service.waits_for, zmq.POLLIN)], 20)
            service.serve()
        service.close()

    thread = threading.Thread(target=serve)
    thread.start()
    assert listens.wait(30)
    yield found
    ended.set()
    thread.join()


def test_the_sites_own_applications_get_in(endpoint: str, folder: Path) -> None:
    with Site(endpoint, keys=folder / "north+client.secret") as site:
        assert site.predict([[1.0, 2.0]])[0].score == 3.0


@pytest.mark.parametrize("key", [None, "south+client.secret"])
def test_nobody_else_does(endpoint: str, folder: Path, key: str | None) -> None:
    with (
        Site(endpoint, timeout_s=1.0, keys=key and folder / key) as site,
        pytest.raises(NoAnswerError, match="nobody answers"),
    ):
        site.predict([[1.0, 2.0]])


def test_another_cluster_does_not(endpoint: str, tmp_path: Path) -> None:
    create_keys(tmp_path / "keys", ["north", client_of("north")])
    with (
        Site(endpoint, timeout_s=1.0, keys=tmp_path / "keys" / "north+client.secret") as site,
        pytest.raises(NoAnswerError, match="nobody answers"),
    ):
        site.predict([[1.0, 2.0]])


def test_a_node_s_key_is_no_application_s(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"NODE\+client.secret, got north.secret"):
        Site("tcp://127.0.0.1:1", keys=folder / "north.secret")
    with pytest.raises(ConfigError, match="no such file"):
        Site("tcp://127.0.0.1:1", keys=folder / "none" / "north+client.secret")
