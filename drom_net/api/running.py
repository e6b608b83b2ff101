"""fit, run, load, check: from rows or a configuration to a `Run`."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from drom_net.api.progress import Wanted, require_progress, showing
from drom_net.api.results import Run
from drom_net.api.rows import FRAME, in_python, in_words, read_in_memory
from drom_net.api.threads import one_thread
from drom_net.cluster.candidates import site_columns
from drom_net.cluster.check import bytes_as_a_rule, cost_of, listening, plan_facts
from drom_net.cluster.directories import begin_run_directory, end_run_directory
from drom_net.cluster.leaving import about_prepared
from drom_net.cluster.local import Interruption
from drom_net.cluster.machine import raise_file_descriptors, require_room, this_machine
from drom_net.cluster.prepare import Prepared, prepare, require_stored
from drom_net.cluster.requirements import require_closed, require_keys
from drom_net.cluster.run import run as run_prepared
from drom_net.cluster.run import run_as_loop
from drom_net.config.load import config_of, load_config
from drom_net.config.model import ClusterConfig
from drom_net.core.errors import ConfigError, Problem, UsageError
from drom_net.data.advice import advice
from drom_net.data.cells import label_text
from drom_net.data.datasets import load_dataset
from drom_net.data.faults import quoted
from drom_net.data.files import load_files
from drom_net.data.formats import FileFormat
from drom_net.data.formats.npz import Arrays
from drom_net.data.settings import FileData
from drom_net.results.model_file import load_model, model_arrays
from drom_net.results.outcomes import data_facts
from drom_net.results.run_directory import free_run_directory, load_summary, summary_of
from drom_net.results.tables import read_records, require_records

DRIVERS = ("processes", "reference", "simulation")
_FIT = "fit"
_HEAD = "The configuration of a fit in Python. Its rows were in memory, so it cannot be run or replayed from this file."
_ALONE = "one site, which has nobody to share with; site= names the column of the site"
_OF_FILES = {"files", "directory", "format", "dataset", "task_column", "delimiter", "decimal", "encoding", "zero_based"}
_LABELS = {"positive", "negative", "unlabelled"}
Config = str | Path | Mapping[str, object]
"""A YAML file, or a mapping with what it would say."""
Overrides = Mapping[str, object] | Sequence[str]
"""What replaces that: {"algorithm.eta0": 5}, or as --set has it."""


def fit(
    data: Any,
    *,
    site: str | None = None,
    label: str = "label",
    learner: str = "adadrom",
    parameters: Mapping[str, object] | None = None,
    positive: object = None,
    order: str | None = None,
    seed: int = 0,
    rounds: int | None = None,
    topology: Mapping[str, object] | None = None,
    progress: Wanted = None,
    **options: object,
) -> Run:
    """Learn all sites' rows in this process: each is predicted, then learned.

    The result is that of `drom-net run --driver reference` for the same rows in a file, with the same digest. Ctrl-C
    ends it in order, with what was learned so far.

    Args:
        data: A frame of pandas, polars or pyarrow; or by site a frame, or (X, y) with X of shape (n, d), of NumPy or
            a matrix of SciPy.
        site: The column that names the site of a row. None where there is one site, or the sites are keys.
        label: The label's column.
        learner: As `algorithm.name` of a YAML file.
        parameters: Its parameters, by the keys of that section.
        positive: The label that is +1, or its spellings. By default the one of two that means yes, else the rarer one.
        order: Learn each site's rows by this time or number. By default as they come.
        seed: What every random draw is made from.
        rounds: At most so many.
        topology: As the section of a file: {"graph": "ring"}. By default a star.
        progress: True for a line on standard error, False for none, or a function of (round, rounds, error rate so far)
            that is called a few times a second. By default a line in a terminal or a notebook.
        options: Other keys of the section `data`: negative, the label that is -1; rest="negative": all but `positive`
            are -1; unlabelled, texts that are no label; scaling, bias, columns, ignore, missing, shuffle, passes ..

    Raises:
        ConfigError: An option is wrong.
        DataError: All that is wrong with the rows.
        DivergedError: The learner left the finite numbers.
        UsageError: A package is missing.

    >>> import numpy as np
    >>> x = np.array([[1.0, 0.0], [0.0, 1.0]] * 20)
    >>> y = np.array([1, 0] * 20)
    >>> run = fit({"north": (x, y), "south": (x, y)})
    >>> run.sites
    ('north', 'south')
    >>> run.predict("south", np.array([[1.0, 0.0]])).tolist()
    [1]
    """
    require_progress(progress)
    with in_python(), one_thread():
        format, names = read_in_memory(data)
        rows = {"task_column": site, "label": label, "positive": positive, "order": order}
        own = {"name": learner, **(_mapping("parameters=", parameters) or {})}
        sections = {"algorithm": own, "seed": seed, "rounds": rounds, "topology": _mapping("topology=", topology)}
        sections["data"] = _data_section(format, names, rows, options)
        return _fitted(format, sections, progress, is_alone=names is None and site is None)


def _data_section(
    format: FileFormat, names: tuple[str, ...] | None, rows: Mapping[str, object], options: Mapping[str, object]
) -> dict[str, object]:
    """What a file would say of rows in memory.

    Args:
        names: The sites, where they are keys.
        rows: What the arguments of `fit` say.

    Raises:
        ConfigError: The options say where rows are, or the site is said twice.
    """
    if names is not None and rows["task_column"] is not None:
        expected = "none, for the sites are the keys of the mapping"
        raise ConfigError([Problem("site=", expected, quoted(str(rows["task_column"])))])
    if rows["task_column"] is not None and rows["task_column"] == rows["label"]:
        raise ConfigError([Problem("label=", "another column than that of site=", quoted(str(rows["label"])))])
    if odd := sorted(_OF_FILES & options.keys()):
        hint = "site= names the column of the site" if odd[0] == "task_column" else ""
        raise ConfigError([Problem(f"{odd[0]}=", "none, for the rows are in memory", repr(options[odd[0]]), hint)])
    given = {"files": FRAME if names is None else "{task}", "tasks": names, **rows, **options}
    if isinstance(format, Arrays) and given["label"] == "label":
        del given["label"]
    given |= {key: _texts(given[key]) for key in _LABELS & given.keys()}
    return {key: value for key, value in given.items() if value is not None}


def _mapping(place: str, value: object) -> dict[str, object] | None:
    """A section of a file, as an argument has it. Raises ConfigError where it is none."""
    if value is not None and not isinstance(value, Mapping):
        raise ConfigError([Problem(place, "a mapping", repr(value))])
    return None if value is None else dict(value)


def _texts(labels: object) -> object:
    """Labels as a file has them."""
    if isinstance(labels, list | tuple):
        return [_texts(label) for label in labels]
    if isinstance(labels, bool | np.bool_):
        return str(labels).lower()
    return None if labels is None else label_text(labels)


def _fitted(format: FileFormat, sections: Mapping[str, object], wanted: Wanted, *, is_alone: bool) -> Run:
    """Learn the rows that `format` has in memory, for `fit`."""
    config = config_of({key: value for key, value in sections.items() if value is not None}, name=_FIT)
    assert isinstance(config.data, FileData)
    prepared = prepare(config, load_files(config.data, base=config.base, format=format))
    _warn(map(in_words, advice(prepared.dataset, prepared.streams)), stacklevel=4)
    if is_alone and (columns := site_columns(prepared.dataset.preprocessing.schema)):
        one, what = quoted(columns[0]), " or ".join(map(quoted, columns))
        hint = f'if {what} says whose row it is: site={one}; if all are of one: fit({{"NAME": frame}})'
        _warn([f"all rows are of one site, which has nobody to share with; {hint}"], stacklevel=4)
    with Interruption() as interruption, showing(wanted) as progress:
        progress.start(prepared.roster.tasks, prepared.rounds)
        tasks, centrals = run_as_loop(prepared, progress, interruption)
    facts = data_facts(prepared.dataset)
    about = about_prepared(prepared)
    summary = summary_of(tasks, centrals, about=about | {"positive": facts["positive"]}, driver="reference")

    def save(path: Path) -> None:
        begin_run_directory(prepared, path, head=_HEAD)
        end_run_directory(prepared, path, tasks, centrals, driver="reference")

    return Run(
        summary,
        model_arrays(tasks, algorithm=about["algorithm"], **facts),
        config=prepared.config,
        read=lambda: [task.rows for task in tasks],
        write=save,
        notes=(*([_ALONE] if is_alone else []), *prepared.dataset.notes),
    )


def run(
    config: Config,
    *,
    driver: str = "processes",
    out: str | Path | None = None,
    overrides: Overrides = (),
    progress: Wanted = None,
) -> Run:
    """Run the cluster of a configuration on this machine, as `drom-net run` does.

    Args:
        config: A YAML file, or a mapping with what it would say.
        driver: "processes" (a process for each site), "reference" (the plain loop) or "simulation".
        out: The run directory; by default a new one in runs/.
        overrides: What replaces values of the configuration: {"algorithm.eta0": 5}, or ["algorithm.eta0=5"].
        progress: As for `fit`.

    Returns:
        The run, as `load` reads it. One that was interrupted has the status "interrupted".

    Raises:
        InputError: Everything that is wrong with the configuration and its data.
        NodeFailedError: A process ended with an error.
        UsageError: It cannot be run here: the directory exists, it listens beyond this machine without keys ..

    >>> import tempfile
    >>> data = {"dataset": "synthetic", "tasks": 3, "examples": 40, "dim": 5}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = run({"data": data}, driver="reference", out=f"{folder}/run")
    >>> done.summary["status"], done.sites
    ('finished', ('task-01', 'task-02', 'task-03'))
    """
    if driver not in DRIVERS:
        raise UsageError(f"driver=: expected one of {', '.join(DRIVERS)}, got {quoted(str(driver))}")
    require_progress(progress)
    with one_thread():
        prepared = _prepared(config, overrides)
        require_stored(prepared.config, "drom_net.run")
        _warn(advice(prepared.dataset, prepared.streams))
        if driver == "processes":
            _require_for_processes(prepared)
        folder = free_run_directory(prepared.config.name) if out is None else Path(out)
        with showing(progress) as shown:
            run_prepared(prepared, driver=driver, out=folder, progress=shown)
    return load(folder)


def load(run_dir: str | Path) -> Run:
    """The run of a directory that `drom-net run`, `merge` or `Run.save` has written.

    Raises:
        UsageError: It is none, or damaged.
    """
    folder = Path(run_dir)
    summary, model = load_summary(folder), load_model(folder)
    names = [task["name"] for task in summary["tasks"]]
    written = folder / "config.yaml"

    def read() -> list[Any]:
        require_records(folder, summary)
        return read_records(folder, names)[0]

    config = load_config(written) if written.exists() else None
    return Run(summary, model, config=config, read=read, path=folder)


def check(config: Config, *, overrides: Overrides = ()) -> dict[str, Any]:
    """Check a configuration and its data, start nothing: what `drom-net check --json` tells.

    Args:
        config: As for `run`.
        overrides: Likewise.

    Raises:
        InputError: Everything that is wrong with the configuration and its data.

    >>> plan = check({"data": {"dataset": "synthetic", "tasks": 3, "examples": 40}})
    >>> plan["algorithm"], plan["rounds"], plan["dim"]
    ('adadrom', 40, 60)
    """
    prepared = _prepared(config, overrides)
    costs = cost_of(prepared)
    return plan_facts(prepared) | asdict(costs) | {"bytes_as_a_rule": bytes_as_a_rule(prepared, costs)}


def _prepared(config: Config, overrides: Overrides) -> Prepared:
    texts = _override_texts(overrides)
    found: ClusterConfig
    if isinstance(config, Mapping):
        found = config_of(config, name="config", overrides=texts)
    else:
        found = load_config(Path(config), texts)
    return prepare(found, load_dataset(found.data, base=found.base))


def _override_texts(overrides: Overrides) -> tuple[str, ...]:
    """As --set has them.

    Raises:
        ConfigError: They are something else.
    """
    if isinstance(overrides, Mapping):
        return tuple(f"{key}={_json(f'overrides={key}', value)}" for key, value in overrides.items())
    is_list = isinstance(overrides, Sequence) and not isinstance(overrides, str)
    if not is_list or not all(isinstance(text, str) for text in overrides):
        expected = 'a mapping, or a list of texts: {"algorithm.tau": 5} or ["algorithm.tau=5"]'
        raise ConfigError([Problem("overrides=", expected, repr(overrides))])
    return tuple(overrides)


def _json(place: str, value: object) -> str:
    def plain(one: object) -> object:
        if isinstance(one, np.generic):
            return one.item()
        raise ConfigError([Problem(place, "a text, a number, a list or a mapping", f"a {type(one).__name__}")])

    return json.dumps(value, default=plain)


def _warn(lines: Iterable[str], *, stacklevel: int = 3) -> None:
    """Warnings at the caller of a public function: of one that calls this itself, at the default."""
    for line in lines:
        warnings.warn(line, UserWarning, stacklevel=stacklevel)


def _require_for_processes(prepared: Prepared) -> None:
    """What real processes need beside rows: addresses of this machine alone or keys, and room.

    Raises:
        ConfigError: A key is missing.
        UsageError: Something else is.
    """
    config, names = prepared.config, prepared.roster.tasks
    for endpoint in listening(config):
        require_closed(endpoint, config)
    require_keys(config, names)
    require_room(cost_of(prepared), this_machine(), len(names))
    raise_file_descriptors()
