"""Which process has launched a run, written so that others can tell whether it is still there."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LAUNCHER_KEYS = ("pid", "host", "space", "started")
"""What `this_launcher` has."""


def this_launcher() -> dict[str, Any]:
    """This process: its number, where that holds, and since when; None where the system does not tell.

    `space` tells containers of the same name apart, `started` processes that have had the same number one after the
    other (in ticks since the machine started).
    """
    return {"pid": os.getpid(), "host": socket.gethostname(), "space": _space(), "started": _started(os.getpid())}


def is_launcher(found: Mapping[str, Any]) -> bool:
    """Whether all of it has the type that `this_launcher` gives it; what is missing is not known."""
    pid, started = found.get("pid"), found.get("started")
    texts = [found.get("host"), found.get("space")]
    return (
        type(pid) is int
        and 0 < pid < 2**31
        and (started is None or type(started) is int)
        and all(text is None or isinstance(text, str) for text in texts)
    )


def is_there(launcher: Mapping[str, Any]) -> bool | None:
    """Whether it still runs; None of another host or container, where that cannot be seen."""
    here = {"host": socket.gethostname(), "space": _space()}
    if any(launcher.get(key) not in (None, its) for key, its in here.items()):
        return None
    try:
        os.kill(launcher["pid"], 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # of another user
    started = launcher.get("started")
    return started is None or _started(launcher["pid"]) in (None, started)


def _space() -> str | None:
    """Within what numbers of processes mean the same."""
    with contextlib.suppress(OSError):
        return os.readlink("/proc/self/ns/pid")
    return None


def _started(pid: int) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        # The name before it may have spaces and brackets of its own.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return -1 if fields[0] in "ZX" else int(fields[19])  # one that has ended, and whose parent has not noticed
    return None
