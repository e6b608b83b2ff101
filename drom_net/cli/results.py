"""drom-net show, verify, replay, merge: what a run has left behind."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click

from drom_net.cli.output import print_comparison, print_result, showing_progress
from drom_net.cli.report import require_report, write_report
from drom_net.cli.run import load_and_prepare, require_current
from drom_net.cli.telling import print_json
from drom_net.cluster.merge import merge_nodes
from drom_net.cluster.plan import lanes, peer_graph
from drom_net.cluster.replay import replay as replay_run
from drom_net.config.load import load_config
from drom_net.core.errors import DromNetError, UsageError
from drom_net.plots.base import check_plot_file
from drom_net.plots.sharing import draw_sharing
from drom_net.plots.timeline import Timeline, draw_timelines
from drom_net.results.run_directory import load_disturbances, load_summary
from drom_net.results.tables import read_timeline, require_records
from drom_net.results.timeline import Lane
from drom_net.results.verification import recompute_digest, wrong_figures


def show(
    run_dirs: tuple[Path, ...],
    picture: Path | None,
    sharing_picture: Path | None,
    report: str | None,
    from_s: float | None,
    to_s: float | None,
    as_json: bool,
) -> None:
    """`drom-net show`."""
    if picture is None and (from_s is not None or to_s is not None):
        raise UsageError("--from and --to choose what --timeline draws, which is not given")
    if sharing_picture is not None and len(run_dirs) > 1:
        raise UsageError(f"--sharing draws one run, got {len(run_dirs)}")
    pictures = [path for path in (picture, sharing_picture) if path is not None]
    for path in pictures:
        check_plot_file(path)
    page = None if report is None else require_report(run_dirs, report)
    summaries = [load_summary(run_dir) for run_dir in run_dirs]
    tasks = [{task["name"] for task in summary["tasks"]} for summary in summaries]
    for run_dir, names in zip(run_dirs, tasks, strict=True):
        if names != tasks[0]:
            click.echo(f"warning: {run_dir} has other tasks than {run_dirs[0]}", err=True)
    if picture is not None:
        _draw(run_dirs, summaries, picture, (from_s, to_s))
    if sharing_picture is not None:
        _draw_sharing(run_dirs[0], summaries[0], sharing_picture)
    if page is not None:
        write_report(run_dirs[0], page, as_json=as_json)
    if as_json:
        print_json(summaries[0] if len(summaries) == 1 else summaries)
    elif len(summaries) == 1:
        print_result(summaries[0])
    else:
        algorithms = [summary["algorithm"] for summary in summaries]
        distinct = len(set(algorithms)) == len(algorithms)
        print_comparison(summaries, algorithms if distinct else [run_dir.name for run_dir in run_dirs])
    for path in [] if as_json else pictures:
        click.echo(f"picture {path}")
    if page is not None and not as_json:
        click.echo(f"report {page}")


def _draw(
    run_dirs: tuple[Path, ...],
    summaries: list[dict[str, Any]],
    picture: Path,
    window: tuple[float | None, float | None],
) -> None:
    simulated = [summary["driver"] == "simulation" for summary in summaries]
    names = {summary["name"] for summary in summaries}
    panels = [
        Timeline(
            run_dir.absolute().name + (" (simulated)" if its and not all(simulated) else ""),
            _lanes(run_dir, summary),
            [fault for fault in load_disturbances(run_dir) if fault.from_s <= summary["seconds"]],
        )
        for run_dir, summary, its in zip(run_dirs, summaries, simulated, strict=True)
    ]
    title = names.pop() if len(names) == 1 else ""
    if len(panels) == 1:
        title = f"{title}: {summaries[0]['algorithm']}"
        panels = [panels[0]._replace(title="")]
    if all(simulated):
        title += " (simulated)"
    # Where a run of processes is among them all are drawn from when all of its tasks had begun.
    draw_timelines(panels, picture, title.strip(), window=window, virtual=all(simulated))


def _draw_sharing(run_dir: Path, summary: dict[str, Any], picture: Path) -> None:
    if "sharing" not in summary:
        raise UsageError(
            f"{run_dir} says nothing of sharing: expected a run of a learner that mixes experts (after `merge` "
            f"where nodes were started by hand), got {summary['algorithm']}"
        )
    tasks = summary["tasks"]
    title = f"{summary['name']}: {summary['algorithm']}"
    draw_sharing([task["name"] for task in tasks], [task["sharing"] for task in tasks], picture, title)


def _lanes(run_dir: Path, summary: dict[str, Any]) -> list[Lane]:
    """What each task of a run did when; who waited for whom follows from the configuration as run."""
    names = [task["name"] for task in summary["tasks"]]
    rows = read_timeline(run_dir, summary)
    config = load_config(run_dir / "config.yaml")
    return lanes(config, peer_graph(config, names), names, rows)


def verify(run_dir: Path, as_json: bool) -> int:
    """`drom-net _lanes`."""
    summary = load_summary(run_dir)
    require_records(run_dir, summary)
    found = recompute_digest(run_dir, [task["name"] for task in summary["tasks"]])
    wrong = wrong_figures(run_dir, summary)
    if wrong and found == summary["digest"]:
        raise DromNetError(f"the summary of {run_dir} does not say what its records do: {', '.join(wrong)}")
    good = found == summary["digest"]
    if as_json:
        print_json({"digest": summary["digest"], "recomputed": found, "verified": good})
    elif good:
        click.echo(f"verified: records and model give the digest {found}, records the figures of the summary")
    else:
        raise DromNetError(
            f"{run_dir} is not as it was written: its summary says digest {summary['digest']}, "
            f"its records and model give {found}"
        )
    return 0 if good else 1


def replay(run_dir: Path, as_json: bool) -> int:
    """`drom-net replay`."""
    config_file = run_dir / "config.yaml"
    if not config_file.exists():
        raise UsageError(f"{config_file} is missing: {run_dir} is not the directory of a run")
    require_current(config_file)
    require_records(run_dir, load_summary(run_dir))
    prepared = load_and_prepare(config_file, ())
    with showing_progress(as_json=as_json, quiet=False) as progress:
        progress.start(prepared.roster.tasks, prepared.rounds)
        found = replay_run(prepared, run_dir, progress)
    same = not found.difference
    if as_json:
        print_json(dataclasses.asdict(found) | {"same": same})
    elif same:
        missing = f"; in {found.absences} central steps somebody was missing" if found.absences else ""
        click.echo(f"replayed {found.rounds} rounds{missing}: records and model are the same, bit for bit")
    else:
        raise DromNetError(f"{run_dir} is not what comes out of its data: {found.difference}")
    return 0 if same else 1


def merge(dirs: tuple[Path, ...], out: Path | None, file_format: str, as_json: bool) -> None:
    """`drom-net merge`."""
    summary = merge_nodes(dirs, out or dirs[0], file_format=file_format)
    if as_json:
        print_json(summary)
    else:
        print_result(summary)
        click.echo(f"run directory {out or dirs[0]}")
