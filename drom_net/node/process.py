"""One node as a process: from its spec to its exit code. Light on purpose: no YAML, no click, no rich."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np

from drom_net.core.errors import ClusterError, DivergedError, DromNetError
from drom_net.node.host import ProcessHost
from drom_net.node.loop import drive, flush
from drom_net.node.metrics_page import serve_counts
from drom_net.node.reports import reporter_of
from drom_net.node.roles import ROLES, Ending, Role
from drom_net.node.signals import Stop
from drom_net.node.spec import NodeSpec
from drom_net.node.start import rows_of, start_context
from drom_net.node.telemetry import Telemetry
from drom_net.protocol.reducer import Reducer
from drom_net.results.summary import remove_folder
from drom_net.storage.node_folder import CheckpointFolder, has_learned


def run_node(spec: NodeSpec) -> int:
    """Run the node to its end and return the exit code; what went wrong is on standard error."""
    reporter = reporter_of(spec)
    stop = Stop(spec.launch.parent)
    incarnation = 0
    try:
        with CheckpointFolder(Path(spec.out), node=spec.node, config_digest=spec.config_digest) as folder:
            incarnation, _ = folder.begin(spec.run_id)
            reporter.incarnation = incarnation
            context = start_context(spec, folder, reporter)
            (Path(spec.out) / "result.json").unlink(missing_ok=True)  # what an interrupted start has left
            serve_counts(spec, reporter)
            finished = _run(ROLES[spec.role](spec, folder, reporter, context), stop)
    except DromNetError as error:
        reporter.fail(str(error), exit_code=error.exit_code)
        if incarnation == 1 and not folder.others_know:
            _forget_if_nothing_was_learned(spec)
        return error.exit_code
    except OSError as error:
        reporter.fail(f"{error.strerror}: {error.filename}" if error.filename else str(error), exit_code=1)
        return 1
    finally:
        for gone in (*spec.launch.remove, *(spec.launch.remove_if_orphaned if stop.orphaned else ())):
            remove_folder(Path(gone))
    return 0 if finished else stop.exit_code


def _run(role: Role, stop: Stop) -> bool:
    """Run the node to its end, and leave what was learned, if anything was; whether it finished by itself."""
    with role.transport, contextlib.ExitStack() as files:
        role.connect()
        telemetry = Telemetry(
            role.reporter,
            rows_of(role.spec, role.node, role.context, files),
            stop,
            role.figures,
            names=role.names,
            expected=role.expected,
            on_first_joined=lambda: role.folder.join(role.run_id),
            moved=role.moved,
            num_tasks=len(role.spec.tasks),
        )
        ended = _drive(role, telemetry)
    if ended.error is not None and not role.has_learned:
        raise ended.error
    role.write_results(ended)
    if ended.error is not None:
        raise ended.error
    role.tell_end(ended)
    return ended.finished


def _drive(role: Role, telemetry: Telemetry) -> Ending:
    """Drive the node to its end; what was learned is not lost with an error."""
    node, transport, live_input = role.node, role.transport, role.live_input
    telemetry.watch(node, transport, live_input)
    host = ProcessHost(node, transport, role.folder, telemetry, live_input)
    error: DromNetError | OSError | None = None
    with np.errstate(over="ignore", invalid="ignore"):  # one clear error tells of divergence, not NumPy's warnings
        try:
            with host:
                if live_input is not None and not isinstance(node, Reducer):
                    from drom_net.node.live.sources import open_source

                    open_source(live_input, node)
                    transport.also_waits_for = lambda: live_input.waits_for
                finished = drive(node, transport, host)
            if finished:
                role.folder.end()
        except (DromNetError, OSError) as caught:
            finished, error = False, caught
            with contextlib.suppress(DivergedError):  # there is no result, and the first error tells why
                node.stop()
            flush(node, transport, host)  # a reducer tells the workers
            if isinstance(error, ClusterError) and transport.trouble:
                text = str(error).removesuffix("; is it running, and is the address right?")
                error = ClusterError(f"{text}; {transport.trouble}")
    spent = host.spent()
    telemetry.save()
    return Ending(finished, error, spent, telemetry.refused)


def _forget_if_nothing_was_learned(spec: NodeSpec) -> None:
    """A node by hand that has met nobody and learned nothing leaves no folder behind."""
    folder = Path(spec.out)
    if spec.launch.parent or has_learned(folder) or (folder / "result.json").exists():
        return
    remove_folder(folder)
    with contextlib.suppress(OSError):  # others may have theirs beside it
        folder.parent.rmdir()
        folder.parent.parent.rmdir()
