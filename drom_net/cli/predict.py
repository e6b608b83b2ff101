"""drom-net predict: labels of new rows, by the models of a run."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import click

from drom_net.cli.requirements import task_index
from drom_net.cli.telling import print_json, tell
from drom_net.config.load import load_config
from drom_net.core.errors import InputError, UsageError, naming
from drom_net.data.faults import listed, quoted
from drom_net.data.formats import line_format
from drom_net.data.row_lines import STANDARD_INPUT, decoded_lines, read_rows
from drom_net.data.settings import FileData, RowSettings, StreamSettings
from drom_net.results.model_file import load_model, row_reader_of
from drom_net.results.site_model import SiteModel


def predict(
    run_dir: Path, file: Path, task: str | None, site_column: str | None, row_format: str, as_json: bool
) -> None:
    """`drom-net predict`."""
    line_format(row_format, "--format")  # raises what is wrong with it
    if task is not None and site_column is not None:
        raise UsageError("--task is for rows of one task, --site for rows of several: give one of them")
    model = load_model(run_dir)
    data = _data_of(run_dir)
    names = [str(name) for name in model["tasks"]]
    if task is None and site_column is None:
        site_column = data.task_column if isinstance(data, FileData) else None
        if site_column is None and len(names) > 1:
            raise UsageError("missing option --task NAME, whose model; or --site COLUMN, which says whose row it is")
    index = 0 if task is None else task_index(names, task)
    reader = row_reader_of(model)
    content, shown = _read(file)
    lines = decoded_lines(content, data.encoding if isinstance(data, FileData) else None, shown)
    column = site_column or (data.task_column if isinstance(data, FileData) else None) or ""
    needs = site_column is not None
    rows, said = read_rows(lines, format=row_format, rows=reader, site=column, needs_site=needs, shown=shown)
    sites = said if said is not None and site_column is not None else [names[index]] * len(rows)
    if said is not None and site_column is None and (others := sum(site != names[index] for site in said)):
        of = f"column {quoted(column)} says that {others} of {len(said)} rows are of another site"
        tell(f"warning: {of}; --task labels all by the model of {names[index]}", "other_sites")
    models: dict[str, SiteModel] = {}
    negative, positive = data.label_words if isinstance(data, RowSettings) else ("-1", "1")
    predictions: list[dict[str, Any]] = []
    for site, row in zip(sites, rows, strict=True):
        if site not in models:
            if site not in names:
                raise UsageError(
                    f"column {quoted(site_column or '')}: expected one of {listed(names)}; got {quoted(site)}"
                )
            models[site] = SiteModel.of(model, names.index(site), run_dir)
        score = models[site].score(row)
        p = models[site].probability(score)
        sign = 1 if score >= 0.0 else -1
        named = {} if site_column is None else {"site": site}
        predictions.append(named | {"label": positive if sign > 0 else negative, "p": p, "score": score, "sign": sign})
    _print(predictions, site_column is not None, as_json=as_json)


def _read(file: Path) -> tuple[bytes, str]:
    """All of a file, of standard input where it is -, and what messages call it."""
    if file != Path("-"):
        with naming(file):
            return file.read_bytes(), str(file)
    if sys.stdin.isatty():
        click.echo("reading rows from the terminal; end them with Ctrl-D", err=True)
    return sys.stdin.buffer.read(), STANDARD_INPUT


def _print(predictions: list[dict[str, Any]], with_sites: bool, *, as_json: bool) -> None:
    if as_json:
        print_json(predictions)
        return
    columns = [*(["site"] if with_sites else []), "label", "p", "score"]
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(columns)
    for told in predictions:
        shown = told | {"p": f"{told['p']:.6g}", "score": repr(told["score"])}
        table.writerow([shown[column] for column in columns])


def _data_of(run_dir: Path) -> StreamSettings | None:
    """The settings of the data as run; None where there are none that this version reads."""
    try:
        return load_config(run_dir / "config.yaml").data
    except InputError:
        return None
