"""drom-net show, verify, replay, merge, predict: what a run has left behind."""

from __future__ import annotations

import dataclasses
import io
import sys
from pathlib import Path
from typing import Any

import click

from drom_net.cli import options
from drom_net.cli.output import print_comparison, print_json, print_result, showing_progress
from drom_net.cli.run import load_and_prepare, require_current
from drom_net.cluster.merge import merge_nodes
from drom_net.cluster.plan import lanes, peer_graph
from drom_net.cluster.replay import replay as replay_run
from drom_net.config.load import load_config
from drom_net.core.errors import DromNetError, UsageError
from drom_net.data.formats import line_formats
from drom_net.data.row_lines import read_rows
from drom_net.plots.base import check_plot_file
from drom_net.plots.sharing import draw_sharing
from drom_net.plots.timeline import Timeline, draw_timelines
from drom_net.results.model_file import load_model
from drom_net.results.run_directory import load_disturbances, load_summary
from drom_net.results.site_model import SiteModel
from drom_net.results.tables import read_timeline, require_records
from drom_net.results.timeline import Lane
from drom_net.results.verification import recompute_digest, wrong_figures


@click.command()
@click.argument("run_dirs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN_DIR...")
@click.option(
    "--timeline", "picture", type=click.Path(path_type=Path), help="Draw who worked and waited when: .png or .svg."
)
@click.option(
    "--sharing",
    "sharing_picture",
    type=click.Path(path_type=Path),
    help="Draw what sharing did to each task, of a learner that mixes experts: .png or .svg.",
)
@click.option(
    "--from",
    "from_s",
    type=float,
    metavar="S",
    help="From so many seconds after all tasks had begun; of simulations, of the virtual clock.",
)
@click.option(
    "--to", "to_s", type=float, metavar="S", help="To there; by default the first sync rounds, and all faults."
)
@options.as_json
def show(
    run_dirs: tuple[Path, ...],
    picture: Path | None,
    sharing_picture: Path | None,
    from_s: float | None,
    to_s: float | None,
    as_json: bool,
) -> None:
    """Print the result of a finished run, or of several runs of the same tasks side by side.

    The timeline shows each task's own work, its waits for contributions on their way, and its waits for neighbors that
    have sent none yet; of several runs above each other. The picture of sharing shows each task's errors alone and with
    sharing, and the weights of its experts.

    \b
    Examples:
      drom-net show runs/pumps
      drom-net show runs/pumps --sharing gains.png
      drom-net show runs/pumps runs/pumps-alone
      drom-net show runs/blocking runs/delayed --timeline waits.png --to 0.5
    """
    if picture is None and (from_s is not None or to_s is not None):
        raise UsageError("--from and --to choose what --timeline draws, which is not given")
    if sharing_picture is not None and len(run_dirs) > 1:
        raise UsageError(f"--sharing draws one run, got {len(run_dirs)}")
    pictures = [path for path in (picture, sharing_picture) if path is not None]
    for path in pictures:
        check_plot_file(path)
    summaries = [load_summary(run_dir) for run_dir in run_dirs]
    tasks = [{task["name"] for task in summary["tasks"]} for summary in summaries]
    for run_dir, names in zip(run_dirs, tasks, strict=True):
        if names != tasks[0]:
            click.echo(f"warning: {run_dir} has other tasks than {run_dirs[0]}", err=True)
    if picture is not None:
        _draw(run_dirs, summaries, picture, (from_s, to_s))
    if sharing_picture is not None:
        _draw_sharing(run_dirs[0], summaries[0], sharing_picture)
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


@click.command()
@options.run_dir
@options.as_json
def verify(run_dir: Path, as_json: bool) -> int:
    """Compute digest and figures of a run again, from its records and its model, and compare.

    \b
    Example:
      drom-net verify runs/pumps
    """
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


@click.command()
@options.run_dir
@options.as_json
def replay(run_dir: Path, as_json: bool) -> int:
    """Compute a whole run again, from its configuration, its data and what it has recorded of who was there when.

    Whatever happened to the run, the same model comes out, bit for bit; else the first round and task that differ
    are named, with exit code 1. All tasks' data must be at hand here.

    \b
    Example:
      drom-net replay runs/pumps
    """
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


@click.command()
@click.argument("dirs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DIR...")
@click.option("--out", type=click.Path(path_type=Path), help="A new run directory; by default the first DIR itself.")
@options.records_format
@options.as_json
def merge(dirs: tuple[Path, ...], out: Path | None, file_format: str, as_json: bool) -> None:
    """Put the folders of nodes that were started by hand together into one run directory.

    \b
    Example (the --out of the reducer and of workers on two hosts):
      drom-net merge from-host-a from-host-b --out runs/all
    """
    summary = merge_nodes(dirs, out or dirs[0], file_format=file_format)
    if as_json:
        print_json(summary)
    else:
        print_result(summary)
        click.echo(f"run directory {out or dirs[0]}")


@click.command()
@options.run_dir
@click.option(
    "--task", "-k", required=True, help="Whose model: the task's number from 0, its name, or the safe form of that."
)
@click.option(
    "--format",
    "row_format",
    type=click.Choice(sorted(line_formats())),
    default="csv",
    show_default=True,
    help="Of the rows.",
)
@options.as_json
def predict(run_dir: Path, task: str, row_format: str, as_json: bool) -> None:
    """Label rows from standard input with a task's model; one line "label,p,score" for each on standard output.

    Rows are as in the run's data files, with or without a label: CSV with a line of column names (in any order; others
    than the features are left out), JSON lines, or svmlight lines; they are prepared as the run prepared its own.

    \b
    Example:
      drom-net predict runs/pumps --task harbor < new-rows.csv
    """
    model = load_model(run_dir)
    names = [str(name) for name in model["tasks"]]
    index = options.task_index(names, task)
    site = SiteModel.of(model, index, run_dir)
    if sys.stdin.isatty():
        click.echo("reading rows from the terminal; end them with Ctrl-D", err=True)
    rows = read_rows(
        io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig", newline=""), format=row_format, rows=site.reader
    )
    predictions: list[dict[str, Any]] = []
    for row in rows:
        score = site.score(row)
        predictions.append({"label": 1 if score >= 0.0 else -1, "p": site.probability(score), "score": score})
    if as_json:
        print_json(predictions)
        return
    click.echo("label,p,score")
    for prediction in predictions:
        click.echo(f"{prediction['label']},{prediction['p']:.6g},{prediction['score']!r}")
