"""CURVE on a socket: with which keys it listens and connects, whom it lets in, and why a handshake failed.

A socket that listens asks inproc://zeromq.zap.01 for each key that comes (ZAP, RFC 27 of ZeroMQ). The answer has the
name of the node whose key it is, which libzmq then attaches to every message of that connection.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

import zmq
from zmq.utils import z85

from drom_net.core.names import safe_names
from drom_net.protocol.messages import Hello, Message
from drom_net.transport.keys import Keyring

OVERHEAD_BYTES = 33
"""What an encrypted frame is longer than its content: the name of its command, nonce, flags and authenticator."""
USER_ID = "User-Id"
"""The property of a message that has the name of the node whose key its connection has."""
_OK, _REFUSED = b"200", b"400"


def listen(socket: zmq.Socket[bytes], keys: Keyring) -> None:
    """Let the binds that follow be done as a server: who connects must know our public key, and be let in."""
    socket.setsockopt(zmq.ZAP_DOMAIN, b"drom-net")
    socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)  # without a doorkeeper nobody gets in, instead of everybody
    socket.setsockopt(zmq.CURVE_SERVER, 1)
    socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret)


def connect(socket: zmq.Socket[bytes], keys: Keyring, name: str) -> None:
    """Let the connects that follow be done as a client that speaks to this node alone."""
    socket.setsockopt(zmq.CURVE_SERVER, 0)
    socket.setsockopt(zmq.CURVE_PUBLICKEY, keys.public[keys.name])
    socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret)
    socket.setsockopt(zmq.CURVE_SERVERKEY, keys.public[name])


class Doorkeeper:
    """Lets in the keys of these nodes; a thread of its own, for the node's may compute. It ends with the context."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], keys: Keyring, admitted: Collection[str]) -> None:
        """
        Args:
            admitted: Names; who of them is not listed stays outside.
        """
        self.turned_away = ""
        """The last key that was refused, and from where."""
        self._names = {z85.decode(keys.public[name]): name.encode() for name in admitted if name in keys.public}
        socket = context.socket(zmq.REP)
        socket.setsockopt(zmq.LINGER, 0)
        socket.bind("inproc://zeromq.zap.01")
        self._thread = threading.Thread(target=self._serve, args=(socket,), name="doorkeeper", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """To be called after the context has been terminated."""
        self._thread.join()

    def _serve(self, socket: zmq.Socket[bytes]) -> None:
        try:
            with contextlib.suppress(zmq.ContextTerminated):
                while True:
                    socket.send_multipart(self.answer(socket.recv_multipart()))
        finally:
            socket.close()  # or the context would wait for it for ever

    def answer(self, request: Sequence[bytes]) -> list[bytes]:
        """The reply to one request; to whatever is none, a refusal."""
        parts = [*request, *[b""] * 7]
        number, address, mechanism, key = parts[1], parts[3], parts[5], parts[6]
        whole = len(request) == 7 and request[0] == b"1.0" and mechanism == b"CURVE" and len(key) == 32
        name = self._names.get(key) if whole else None
        if name is None:
            shown = z85.encode(key).decode() if whole else "none"
            self.turned_away = f"{shown} from {address.decode(errors='replace') or 'this machine'}"
            return [b"1.0", number, _REFUSED, b"this key is not listed", b"", b""]
        return [b"1.0", number, _OK, b"", name, b""]


class KnowsTasks(Protocol):
    """A node that others join."""

    @property
    def names(self) -> tuple[str, ...]: ...
    def task_at(self, address: str) -> int | None: ...


def key_gate(node: KnowsTasks, key_owner: Callable[[], str]) -> Callable[[str, Message], str]:
    """A function that says why whoever sent a message may not say it; empty when it may.

    Args:
        key_owner: Whose key the connection has that the last message came from.
    """

    nodes = safe_names(node.names)

    def gate(sender: str, message: Message) -> str:
        task = message.task if isinstance(message, Hello) else node.task_at(sender)
        if task is None or task >= len(nodes) or nodes[task] == key_owner():
            return ""  # who is nobody yet, the node asks itself
        return f"its key is that of {key_owner()}, not of {node.names[task]}"

    return gate


FAILED_HANDSHAKES = (
    zmq.EVENT_HANDSHAKE_FAILED_AUTH,
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL,
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL,
)
"""Events of a socket monitor."""
_MECHANISM_MISMATCH = int(zmq.PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)
_CRYPTOGRAPHIC = int(zmq.PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC)


def why_refused(event: int, value: int, *, have_keys: bool) -> str:
    """Why somebody who connected here did not get in, in words; one of few."""
    if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
        return "its key is not among those that may join"
    if event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL and value == _MECHANISM_MISMATCH:
        return "it uses no keys" if have_keys else "it uses keys, and this node has none (security.keys)"
    if event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL and value == _CRYPTOGRAPHIC:
        return "its list has another public key for this node, or it does not know what it says"
    if event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
        return "what it says is no handshake of ZeroMQ"
    return "it left, or fell silent, before the handshake was done"


def why_failed(event: int, where: str, keys: Keyring | None) -> str:
    """What may be wrong where connecting from here ends in a handshake that fails, not in silence."""
    if keys is None:
        return f"{where} answers, but the handshake fails: does it use keys (security.keys), or is it something else?"
    if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
        return f"{where} does not accept our key: the list there has another one for {keys.name}, or none"
    return f"{where} answers, but the handshake fails: does it use keys as well, and those of the same list?"
