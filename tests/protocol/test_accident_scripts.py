"""Accidents as text files: each command, and below ---- what the nodes of a star then do (the files' own first lines
say what they are about; REWRITE=1 writes down what the nodes do now).

    star tasks=2 examples=3     a reducer and its workers, task-0, task-1, ..; started
    deliver [FROM TO]           all messages on their way, and those that follow from them; or the next of one sender
    deliver 7                   the next seven
    lose FROM TO                the next one
    wait SECONDS                the clock goes on; what is due happens
    crash NODE                  with all that is on its way to it; whoever was connected with it notices
    start NODE                  once more, from its last snapshot
    start twin 0                a second process for task 0
    states
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import random_streams
from star_harness import EVERY_ROUND, keep_all, make_reducer, make_worker

from drom_net.algorithms.drom import DromParameters, drom
from drom_net.core.errors import DromNetError
from drom_net.protocol.messages import Message, Pull, Push
from drom_net.protocol.node import REDUCER, Snapshot
from drom_net.protocol.settings import Timeouts

SCRIPTS = sorted((Path(__file__).parent / "accidents").glob("*.txt"))
COUPLED = drom(DromParameters(eta0=3.0, lam=0.2, rho=0.3, xi=1.0))
TIMEOUTS = Timeouts(join_s=20.0, lost_s=30.0, resend_after_s=0.5, stall_s=10.0, linger_s=5.0, duplicate_probe_s=1.5)


class Stage:
    """A star whose messages wait until a script says what becomes of them."""

    def __init__(self) -> None:
        self._now = 0.0
        self._nodes: dict[str, Any] = {}
        self._starts: dict[str, int] = {}
        self._snapshots: dict[str, Snapshot] = {}
        self._address_of: dict[str, str] = {}
        """Where each node speaks from: another address after each start, as of another connection."""
        self._on_their_way: list[tuple[str, str, Message]] = []
        self._told: list[str] = []
        self._streams: list[Any] = []

    def do(self, line: str) -> str:
        """Carry out one command; what happened."""
        word, *arguments = line.split()
        command: Callable[..., None] = getattr(self, f"_do_{word}")
        self._told = []
        command(*arguments)
        return "\n".join(self._told) or "(nothing)"

    def _do_star(self, *settings: str) -> None:
        given = {key: int(value) for key, value in (setting.split("=") for setting in settings)}
        self._streams = random_streams([given["examples"]] * given["tasks"])
        for name in (REDUCER, *(f"task-{task}" for task in range(given["tasks"]))):
            self._do_start(name)

    def _do_start(self, name: str, task: str = "") -> None:
        started = self._starts[name] = self._starts.get(name, 0) + 1
        life = {"timeouts": TIMEOUTS, "checkpoints": EVERY_ROUND, "snapshot": self._snapshots.get(name)}
        if name == REDUCER:
            self._nodes[name] = make_reducer(COUPLED, len(self._streams), **life)
        else:
            number = int(task or name.removeprefix("task-"))
            more = {"task": number, "num_tasks": len(self._streams), "incarnation": started}
            self._nodes[name] = make_worker(COUPLED, self._streams[number], **more, **life)
        self._forget_messages(name)
        self._address_of[name] = name if started == 1 else f"{name}'{started}"
        self._call(name, lambda node: node.start(self._now))
        if name == REDUCER:
            for other in self._nodes:
                if other != REDUCER:
                    self._call(other, lambda node: node.on_connection(REDUCER, True, self._now))

    def _do_crash(self, name: str) -> None:
        del self._nodes[name]
        self._forget_messages(name)
        self._told.append(f"{name} is gone")
        for other in list(self._nodes):
            if REDUCER in (name, other):
                self._call(other, lambda node: node.on_connection(self._address_of[name], False, self._now))

    def _do_deliver(self, *route: str) -> None:
        most = 1 if len(route) == 2 else int(route[0]) if route else 1_000
        route = route if len(route) == 2 else ()
        for _ in range(most):
            if (at := self._next(route)) is None:
                return
            sender, receiver, message = self._on_their_way.pop(at)
            self._told.append(f"{sender} -> {receiver}: {in_words(message)}")
            address = self._address_of[sender] if receiver == REDUCER else REDUCER
            self._call(receiver, lambda node, a=address, m=message: node.receive(a, m, self._now))

    def _do_lose(self, *route: str) -> None:
        at = self._next(route)
        assert at is not None, f"nothing is on its way from {route[0]} to {route[1]}"
        sender, receiver, message = self._on_their_way.pop(at)
        self._told.append(f"{sender} -> {receiver}: {in_words(message)}, lost")

    def _do_wait(self, seconds: str) -> None:
        until = self._now + float(seconds)
        while self._nodes and (due := min(node.next_timer() for node in self._nodes.values())) <= until:
            self._now = max(self._now, due)
            name = next(name for name, node in self._nodes.items() if node.next_timer() <= self._now)
            self._call(name, lambda node: node.on_timer(self._now))
        self._now = until

    def _do_states(self) -> None:
        for name, node in self._nodes.items():
            where = f"round {node.round}" if name != REDUCER else f"{node.central_steps} central steps"
            self._told.append(f"{name}: {node.state.value}, {where}")

    def _forget_messages(self, name: str) -> None:
        self._on_their_way = [entry for entry in self._on_their_way if name not in entry[:2]]

    def _next(self, route: tuple[str, ...]) -> int | None:
        for at, (sender, receiver, _) in enumerate(self._on_their_way):
            if not route or route == (sender, receiver):
                return at
        return None

    def _call(self, name: str, what: Callable[[Any], None]) -> None:
        """Call a node, as its driver would; what it says is on its way, and what happened in it is told."""
        node = self._nodes[name]
        try:
            what(node)
            while not node.finished and node.next_timer() <= self._now:
                node.on_timer(self._now)
        except DromNetError as error:
            self._told.append(f"{name} ends with {error.exit_code}: {error}")
            del self._nodes[name]
        for snapshot in keep_all(node, self._now):
            self._snapshots[name] = snapshot
        self._told += [f"    {name}: {event}" for event in node.take_events()]
        names = {address: other for other, address in self._address_of.items()}
        for to, message in node.take_outbox():
            if names.get(to, to) in self._nodes:  # else nobody is there any more
                self._on_their_way.append((name, names.get(to, to), message))
        if node.finished:
            self._told.append(f"    {name} has finished")


def in_words(message: Message) -> str:
    """``Push(2) VECTORS``; all of what is small, and no numbers of vectors."""
    if isinstance(message, Push):
        return f"Push({message.round}) {message.contribution.kind.name}"
    if isinstance(message, Pull):
        return f"Pull({message.round}) {message.reply.kind.name}"
    name = type(message).__name__
    shown = [getattr(message, field) for field in ("reason", "round", "question", "rounds") if hasattr(message, field)]
    return f"{name}({', '.join(map(str, shown))})"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_nodes_do_what_the_script_says(path: Path) -> None:
    stage, written = Stage(), path.read_text(encoding="utf-8")
    about, *blocks = re.split(r"\n\n(?=\S)", written.strip())
    assert about.startswith("# ")
    done = [about]
    for block in blocks:
        command, _, _ = block.partition("\n----")
        done.append(f"{command}\n----\n{stage.do(command.partition('  #')[0])}")
    now = "\n\n".join(done) + "\n"
    if os.environ.get("REWRITE"):
        path.write_text(now, encoding="utf-8")
    assert now == written


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 3
