"""Run node specs as child processes of this one: start, watch, stop, and leave nothing behind."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drom_net.core.blas import ONE_THREAD
from drom_net.core.errors import NodeFailedError, StoppedError
from drom_net.node.lines import write_late_lines
from drom_net.node.signals import ONE_WISH_S, stop_signals
from drom_net.node.spec import NodeSpec

_STOP_GRACE_S = 10.0
_LOOK_EVERY_S = 0.1
_LINE_LIMIT_BYTES = 1 << 20


def node_command(spec_path: Path) -> list[str]:
    """The command that becomes the node. It imports nothing from the folder it is started in (-P)."""
    return [sys.executable, "-P", "-m", "drom_net.node", str(spec_path)]


def node_environment() -> dict[str, str]:
    return os.environ | ONE_THREAD


@dataclass(slots=True)
class _Child:
    spec: NodeSpec
    path: Path
    process: subprocess.Popen[bytes]
    pending: bytes = b""
    error: str = ""
    restarts: int = 0
    lost: bool = False
    """It was killed, and the others go on without it."""


@dataclass(slots=True)
class Interruption:
    """SIGINT, SIGTERM and SIGHUP while a cluster runs: the first ends it in order, one a second later at once."""

    exit_code: int = 0
    again: bool = False
    _asked_at: float = 0.0
    _former: dict[int, Any] = field(default_factory=dict)

    def __enter__(self) -> Interruption:
        if threading.current_thread() is not threading.main_thread():
            return self  # Python gives signals to the main thread alone
        for number in stop_signals():
            self._former[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        ended_at_once = self.again and kind is StoppedError  # all that is left is to say so: nobody need ask again
        for number, handler in self._former.items():
            signal.signal(number, signal.SIG_IGN if ended_at_once else handler)

    def _on_signal(self, number: int, _: object) -> None:
        now = time.monotonic()
        if self.exit_code and now < self._asked_at + ONE_WISH_S:
            return  # the same wish
        self.again = self.exit_code != 0
        self.exit_code, self._asked_at = 128 + number, now


@dataclass(frozen=True, slots=True)
class Hooks:
    """What the launcher does around its nodes."""

    dispensable: Callable[[NodeSpec], bool]
    """Whether the others go on without a node that was killed and is not started again."""
    prepare: Callable[[NodeSpec], None]
    """Called just before a node is started."""
    on_line: Callable[[NodeSpec, dict[str, Any]], None]
    """Called with each line that a node reports (node/reports.py has them)."""
    on_change: Callable[[NodeSpec, str, int], None]
    """Called with "node_started" or "node_restarted" and the process id, "node_ended" and the exit code."""
    on_idle: Callable[[], None]
    """Called several times a second."""
    say: Callable[[str], None]
    """Called with what a person should know."""


def run_children(
    specs: Sequence[NodeSpec],
    spec_paths: Sequence[Path],
    logs: Path,
    *,
    interruption: Interruption,
    restart: int,
    hooks: Hooks,
) -> set[str]:
    """Start every node and stay until all have ended.

    Args:
        restart: How often a node that was killed by a signal is started again.
        logs: A folder; each node's standard error goes to NODE.log in it.

    Returns:
        The nodes that were killed, and that the others went on without, as files call them.

    Raises:
        NodeFailedError: A node ended with an error by itself; the others were stopped first.
        StoppedError: The cluster was interrupted, and not every node could save what it had.
    """
    with contextlib.ExitStack() as cleanup, selectors.DefaultSelector() as selector:
        children = _Children(selector, logs, restart, hooks)
        cleanup.callback(_kill_all, children.started)
        for spec, path in zip(specs, spec_paths, strict=True):
            children.start(spec, path)
            if interruption.exit_code:
                break
        while selector.get_map():
            children.look()
            hooks.on_idle()
            if interruption.again:
                break  # the clean-up kills them
            if children.stopping_since is None and (interruption.exit_code or children.failed):
                if interruption.exit_code:
                    hooks.say("ending in order, with what was learned so far; a second signal ends at once")
                children.stop()
            if children.stopping_since is not None and time.monotonic() > children.stopping_since + _STOP_GRACE_S:
                break
    _require_ended_well(children, interruption, logs)
    return {child.spec.node for child in children.started if child.lost}


class _Children:
    """The nodes' processes."""

    def __init__(self, selector: selectors.BaseSelector, logs: Path, restart: int, hooks: Hooks) -> None:
        self._selector, self._logs, self._restart, self._hooks = selector, logs, restart, hooks
        self.started: list[_Child] = []
        self.stopping_since: float | None = None
        self.failed: _Child | None = None
        """The first that has ended with an error by itself."""

    def start(self, spec: NodeSpec, path: Path) -> None:
        self._hooks.prepare(spec)
        child = _Child(spec, path, _start(path, self._logs / f"{spec.node}.log"))
        self.started.append(child)
        self._hooks.on_change(spec, "node_started", child.process.pid)
        _listen(self._selector, child)

    def look(self) -> None:
        """Wait a little for what the nodes report, pass it on, and see who has ended."""
        write_late_lines()
        for key, _ in self._selector.select(_LOOK_EVERY_S):
            child = key.data
            for line in _read_lines(child):
                child.error = line.get("error", child.error)
                self._hooks.on_line(child.spec, line)
            if child.process.stdout is not None and child.process.stdout.closed:
                self._selector.unregister(key.fileobj)
                self._on_end(child)

    def _on_end(self, child: _Child) -> None:
        """Start it again, go on without it, or note that it has failed."""
        code = child.process.wait()
        self._hooks.on_change(child.spec, "node_ended", code)
        killed = code < 0 and self.stopping_since is None
        # A node that is asked to stop ends with the signal's code, or with that of a lost cluster when another was
        # faster.
        expected = self.stopping_since is not None and code in (4, 129, 130, 143)
        if killed and child.restarts < self._restart:
            child.restarts += 1
            self._hooks.say(f"{_how_ended(child)}; starting it again ({child.restarts} of {self._restart})")
            child.process = _start(child.path, self._logs / f"{child.spec.node}.log")
            child.pending = b""
            self._hooks.on_change(child.spec, "node_restarted", child.process.pid)
            _listen(self._selector, child)
        elif killed and self._hooks.dispensable(child.spec):
            child.lost = True
            self._hooks.say(f"{_how_ended(child)}; the others go on without it")
        elif code != 0 and not expected and self.failed is None:
            self.failed = child

    def stop(self) -> None:
        """Ask all to end in order."""
        self.stopping_since = time.monotonic()
        for child in self.started:
            if child.process.poll() is None:
                child.process.terminate()


