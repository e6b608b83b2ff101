"""What tests with hosts of their own share."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def may_make_networks() -> None:
    reason = "a network namespace needs Linux, root, iproute2 and unshare"
    if os.geteuid() == 0 and shutil.which("ip") and shutil.which("unshare"):
        return
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture
def netlab(shared_labs: Path) -> ModuleType:
    """Hosts in network namespaces, joined by a switch: `with netlab.Lab(["a", "b"])`."""
    spec = importlib.util.spec_from_file_location("netlab", shared_labs / "netlab.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
