"""Whether an endpoint is free: the name of a socket that something else has is never replaced."""

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


def try_to_listen(endpoint: str) -> None:
    """Listen at an endpoint for an instant.

    Raises:
        UsageError: There is a file that is no socket.
        OSError: One cannot: EADDRINUSE where it is taken, EADDRNOTAVAIL where it is another machine's.
    """
    if not endpoint.startswith("tcp://"):
        try:
            refuse_ipc_in_use(endpoint)
        except zmq.ZMQError as error:
            raise OSError(error.errno, error.strerror) from None
        return
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    if port in ("*", "0"):
        return
    host = host.strip("[]")
    family, kind, number, _, address = socket.getaddrinfo(
        None if host == "*" else host, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    with socket.socket(family, kind, number) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as libzmq does
        probe.bind(address)
        probe.listen(1)


def _socket_path(endpoint: str) -> str:
    """Of an ipc endpoint, as the system takes it; empty of others, and where libzmq chooses."""
    path = endpoint.removeprefix("ipc://") if endpoint.startswith("ipc://") else ""
    if path == "*":
        return ""
    return "\0" + path[1:] if path.startswith("@") else path
