"""drom-net simulate: how long a run would take on such a network, before anyone rents a machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from drom_net.algorithms.learner import exchange_of, exchanges_of
from drom_net.cli import durations
from drom_net.cli.output import count_of, print_table, showing_progress
from drom_net.cli.report import report_at_end
from drom_net.cli.run import hiding_lines, load_and_prepare
from drom_net.cli.telling import print_json, shown, tell
from drom_net.cluster.cost import hiding_table
from drom_net.cluster.directories import begin_run_directory, end_run_directory
from drom_net.cluster.local import Interruption
from drom_net.cluster.plan import algorithm_of, lanes
from drom_net.cluster.prepare import Prepared, require_stored, with_parameters
from drom_net.cluster.progress import Progress
from drom_net.cluster.record import Record, Recorded
from drom_net.cluster.simulate import Conditions, Forecast, forecast, node_names
from drom_net.core.errors import UsageError
from drom_net.graph.facts import tau_warnings
from drom_net.plots.base import check_plot_file
from drom_net.plots.timeline import draw_timeline
from drom_net.results.run_directory import STATE
from drom_net.results.timeline import Disturbance, lost_lane
from drom_net.results.wording import percent, size
from drom_net.simulation.network import Distribution

_SHOWN = ("seconds", "waiting_share", "messages", "bytes_sent", "error_rate")


def simulate(
    file: Path,
    *,
    given: durations.GivenConditions,
    compare: bool,
    draw: Path | None,
    from_s: float | None,
    to_s: float | None,
    out: Path | None,
    report: bool,
    overrides: tuple[str, ...],
    as_json: bool,
    quiet: bool,
) -> int:
    """`drom-net simulate`."""
    if draw is None and (from_s is not None or to_s is not None):
        raise UsageError("--from and --to choose what --draw draws, which is not given")
    if report and out is None:
        raise UsageError("--report needs --out, the run directory that it is written to")
    if draw is not None:
        check_plot_file(draw)
    prepared = load_and_prepare(file, overrides)
    require_stored(prepared.config, "a simulation")
    conditions = given.of(prepared)
    latency = conditions.network.latency
    round_mean_s = conditions.local_round_s(prepared)
    for warning in _warnings(prepared, conditions):
        tell(f"warning: {warning}")
    if not round_mean_s and not quiet:
        click.echo("local rounds take no time here; --round tells how long one takes", err=True)
    if out is not None:
        begin_run_directory(prepared, out, conditions)
    with showing_progress(as_json=as_json, quiet=quiet) as progress:
        progress.start(prepared.roster.tasks, prepared.rounds)
        found = _forecast(prepared, conditions, progress, out)
        others = _others(prepared, conditions, progress) if compare else []
    pages: list[Path] = []
    if out is not None:
        with report_at_end(out, wanted=report, quiet=quiet, as_json=as_json) as pages:
            end_run_directory(prepared, out, found.tasks, found.centrals, driver="simulation")
            (out / STATE).unlink(missing_ok=True)  # from now on the summary says it
    faults = conditions.disturbances(node_names(prepared))
    _warn_of_late(faults, found.figures["seconds"])
    if draw is not None:
        _draw(prepared, latency, found, faults, draw, (from_s, to_s))
    hiding = hiding_table(prepared.config, latency.mean, round_mean_s) if prepared.graph and round_mean_s else []
    if as_json:
        more = {"run_directory": str(out) if out else None, "picture": str(draw) if draw else None}
        print_json(found.figures | {"beside": others, "hiding": hiding} | more)
        return 0
    _print(prepared, found.figures, others)
    for line in hiding_lines(hiding, latency.mean, round_mean_s):
        click.echo(line)
    for what, path in (("run directory", out), *(("report", page) for page in pages), ("picture", draw)):
        if path is not None:
            click.echo(f"{what} {path}")
    return 0


def _forecast(prepared: Prepared, conditions: Conditions, progress: Progress, out: Path | None) -> Forecast:
    """As `forecast`; where there is a run directory it can be watched meanwhile."""
    if out is None:
        return forecast(prepared, conditions, progress)
    with Record(out, prepared, Interruption(), driver="simulation") as record:
        return forecast(prepared, conditions, Recorded(progress, record))


def _others(prepared: Prepared, conditions: Conditions, progress: Progress) -> list[dict[str, Any]]:
    """The same run with each exchange and with tau = 1; none where there is a reducer."""
    parameters = prepared.config.algorithm.parameters
    if prepared.graph is None:
        return []
    taus = [1] if parameters.tau == 1 else [1, parameters.tau]
    beside, exchanges = [], exchanges_of(type(parameters))
    for tau in taus:
        for exchange in exchanges:
            varied = {"exchange": exchange} if len(exchanges) > 1 else {}
            other = with_parameters(prepared, tau=tau, **varied)
            progress.start(prepared.roster.tasks, prepared.rounds)
            row = forecast(other, conditions, progress).figures
            beside.append({"exchange": exchange, "tau": tau} | {key: row[key] for key in _SHOWN})
    return beside


def _warnings(prepared: Prepared, conditions: Conditions) -> list[str]:
    """What of the plan will not be as it was meant."""
    found = []
    if prepared.graph is not None:
        tau = prepared.config.algorithm.parameters.tau
        lengths = [stream.num_examples for stream in prepared.streams]
        if not algorithm_of(prepared.config, 0).sync.growing:
            found += tau_warnings(tau, lengths, prepared.roster.tasks)
    num_tasks = len(prepared.roster.tasks)
    for some in conditions.stragglers:
        if round(some.share * num_tasks) == 0:
            found.append(f"--stragglers: {100 * some.share:g} % of {count_of(num_tasks, 'task')} is none")
    return found


def _warn_of_late(faults: Sequence[Disturbance], end_s: float) -> None:
    """Tell of faults that were to come when the run was over."""
    for fault in faults:
        if fault.from_s > end_s:
            of = f" of {fault.where}" if fault.what != "partition" else ""
            tell(
                f"warning: the run was over after {end_s:.4g} s: the {fault.what}{of} at {fault.from_s:g} s "
                "did not happen"
            )


def _draw(
    prepared: Prepared,
    latency: Distribution,
    found: Forecast,
    faults: Sequence[Disturbance],
    path: Path,
    window: tuple[float | None, float | None],
) -> None:
    rows = [task.times for task in found.tasks if task.times is not None]
    draw_timeline(
        lanes(prepared.config, prepared.graph, prepared.roster.tasks, rows, found.lost),
        path,
        _title(prepared, latency),
        window=window,
        faults=[fault for fault in faults if fault.from_s <= found.figures["seconds"]],
        lost=[lost_lane(name, times) for name, times in found.lost],
        virtual=True,
    )


def _title(prepared: Prepared, latency: Distribution) -> str:
    parameters = prepared.config.algorithm.parameters
    how = f", tau {parameters.tau}, {exchange_of(parameters)}" if prepared.graph is not None else ""
    return f"{prepared.config.name}{how}, mean latency {1000 * latency.mean:.3g} ms (simulated)"


def _print(prepared: Prepared, totals: dict[str, Any], others: Sequence[dict[str, Any]]) -> None:
    node = "worker" if prepared.graph is None else "peer"
    click.echo(
        f"{prepared.config.algorithm.name}, {count_of(len(prepared.roster.tasks), node)}, "
        f"{count_of(totals['rounds'], 'round')}: {totals['seconds']:.4g} s"
    )
    waits = [task["waiting_s"] / (task["learning_s"] or 1.0) for task in totals["tasks"]]
    names = [task["name"] for task in totals["tasks"]]
    least, most = min(range(len(waits)), key=waits.__getitem__), max(range(len(waits)), key=waits.__getitem__)
    if totals["waiting_share"] is None:
        click.echo("nothing took any time, so nobody waited")
    else:
        spread = ""
        if percent(waits[least], 1) != percent(waits[most], 1):
            spread = f": from {percent(waits[least], 1)} ({names[least]}) to {percent(waits[most], 1)} ({names[most]})"
        click.echo(f"waiting {percent(totals['waiting_share'], 1)} of the time{shown(spread)}")
    faults = [f"{key} {totals[key]}" for key in ("lost", "doubled", "crashes") if totals[key]]
    click.echo(
        f"{count_of(totals['messages'], 'message')}, {size(totals['bytes_sent'])}"
        + (f" ({', '.join(faults)})" if faults else "")
    )
    click.echo(f"error rate {percent(totals['error_rate'], 1)}, digest {totals['digest']}")
    if others:
        click.echo("")
        rows = [
            (
                row["exchange"],
                str(row["tau"]) if isinstance(row["tau"], int) else "by task",
                f"{row['seconds']:.4g} s",
                percent(row["waiting_share"], 1),
                size(row["bytes_sent"]),
                percent(row["error_rate"], 1),
            )
            for row in others
        ]
        print_table(["exchange", "tau", "run time", "waiting", "sent", "error rate"], rows, left=1)
