"""Commands to learn and to use what was learned: declared here, carried out in the modules that they import."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from drom_net.cli import options
from drom_net.cli.commands import durations


@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE..]")
@click.option("--site", metavar="COLUMN", help="The column that says whose row it is; - where all are of one site.")
@click.option("--label", metavar="COLUMN", help="The column to predict: two labels, or more with --positive.")
@click.option("--positive", metavar="TEXT", multiple=True, help="The label that is +1; once more for another spelling.")
@click.option("--negative", metavar="TEXT", multiple=True, help="The label that is -1; by default the other one.")
@click.option("--rest", type=click.Choice(["negative"]), help="Every label that is not +1 is -1.")
@click.option("--unlabelled", metavar="TEXT", multiple=True, help="No label (unknown, ..): not learned from.")
@click.option(
    "--missing", metavar="TEXT", multiple=True, help="A text that means a missing value, beside NA and alike."
)
@click.option("--merge", is_flag=True, help="FILEs are those that `init` has written at several sites: join them.")
@click.option(
    "--example",
    type=click.Choice(["pumps", "mail", "live", "star"]),
    help="Put a whole small example, data and all, into a folder.",
)
@click.option(
    "--out", "-o", type=click.Path(path_type=Path), help="The file to write; by default named after the table."
)
@click.option("--force", is_flag=True, help="Overwrite the file if it is there.")
@options.as_json
def init(**given: Any) -> Any:
    """Draft a cluster's file from your tables (CSV or Parquet).

    FILEs are one table with a column for the site, or one a site. What the tables do not tell is asked for in a
    terminal; elsewhere an error lists what it could be. Rows stay where they are: names of columns and frequent levels
    go into the file.

    \b
    Examples:
      drom-net init patients.csv --site Hospital --label readmitted
      drom-net init pump-*.csv --label service -o pumps.yaml
      drom-net init visits.csv --label outcome --positive good --rest negative
      drom-net init --merge north.yaml south.yaml -o cluster.yaml
      drom-net init --example pumps
    """
    from drom_net.cli.init import init

    return init(**given)


@click.command()
@options.config_file
@click.option("--latency", type=durations.FIXED_TIME, help="Also tell which tau hides this latency, one way: 20ms.")
@click.option(
    "--round", "round_s", type=durations.FIXED_TIME, help="How long a local round takes; by default FILE's data.pace_s."
)
@click.option("--task", "-k", help="Only this task (or reducer), with the data and the key that its own host has.")
@options.overrides
@options.as_json
def check(**given: Any) -> Any:
    """Check FILE and its data, print the plan, start nothing.

    The data of all sites have to be on this machine; at one site look with --task at its own alone. Then it cannot
    count how many rows others can compute.

    \b
    Examples:
      drom-net check pumps/pumps.yaml
      drom-net check pumps/pumps.yaml --task north
      drom-net check ring.yaml --latency 20ms --round 5ms
    """
    from drom_net.cli.run import check

    return check(**given)


@click.command()
@options.config_file_or_none
@click.option(
    "--resume",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Go on with the run of this directory, in place of FILE: after a power loss, a crash or Ctrl-C.",
)
@click.option(
    "--driver",
    type=click.Choice(["processes", "reference", "simulation"]),
    default="processes",
    show_default=True,
    help="Real processes and sockets, the plain loop in one process, or the processes' nodes on a virtual clock "
    "(`drom-net simulate` chooses its network).",
)
@click.option("--out", type=click.Path(path_type=Path), help="The run directory; by default a new one in runs/.")
@options.records_format
@options.report
@options.insecure
@options.log_format
@options.metrics
@options.metrics_insecure
@options.overrides
@options.as_json
@click.option("-q", "--quiet", is_flag=True, help="No progress and no table; errors are still told.")
def run(**given: Any) -> Any:
    """Run FILE's cluster on this machine, and stay with it.

    The result goes to standard output, progress to standard error. Ctrl-C ends the run in order and keeps
    what was learned so far; a second one ends it at once.

    \b
    Examples:
      drom-net run pumps/pumps.yaml --report --out runs/pumps
      drom-net run pumps/pumps.yaml --set data.flip=0.1 --out runs/noisy
      drom-net run --resume runs/noisy
    """
    from drom_net.cli.run import run

    return run(**given)


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
    "--report",
    is_flag=False,
    flag_value="",
    metavar="[PATH]",
    help="Write the run's report, an .html page, and the same as .png beside it; by default in RUN_DIR.",
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
def show(**given: Any) -> Any:
    """Print the result of a run, or of several side by side.

    The timeline shows each task's own work, its waits for contributions on their way, and its waits for neighbors that
    have sent none yet; of several runs above each other. The picture of sharing shows each task's errors alone and with
    sharing, and the weights of its experts.

    \b
    Examples:
      drom-net show runs/pumps
      drom-net show runs/pumps --sharing gains.png
      drom-net show runs/pumps --report pumps.html
      drom-net show runs/pumps runs/pumps-alone
      drom-net show runs/blocking runs/delayed --timeline waits.png --to 0.5
    """
    from drom_net.cli.results import show

    return show(**given)


@click.command()
@click.argument("path", metavar="FILE|RUN_DIR", type=click.Path(path_type=Path), envvar="DROM_NET_CONFIG")
@click.option("--web", is_flag=True, help="Show it on a page of this machine, in place of the terminal.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Of the page; by default one that is free.", metavar="PORT"
)
@click.option("--once", is_flag=True, help="Look once, and do not wait for the end.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object a line on standard output, each second.")
def watch(**given: Any) -> Any:
    """Watch a run: error and evidence by site, who waits, who is gone.

    RUN_DIR is its directory. For FILE it takes the latest of runs/NAME, runs/NAME-2, .., NAME being the cluster's
    name; a run with another --out has to be named by its directory. Evidence says whether sharing helps so far. The
    run does not notice; the watch ends when the run ends, and of a run that has ended it shows the result. Into a pipe
    it writes a line about every two seconds, with --json a JSON object a line.

    \b
    Exit codes beside the common ones:
      0    the run has finished (with --once: it goes on, or has finished)
      1    a node failed
      4    the run was interrupted, or its launcher is gone
      130  this command was interrupted; the run goes on

    \b
    Examples:
      drom-net watch pumps/pumps.yaml
      drom-net watch runs/pumps --web
    """
    from drom_net.cli.watch import watch

    return watch(**given)


@click.command()
@options.run_dir
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path), default="-")
@click.option("--task", "-k", help="All rows are of this task: its number from 0, its name, or the safe form of that.")
@click.option(
    "--site",
    "site_column",
    metavar="COLUMN",
    help="Rows are of several tasks, which this column (or key) names; by default the run's data.task_column.",
)
@click.option(
    "--format", "row_format", metavar="FORMAT", default="csv", show_default=True, help="Of the rows: csv, jsonl, .."
)
@options.as_json
def predict(**given: Any) -> Any:
    """Label new rows with the models of a run.

    Rows come from FILE, by default from standard input; for each there is one line "label,p,score" on standard output,
    of rows of several tasks "site,label,p,score". The label is as the run's own files write it (where data.rest is
    negative, -1 is "not" and the positive label); p is the probability of the positive one.

    Rows are as in the run's data files, with or without a label: CSV with a line of column names (in any order; others
    than the features are left out), JSON lines, or svmlight lines; they are prepared as the run prepared its own.

    \b
    Examples:
      drom-net predict runs/pumps new-rows.csv --task harbor
      drom-net predict runs/patients --site Hospital < new-patients.csv
    """
    from drom_net.cli.predict import predict

    return predict(**given)


@click.command("compare")
@click.argument("what", nargs=-1, required=True)
@click.option(
    "--algorithms",
    "names",
    metavar="NAME,NAME,..",
    default="",
    help="The learners, as a file names them (a wrong name lists all). By default all and that of WHAT, but those of "
    "peers only beside a file whose learner is one of them.",
)
@click.option(
    "--with",
    "tools",
    metavar="TOOL,TOOL,..",
    default="",
    help="Learners of other packages as well, of river, vw, where these are installed (river, vowpalwabbit).",
)
@click.option(
    "--settings", type=click.IntRange(1), default=24, show_default=True, help="How many are tried of each learner."
)
@click.option(
    "--tuning-orders", type=click.IntRange(1), default=2, show_default=True, help="Orders on which settings are chosen."
)
@click.option(
    "--orders", type=click.IntRange(1), default=10, show_default=True, help="Other orders, on which they are evaluated."
)
@options.jobs
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="What settings and orders are drawn from."
)
@click.option(
    "--processes",
    "num_processes",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Run so many of the evaluation orders again as real processes, and compare the digests.",
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The folder for results and finished runs.")
@options.overrides
@options.as_json
def compare_command(**given: Any) -> Any:
    """Compare learners on WHAT, with the same tuning for each.

    WHAT names data sets, or YAML files. As many settings are drawn for every learner and chosen on some orders of
    the examples; the best one is then run on other orders. Where rows keep their order (data.shuffle: false) it may
    be time: settings are then chosen on the first 30 % of each site's rows, and evaluated on the others in ten
    blocks, one behind the other. data.measure says by what. Of a YAML file data, rounds and graph are used; the
    parameters that are searched begin at the learner's defaults, not at the file's. Every run is the plain loop in
    one process, so that learners which move raw examples can be compared as well; they are marked.

    What is finished stays in OUT/runs.jsonl: after Ctrl-C, or with other options, the same command does only the rest.
    (It does not know when you change the program: then choose another OUT.)

    \b
    Examples:
      drom-net compare digits-sites --out runs/compare
      drom-net compare digits-sites --with river,vw --out runs/compare
      drom-net compare pumps/pumps.yaml --algorithms adadrom,drom,local
    """
    from drom_net.cli.compare import compare_command

    return compare_command(**given)
