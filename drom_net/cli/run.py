"""drom-net run, check: a whole cluster on this machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from drom_net.algorithms.drom import PAPER, DromParameters
from drom_net.cli.output import count_of, print_result, print_table, showing_progress
from drom_net.cli.report import report_at_end
from drom_net.cli.requirements import require_local_source, require_loopback, require_metrics, task_index
from drom_net.cli.telling import log_as, print_json, shown, tell
from drom_net.cluster.check import PRIVATE, bytes_as_a_rule, cost_of, listening, plan_facts, process_rows
from drom_net.cluster.cost import ALMOST, Cost, hiding_table
from drom_net.cluster.directories import require_resumable
from drom_net.cluster.leaving import exposed, what_leaves_here
from drom_net.cluster.machine import lacks, raise_file_descriptors, require_room, this_machine
from drom_net.cluster.plan import Roster, check_sharing, source_endpoint
from drom_net.cluster.prepare import Prepared, prepare, require_stored, stream_of
from drom_net.cluster.requirements import require_keys
from drom_net.cluster.run import run as run_prepared
from drom_net.config.load import load_config
from drom_net.config.model import ClusterConfig, config_digest, peer_endpoints, what_leaves
from drom_net.config.yamlfile import Problems, read_yaml
from drom_net.core.errors import UsageError
from drom_net.core.names import safe_names
from drom_net.data.advice import advice
from drom_net.data.dataset import Dataset
from drom_net.data.datasets import load_dataset
from drom_net.deploy.deployment import plan_deployment
from drom_net.protocol.node import REDUCER
from drom_net.results.run_directory import free_run_directory
from drom_net.results.tables import require_format
from drom_net.results.wording import size
from drom_net.transport.keys import read_keyring
from drom_net.transport.local_sockets import require_no_file_at


def load_and_prepare(file: Path, overrides: tuple[str, ...]) -> Prepared:
    """Read the configuration and all its data, and check both.

    Raises:
        InputError: Everything that is wrong with it.
    """
    config = load_config(file, overrides)
    return prepare(config, load_dataset(config.data, base=config.base))


def require_current(config_file: Path) -> None:
    """Refuse to compute a run again whose rows were prepared in another way.

    Args:
        config_file: The configuration as run.

    Raises:
        UsageError: An earlier version has made it, from the user's own rows.
    """
    problems = Problems(config_file)
    written = read_yaml(config_file, problems).plain()
    data = written.get("data") if isinstance(written, dict) else None
    if isinstance(data, dict) and data.get("dataset") in ("files", "live") and "columns" not in data:
        raise UsageError(
            f"{config_file.parent} is a run of an earlier drom_net, which prepared rows in another way (no columns in "
            "its config.yaml): `show`, `verify` and `predict` still read it; to replay it or go on with it, use the "
            "version in its environment.json, or make the run anew with `drom-net run`"
        )


def run(
    file: Path | None,
    resume: Path | None,
    driver: str,
    out: Path | None,
    file_format: str,
    report: bool,
    insecure: bool,
    log_format: str,
    metrics: str,
    metrics_insecure: bool,
    overrides: tuple[str, ...],
    as_json: bool,
    quiet: bool,
) -> int:
    """`drom-net run`."""
    log_as(log_format, "launcher")
    require_format(file_format)
    if resume is not None:
        _require_as_it_was(resume, changed=out is not None or bool(overrides) or driver != "processes")
        file, out = resume / "config.yaml", resume
    if file is None:
        raise UsageError("missing argument FILE (or --resume RUN_DIR)")
    require_metrics(metrics, insecure=metrics_insecure)
    if metrics and driver != "processes":
        raise UsageError(f"--metrics: expected the driver processes, got {driver}, which runs no node that serves any")
    prepared = _prepare_with_warnings(file, overrides)
    if driver == "processes":
        _require_for_processes(prepared, insecure=insecure)
    else:
        require_stored(prepared.config, f"--driver {driver}")
    out = out or free_run_directory(prepared.config.name)
    with (
        report_at_end(out, wanted=report, quiet=quiet, as_json=as_json) as pages,
        showing_progress(as_json=as_json, quiet=quiet) as progress,
    ):
        summary, exit_code = run_prepared(
            prepared,
            driver=driver,
            out=out,
            progress=progress,
            file_format=file_format,
            resume=resume is not None,
            log_format=log_format,
            metrics=metrics,
        )
    if as_json:
        print_json(summary | {"run_directory": str(out)})
    elif not quiet:
        print_result(summary)
        click.echo(f"run directory {out}" + "".join(f"\nreport {page}" for page in pages))
    if exit_code:
        go_on = f"; `drom-net run --resume {out}` goes on" if driver == "processes" else ""
        tell(f"interrupted; what was learned so far is saved{go_on}", "interrupted", exit_code=exit_code)
    return exit_code


def _require_as_it_was(run_dir: Path, *, changed: bool) -> None:
    """Refuse to go on with a run that has ended, or in another way than it began."""
    given = click.get_current_context().get_parameter_source("file") is ParameterSource.COMMANDLINE
    if given or changed:
        raise UsageError("--resume goes on with a run of processes as it was, without FILE, --set, --out, --driver")
    require_resumable(run_dir)
    require_current(run_dir / "config.yaml")


def _require_for_processes(prepared: Prepared, *, insecure: bool) -> None:
    """What real processes need beside rows: addresses that may be used, keys, and room on this machine."""
    config, names = prepared.config, prepared.roster.tasks
    warn_of_sharing(config)
    for listens in listening(config):
        require_loopback(listens, config, insecure=insecure)
    check_sources(prepared, insecure=insecure)
    require_keys(config, names)
    require_room(cost_of(prepared), this_machine(), len(names))
    raise_file_descriptors()


def check(
    file: Path,
    latency: float | None,
    round_s: float | None,
    task: str | None,
    overrides: tuple[str, ...],
    as_json: bool,
) -> None:
    """`drom-net check`."""
    if round_s is not None and latency is None:
        raise UsageError("--round tells with --latency which tau hides it, and that is not given")
    if task is not None:
        if latency is not None:
            raise UsageError("--latency is of the whole cluster, --task of one host: give one of them")
        _check_one(load_config(file, overrides), task, as_json=as_json)
        return
    prepared = _prepare_with_warnings(file, overrides)
    warn_of_sharing(prepared.config)
    for line in exposed(prepared):
        tell(f"warning: {line}", "warned")
    require_keys(prepared.config, prepared.roster.tasks)
    config, names = prepared.config, prepared.roster.tasks
    own = [source_endpoint(config, names, task) for task in range(len(names))] if config.source else []
    for endpoint in (*listening(config), *own):
        require_no_file_at(endpoint or "")
    costs = cost_of(prepared)
    hiding = None if latency is None else _hiding(prepared, latency, round_s)
    if as_json:
        told = plan_facts(prepared) | dataclasses.asdict(costs)
        print_json(told | {"bytes_as_a_rule": bytes_as_a_rule(prepared, costs), "hiding": hiding})
        return
    _print_processes(prepared)
    click.echo(_costs_in_words(prepared, costs))
    for line in [columns_in_words(prepared.dataset), *prepared.dataset.notes]:
        if line:
            click.echo(line)
    click.echo(shown(f"what leaves: {what_leaves_here(prepared)}"))
    for lack in lacks(costs, this_machine()):
        click.echo(f"this machine alone cannot run it: it needs {lack}")
    for line in hiding_lines(hiding or [], latency or 0.0, round_s or config.data.pace_s):
        click.echo(line)
    if latency is not None and not hiding:
        click.echo("sync rounds grow apart, so no one tau hides a latency: drom-net simulate tells what is waited")
    click.echo("nothing was started")


def _print_processes(prepared: Prepared) -> None:
    """The table of processes; without what files call them where that is their names."""
    config, star = prepared.config, prepared.graph is None
    rows = [["reducer", "reducer", "reducer", f"listens at {config.reducer.listens_at or PRIVATE}", ""]] if star else []
    for task, row in enumerate(process_rows(prepared)):
        examples = row.source if config.source else _in_passes(row.examples, config.data.passes)
        rows.append([f"{'worker' if star else 'peer'} {task}", row.name, row.node, row.address, examples])
    columns = ["process", "name", "in files", "address", "examples"]
    if prepared.roster.nodes == prepared.roster.tasks:
        columns, rows = [*columns[:2], *columns[3:]], [[*row[:2], *row[3:]] for row in rows]
    print_table(columns, rows, left=len(columns) - (0 if config.source else 1))


def _costs_in_words(prepared: Prepared, costs: Cost) -> str:
    config, roster = prepared.config, prepared.roster
    if prepared.graph is None:
        each = f"in a sync round a worker sends at most {size(costs.push_bytes)} and gets {size(costs.pull_bytes)}"
        descriptors = f"reducer about {costs.reducer_file_descriptors}, a worker {costs.worker_file_descriptors}"
    else:
        each = f"a peer sends at most {size(costs.push_bytes)} to each neighbor in a sync round"
        descriptors = f"a peer at most about {costs.worker_file_descriptors}"
    rounds, in_all = "without an end", ""
    if prepared.rounds:
        rounds = f"{count_of(prepared.rounds, 'round')}, {costs.sync_rounds} of them sync rounds"
        in_all = f", at most {size(costs.bytes_in_all)} in all"
        if about := bytes_as_a_rule(prepared, costs):
            in_all += f" (about {size(about)} as a rule)"
    tasks = count_of(len(roster.tasks), "task")
    return (
        f"\n{config.algorithm.name} on {type(config.data).dataset}: {tasks}, d = {roster.dim}, {rounds}\n"
        f"{each}; all together at most {size(costs.bytes_per_sync_round)}{in_all}\n"
        f"file descriptors: {descriptors}, `drom-net run` {costs.launcher_file_descriptors}\n"
        f"on one machine: {count_of(costs.processes, 'process', 'processes')}, "
        f"{count_of(costs.connections, 'connection')}, at least {size(costs.memory_bytes)} of memory, "
        f"about {costs.start_s:.0f} s of a processor to start\n"
        f"configuration digest {config_digest(config, roster.tasks)}"
    )


def _check_one(config: ClusterConfig, wanted: str, *, as_json: bool) -> None:
    """What can be known on the host of one node: the file, its own rows and its own key."""
    deployment = plan_deployment(config)
    names, nodes = deployment.tasks, safe_names(deployment.tasks)
    index = -1 if wanted == REDUCER and deployment.graph is None else task_index(names, wanted)
    node = REDUCER if index < 0 else nodes[index]
    endpoint = config.reducer.endpoint
    if deployment.graph is not None:
        endpoints = peer_endpoints(config, names)
        endpoint = endpoints[index] if endpoints else None
    if config.security.keys is not None:
        read_keyring(Path(config.security.keys), node)
    facts: dict[str, object] = {"node": node, "role": REDUCER if index < 0 else deployment.role, "endpoint": endpoint}
    facts["config_digest"] = config_digest(config, names)
    facts["what_leaves"] = what_leaves(config)
    rows = ""
    if index >= 0 and config.source is None:
        dataset = load_dataset(config.data, base=config.base, only=index)
        stream = stream_of(index, config, dataset, Roster(names, dataset.dim, dataset.feature_digest))
        warnings = advice(dataset, [stream])
        facts |= {"examples": stream.num_examples, "dim": dataset.dim, "warnings": warnings}
        for line in warnings:
            tell(f"warning: {line}", "warned")
        rows = f": {count_of(stream.num_examples, 'example')}, d = {dataset.dim}"
    if as_json:
        print_json(facts)
        return
    what = "connects to the reducer" if facts["role"] == "worker" else "is reached"
    keys = "no keys" if config.security.keys is None else f"its key is in {config.security.keys}"
    named_so = REDUCER if index < 0 else f"{facts['role']} {node}"
    click.echo(f"{named_so}{rows}; it {what} at {endpoint or PRIVATE}; {keys}")
    click.echo(
        f"configuration digest {facts['config_digest']}\nwhat leaves: {facts['what_leaves']}\nnothing was started"
    )


def columns_in_words(dataset: Dataset) -> str:
    """The same for people, in a line; empty of other data."""
    schema = dataset.preprocessing.schema
    by_kind: dict[str, list[str]] = {}
    for column in schema.columns if schema is not None else ():
        levels = f" ({count_of(len(column.levels), 'level')})" if column.levels else ""
        by_kind.setdefault(column.kind, []).append(column.name + levels)
    told = [f"{kind}: {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}" for kind, names in by_kind.items()]
    return f"columns: {'; '.join(told)}" if told else ""


def _in_passes(num_examples: int, passes: int) -> str:
    """``240``, or ``240 x 3``: so many examples in each of three passes."""
    return str(num_examples) if passes == 1 else f"{num_examples // passes} x {passes}"


def _hiding(prepared: Prepared, latency_s: float, round_s: float | None) -> list[dict[str, Any]]:
    round_s = prepared.config.data.pace_s if round_s is None else round_s
    if prepared.graph is None:
        raise UsageError("--latency: a star waits for it twice in every round; only the exchange of peers can hide it")
    if not round_s:
        raise UsageError("--latency: expected the time of a local round beside it, as --round or data.pace_s")
    return hiding_table(prepared.config, latency_s, round_s)


def hiding_lines(hiding: Sequence[dict[str, Any]], latency_s: float, round_s: float) -> list[str]:
    """The rows of `cost.hiding_table` for people."""
    if not hiding:
        return []
    lines = [f"with a latency of {1000 * latency_s:.3g} ms, local rounds of {1000 * round_s:.3g} ms and no loss"]
    for row in hiding:
        least, almost = row["least_tau"], row["least_tau_almost"]
        hides = f"hidden from tau = {least} on" if least else "never hidden"
        if least != almost:
            hides += f", less than {100 * ALMOST:.0f} % waiting from tau = {almost} on"
        share = row["waiting_share"]
        here = f"; with this tau {100 * share:.1f} % waiting" if share is not None else ""
        lines.append(f"  {row['exchange']:<8}  {hides}{here}")
    return lines


def _prepare_with_warnings(file: Path, overrides: tuple[str, ...]) -> Prepared:
    """As `load_and_prepare`, and say what may spoil what is learned: the data, or the parameters."""
    prepared = load_and_prepare(file, overrides)
    for line in advice(prepared.dataset, prepared.streams):
        tell(f"warning: {line}", "warned")
    warn_of_paper_parameters(prepared.config)
    return prepared


def warn_of_paper_parameters(config: ClusterConfig) -> None:
    """Say what the literal parameters of the paper do, also one by one."""
    parameters = config.algorithm.parameters
    if isinstance(parameters, DromParameters) and parameters.loss == "hinge" and parameters.xi <= 1.0:
        tell(
            "warning: hinge loss with xi <= 1 takes every mistake for an outlier and learns nothing from it, "
            "see docs/algorithms.md",
            "warned",
        )
    if isinstance(parameters, DromParameters) and all(
        getattr(parameters, name) == value for name, value in PAPER.items()
    ):
        tell(
            "warning: these are the paper's literal parameters (preset paper); with them DROM predicts at chance, "
            "see docs/algorithms.md",
            "warned",
        )


def warn_of_sharing(config: ClusterConfig) -> None:
    """Say that examples leave their site.

    Raises:
        ConfigError: They would, and the configuration does not allow it.
    """
    if check_sharing(config):
        tell(
            f"warning: {config.algorithm.name} sends every example to other sites (allow_sharing_examples: true)",
            "warned",
        )


def check_sources(prepared: Prepared, *, insecure: bool) -> None:
    """Refuse sources that the processes of one machine cannot have.

    Raises:
        UsageError: They would listen at one address, or beyond this machine, or share the standard input.
    """
    config, names = prepared.config, prepared.roster.tasks
    if config.source is None:
        return
    if config.source.stdin:
        raise UsageError("source.stdin is for nodes that are started by hand: `run` has one standard input for all")
    endpoints = [endpoint for task in range(len(names)) if (endpoint := source_endpoint(config, names, task))]
    for endpoint, node in zip(endpoints, safe_names(names), strict=False):
        require_local_source(endpoint, config, node, insecure=insecure)
    if len(set(endpoints)) < len(endpoints):
        raise UsageError(
            f"source.bind gives several tasks the same address ({endpoints[0]}): here all run on one machine, so it "
            "must have {task} in it, or be a list"
        )
