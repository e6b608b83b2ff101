"""Key files: a secret one for each node, and one list of public keys for all.

The folder holds `public.keys`, a line ``NAME PUBLIC-KEY`` for each node, which every host gets; and `NAME.secret`,
which only the host of that node gets; NAME is a task's in its safe form, `reducer`, or `TASK+client` for applications
at a task's site. Keys are CURVE's (Curve25519), written in Z85 as ZeroMQ does. No text of an error here quotes what a
file says: it might be a secret.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import zmq
from zmq.utils import z85

from drom_net.core.errors import ConfigError, Problem, UsageError

PUBLIC_LIST = "public.keys"
_LIST_HEAD = "# Who may join: a node's name and its public key. Every host needs this file; nothing in it is secret.\n"
_SECRET_HEAD = "# The secret key of {name}: for the host of {name} alone.\n"
_CLIENT = "+client"
"""Behind a node's name, in which there is no plus sign."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\+client)?")
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class Keyring:
    """What one node has of its cluster's keys."""

    folder: Path
    name: str
    """Whose secret key it is: a task's name in its safe form, or "reducer"."""
    public: dict[str, bytes]
    """The listed nodes' public keys, in Z85."""
    secret: bytes = field(repr=False)

    def require(self, names: Iterable[str]) -> None:
        """Raises ConfigError where one of these nodes is not listed."""
        require_listed(self.folder, self.public, names)


def client_of(node: str) -> str:
    """What the applications at a node's site are called."""
    return node + _CLIENT


def read_client_keyring(path: Path) -> tuple[Keyring, str]:
    """(the keys of an application, the node that it speaks to), of its secret file; the list is beside that.

    Raises:
        ConfigError, UsageError: As `read_keyring`.
    """
    node = path.name.removesuffix(f"{_CLIENT}.secret")
    if node == path.name:
        raise ConfigError([Problem(str(path), f"a secret key of applications, NODE{_CLIENT}.secret", path.name)])
    keys = read_keyring(path.parent, client_of(node))
    keys.require([node])
    return keys, node


def secret_file(folder: Path, name: str) -> Path:
    """Where the secret key of a node is."""
    return folder / f"{name}.secret"


def read_keyring(folder: Path, name: str) -> Keyring:
    """The keys of one node: the list, and its own secret key.

    Raises:
        ConfigError: A file is missing, damaged, of another node, or can be read by others.
        UsageError: This ZeroMQ cannot encrypt.
    """
    _require_curve()
    public = read_public_keys(folder)
    require_listed(folder, public, [name])
    path = secret_file(folder, name)
    secret = _read_secret(path)
    if zmq.curve_public(secret) != public[name]:
        expected = f"the secret key of {name}, whose public key is in {folder / PUBLIC_LIST}"
        raise ConfigError([Problem(str(path), expected, "that of another public key")])
    return Keyring(folder, name, public, secret)


def read_public_keys(folder: Path) -> dict[str, bytes]:
    """The listed nodes' public keys, in the order of the list.

    Raises:
        ConfigError: The list is missing or damaged.
    """
    path = folder / PUBLIC_LIST
    text, mode = _read(path, "the list of public keys", "`drom-net keys create` makes it; every host needs a copy")
    problems = []
    if mode & stat.S_IWOTH:
        expected = "a list that not everybody can write"
        problems.append(Problem(str(path), expected, f"mode {mode:04o}", f"chmod o-w {path}"))
    found: dict[str, bytes] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        name, key = words[0], words[-1].encode()
        got = ""
        if len(words) != 2 or not _NAME.fullmatch(name) or not _is_key(key):
            got = "something else"
        elif name in found:
            got = f"{name} a second time"
        elif key in found.values():
            got = "a key that another node has: a key says who one is"
        if got:
            expected = "a node's name and its public key of 40 characters"
            problems.append(Problem(f"{path}:{number}", expected, got))
        found[name] = key
    if problems:
        raise ConfigError(problems[:10], omitted=len(problems[10:]))
    return found