def _require_ended_well(children: _Children, interruption: Interruption, logs: Path) -> None:
    failed = children.failed
    if interruption.again:
        raise StoppedError("ended at once by a second signal: there is no result", interruption.exit_code)
    if failed is not None and interruption.exit_code:
        raise StoppedError(f"interrupted, but {_why_failed(failed, logs)}", interruption.exit_code)
    if failed is not None:
        was_killed = failed.process.returncode < 0 or failed.process.returncode == 4
        raise NodeFailedError(_why_failed(failed, logs), was_killed=was_killed)
    slow = [child.spec.name for child in children.started if child.process.returncode is None]
    if slow:
        raise StoppedError(
            f"interrupted, but {', '.join(slow)} did not end within {_STOP_GRACE_S:g} s and had to be killed",
            interruption.exit_code,
        )


def _start(spec_path: Path, log_path: Path) -> subprocess.Popen[bytes]:
    with log_path.open("ab") as log:
        return subprocess.Popen(
            node_command(spec_path),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            env=node_environment(),
            # A Ctrl-C in the terminal is for the launcher, which ends its nodes in order.
            start_new_session=True,
        )


def _listen(selector: selectors.BaseSelector, child: _Child) -> None:
    assert child.process.stdout is not None
    os.set_blocking(child.process.stdout.fileno(), False)
    selector.register(child.process.stdout, selectors.EVENT_READ, child)


def _read_lines(child: _Child) -> Iterator[dict[str, Any]]:
    """The whole lines that have arrived; closes the pipe at its end."""
    stdout = child.process.stdout
    assert stdout is not None
    data = os.read(stdout.fileno(), 1 << 16)
    if not data:
        stdout.close()
        return
    *lines, child.pending = (child.pending + data).split(b"\n")
    child.pending = child.pending[-_LINE_LIMIT_BYTES:]
    for line in lines:
        try:
            parsed = json.loads(line)
        except ValueError:
            continue  # not ours: some library printed it
        if isinstance(parsed, dict):
            yield parsed


def _kill_all(children: list[_Child]) -> None:
    for child in children:
        if child.process.poll() is None:
            child.process.kill()
    for child in children:
        child.process.wait()
        if child.process.stdout is not None:
            child.process.stdout.close()


def _how_ended(child: _Child) -> str:
    code = child.process.returncode
    signals = {int(number): number.name for number in signal.Signals}
    how = f"failed with exit code {code}" if code >= 0 else f"was killed by {signals.get(-code, f'signal {-code}')}"
    return f"{child.spec.name} {how}"


def _why_failed(child: _Child, logs: Path) -> str:
    log = logs / f"{child.spec.node}.log"
    why = child.error or _last_line(log)
    return _how_ended(child) + (f": {why}" if why else "") + f"; its log is {log}"


def _last_line(path: Path) -> str:
    lines = path.read_text(errors="replace").strip().splitlines()
    return lines[-1].strip()[:500] if lines else ""
