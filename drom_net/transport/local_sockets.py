"""Whether an ipc endpoint is free: a name that something else has is never replaced."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat

import zmq

from drom_net.core.errors import UsageError


def require_no_file_at(endpoint: str) -> None:
    """libzmq removes whatever has the name of a socket that it makes. That may only be a socket.

    Raises:
        UsageError: It is something else.
    """
    path = _socket_path(endpoint)
    if not path or path.startswith("\0"):
        return
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise UsageError(f"{endpoint}: expected a free name for a socket, got {path}, which is a file and stays")


def refuse_ipc_in_use(endpoint: str) -> None:
    """libzmq takes over a path that another process listens on; here that is an error, as it is for a port.

    Raises:
        UsageError: There is a file that is no socket.
        zmq.ZMQError: Somebody listens there (EADDRINUSE).
    """
    path = _socket_path(endpoint)
    if not path:
        return
    require_no_file_at(endpoint)
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)  # whose queue is full listens, too
        try:
            probe.connect(path)
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
            return  # nothing, or what a process has left that is gone
        except OSError:
            pass  # of another kind, or of another user: not ours to remove
        raise zmq.ZMQError(errno.EADDRINUSE)


def _socket_path(endpoint: str) -> str:
    """Of an ipc endpoint, as the system takes it; empty of others, and where libzmq chooses."""
    path = endpoint.removeprefix("ipc://") if endpoint.startswith("ipc://") else ""
    if path == "*":
        return ""
    return "\0" + path[1:] if path.startswith("@") else path