def require_listed(folder: Path, public: dict[str, bytes], names: Iterable[str]) -> None:
    """Raises ConfigError where one of these nodes has no public key in the list."""
    missing = [name for name in names if name not in public]
    if missing:
        shown = ", ".join(missing[:10]) + (" .." if len(missing) > 10 else "")
        hint = "`drom-net keys create FILE` makes what is missing"
        raise ConfigError([Problem(str(folder / PUBLIC_LIST), f"the public key of {shown}", "none", hint)])


def create_keys(folder: Path, names: Sequence[str]) -> list[str]:
    """Make a pair of keys for those of the nodes that have none, and add them to the list. Nothing is overwritten.

    Returns:
        For whom keys were made, in the order of `names`.

    Raises:
        ConfigError: The list that is there is damaged.
        UsageError: A secret key is there whose node is not listed; nothing was made. Or this ZeroMQ cannot encrypt.
    """
    _require_curve()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # whoever comes second finds all made
        return _create_missing(folder, names)
    finally:
        os.close(lock)


def _create_missing(folder: Path, names: Sequence[str]) -> list[str]:
    """Secret keys are written under other names first; from when the list is there they are valid. Whatever ends it
    before leaves nothing valid, and what is left to be done after is done by the next call."""
    listed = read_public_keys(folder) if (folder / PUBLIC_LIST).exists() else {}
    new = [name for name in names if name not in listed]
    for name in new:
        if (path := secret_file(folder, name)).exists():
            raise UsageError(
                f"{path} is there already, but {name} is not in {folder / PUBLIC_LIST}; bring the list with its "
                "line, or remove the file: it is not overwritten"
            )
    made: dict[str, bytes] = {}
    try:
        for name in new:
            made[name], secret = zmq.curve_keypair()
            part = _part_of(secret_file(folder, name))
            part.unlink(missing_ok=True)  # of one that was interrupted
            # With the right mode from the first instant: there is no moment in which others can read it.
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(_SECRET_HEAD.format(name=name).encode() + secret + b"\n")
                file.flush()
                os.fsync(file.fileno())
        if new:
            _write_list(folder, listed | made)
    except BaseException:
        for name in made:
            _part_of(secret_file(folder, name)).unlink(missing_ok=True)
        raise
    for name, public in (listed | made).items():
        path = secret_file(folder, name)
        part = _part_of(path)
        if part.exists() and not path.exists() and zmq.curve_public(_read_secret(part)) == public:
            part.rename(path)
    return new


def _part_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


def has_curve() -> bool:
    """Whether this ZeroMQ can encrypt."""
    return bool(zmq.has("curve"))


def _require_curve() -> None:
    if not has_curve():
        raise UsageError("the ZeroMQ of this pyzmq was built without CURVE; the wheels of PyPI have it")


def _write_list(folder: Path, public: dict[str, bytes]) -> None:
    """At once and whole, also where the power fails."""
    lines = [f"{name} {key.decode()}\n" for name, key in public.items()]
    path, new = folder / PUBLIC_LIST, _part_of(folder / PUBLIC_LIST)
    try:
        with new.open("w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write("".join([_LIST_HEAD, *lines]))
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        with contextlib.suppress(OSError):
            new.unlink()


def _read_secret(path: Path) -> bytes:
    text, mode = _read(path, "a secret key", "it belongs on this node's own host, with the list")
    if mode & _OTHERS:
        expected = "a secret key that its owner alone can read"
        raise ConfigError([Problem(str(path), expected, f"mode {mode:04o}", f"chmod 600 {path}")])
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("# ")]
    if len(lines) != 1 or not _is_key(lines[0].encode()):
        raise ConfigError([Problem(str(path), "one secret key of 40 characters", "something else")])
    return lines[0].encode()


def _read(path: Path, what: str, where: str) -> tuple[str, int]:
    """(the text of a file, its permissions)"""
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            return file.read().decode(errors="replace"), mode
    except FileNotFoundError:
        raise ConfigError([Problem(str(path), what, "no such file", where)]) from None
    except OSError as error:
        raise ConfigError([Problem(str(path), what, error.strerror or "no file that can be read")]) from None


def _is_key(text: bytes) -> bool:
    try:
        return len(text) == 40 and len(z85.decode(text)) == 32
    except (KeyError, struct.error):  # a character that is none of Z85's, or five that are no 32 bits
        return False
