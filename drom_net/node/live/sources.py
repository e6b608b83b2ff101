"""Where a live node's examples come from: applications on a socket, a file that grows, or standard input."""

from __future__ import annotations

from pathlib import Path

from drom_net.data.row_lines import LineParser
from drom_net.node.live.lines import FollowedFile, StandardInput
from drom_net.node.live.live_input import LiveInput
from drom_net.node.live.service import Model, Service
from drom_net.node.spec import NodeSpec
from drom_net.transport.keys import Keyring, client_of, read_keyring


def open_source(live_input: LiveInput, model: Model) -> None:
    """Let the live_input take examples from where the settings say.

    Raises:
        ClusterError: It cannot listen.
        ConfigError: A file of keys is missing or wrong.
        OSError: The file cannot be read.
    """
    settings = live_input.spec.stream.source
    if bind := settings["bind"]:
        keys = None if bind.startswith("ipc://") else _client_keys(live_input.spec)
        live_input.take_from(
            Service(
                live_input,
                bind,
                live_input.rows,
                model,
                unlabelled=settings["unlabelled"],
                incarnation=live_input.incarnation,
                num_tasks=len(live_input.spec.tasks),
                keys=keys,
            )
        )
        how = "" if keys is None else f", with the key of {client_of(keys.name)}"
        live_input.note(f"applications are served at {bind}{how}", "serving", endpoint=bind)
        return
    lines = LineParser(settings["format"], live_input.rows)
    if settings["stdin"]:
        live_input.take_from(StandardInput(live_input, lines))
    else:
        live_input.take_from(FollowedFile(live_input, Path(settings["file"]), lines, follows=settings["follow"]))


def _client_keys(spec: NodeSpec) -> Keyring | None:
    """The node's keys, where the list has one for the applications of its site.

    Raises:
        ConfigError: A file is missing or wrong.
    """
    if not spec.keys:
        return None
    keys = read_keyring(Path(spec.keys), spec.node)
    return keys if client_of(spec.node) in keys.public else None
