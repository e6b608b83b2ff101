"""What a run of processes on this machine needs, for commands and scripts: closed endpoints, and keys."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from drom_net.cluster.plan import node_names
from drom_net.config.model import ClusterConfig, is_loopback
from drom_net.core.errors import UsageError
from drom_net.transport.keys import read_keyring
from drom_net.transport.local_sockets import require_no_file_at


def is_open(listens: str | None, config: ClusterConfig) -> bool:
    """Whether others reach an endpoint, and need no key.

    Raises:
        UsageError: The socket would replace a file.
    """
    require_no_file_at(listens or "")
    return listens is not None and config.security.keys is None and not is_loopback(listens)


def require_closed(listens: str | None, config: ClusterConfig, *, hint: str = "") -> None:
    """Refuse to listen where a file is, or where others reach us, unless there are keys.

    Args:
        hint: What else would do.

    Raises:
        UsageError: The endpoint is not of this machine alone, or the socket would replace a file.
    """
    if is_open(listens, config):
        raise UsageError(
            f"{listens} can be reached from other machines, and without keys nothing is encrypted or authenticated; "
            "with security.keys and `drom-net keys create` it is" + (f"; {hint}" if hint else "")
        )


def require_keys(config: ClusterConfig, names: Sequence[str]) -> None:
    """Where the configuration has keys, those of all nodes must be there.

    Raises:
        ConfigError: A file is missing or wrong.
    """
    if config.security.keys is not None:
        for name in node_names(config, names):
            read_keyring(Path(config.security.keys), name)
