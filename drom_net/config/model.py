"""One YAML file describes one cluster: read once, checked whole, and passed on as plain frozen values.

What a key accepts stands beside the code that it configures (`drom_net.core.fields`). This module puts the
sections together, checks what concerns several keys at once, and reports all problems together.
"""

from __future__ import annotations

import dataclasses
import glob
import hashlib
import ipaddress
import json
import math
import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from drom_net.algorithms import PARAMETERS, PRESETS
from drom_net.config.section import Section
from drom_net.config.yamlfile import Item, Mark, Problems, failure, quoted, read_option, read_yaml, write_yaml
from drom_net.core.errors import ConfigError, Problem, did_you_mean
from drom_net.core.fields import (
    REQUIRED,
    Choice,
    Endpoint,
    Endpoints,
    Flag,
    Integer,
    Setting,
    Text,
    option,
    settings_of,
)
from drom_net.data.file_settings import format_of
from drom_net.data.incoming import LINE_FORMATS
from drom_net.data.live_rows import with_names
from drom_net.data.public.places import DATA_FOLDER_VARIABLE
from drom_net.data.settings import (
    DATA_SECTIONS,
    NAME,
    FileData,
    LiveData,
    RowSettings,
    SourceSettings,
    StreamSettings,
)
from drom_net.graph.families import make_schedule
from drom_net.graph.graph import GraphSchedule
from drom_net.graph.settings import TopologySettings, check_settings
from drom_net.protocol.settings import DEFAULT_CHECKPOINTS, WAIT, Checkpoints, Policy, Timeouts


@dataclass(frozen=True, slots=True)
class AlgorithmChoice:
    """Which learner, with an instance of its entry in `PARAMETERS`."""

    name: str
    parameters: Any


@dataclass(frozen=True, slots=True)
class ReducerSettings:
    """Where the reducer and the workers meet."""

    endpoint: str | None = option(
        Endpoint(),
        None,
        doc="Where workers connect, tcp://host:port or ipc://path. "
        "Left out, `run` uses a private socket of this machine; nodes started by hand need it.",
    )
    bind: str | None = option(
        Endpoint(listens=True),
        None,
        doc="Where the reducer listens, if that is not the endpoint: tcp://0.0.0.0:5571 behind a name.",
    )

    @property
    def listens_at(self) -> str | None:
        """The address to bind."""
        return self.bind or self.endpoint


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """Where the peers of DROM-D meet."""

    endpoints: tuple[str, ...] | None = option(
        Endpoints(Endpoint(where_to_listen="where peers listen is peers.bind")),
        None,
        doc="Where each task's peer is reached, in task order, tcp://host:port or ipc://path. "
        "Left out, `run` uses private sockets of this machine; peers started by hand need it.",
    )
    bind: tuple[str, ...] | None = option(
        Endpoints(Endpoint(listens=True)),
        None,
        doc="Where each peer listens, in task order, if those are not the endpoints.",
    )

    @property
    def listens_at(self) -> tuple[str, ...] | None:
        """The addresses to bind."""
        return self.bind or self.endpoints


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """Who may join, and that nobody else reads what is said."""

    keys: str | None = option(
        Text("the name of a folder"),
        None,
        doc="The folder of key files, relative to this file; `drom-net keys create` makes them. With it every "
        "connection is encrypted, and only nodes with a listed key get in.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """A checked configuration."""

    name: str = option(NAME, None, doc="The name of the cluster and of its runs: by default that of the file.")
    algorithm: AlgorithmChoice
    topology: TopologySettings | None = None
    """The graph of peers, for the learners in `PEERS`; None for others."""
    data: StreamSettings
    """An instance of one of `DATA_SECTIONS`."""
    source: SourceSettings | None = None
    """Of live data; None for all other."""
    rounds: int | None = option(
        Integer(1), None, doc="At most so many rounds; by default until the longest stream ends."
    )
    seed: int = option(Integer(0), 0, doc="What every random draw of the run is made from.")
    allow_sharing_examples: bool = option(
        Flag(),
        False,
        doc="Whether nodes may run a learner that sends the examples themselves to other sites (osmtl, pooled).",
    )
    reducer: ReducerSettings
    """Without effect where there are peers."""
    peers: PeerSettings = PeerSettings()
    """Without effect where there is a reducer."""
    keep_records: bool = option(
        Flag(),
        True,
        doc="Whether processes keep a row for each round. Without them the disk does not fill up in a run of weeks, "
        "but the run has no records and no timeline, and can be neither verified nor replayed.",
    )
    restart: int = option(
        Integer(0),
        0,
        doc="How often `run` starts a process again that was killed; it goes on from its last snapshot.",
    )
    policy: Policy = WAIT
    checkpoint: Checkpoints = DEFAULT_CHECKPOINTS
    timeouts: Timeouts
    security: SecuritySettings = SecuritySettings()
    path: Path = field(compare=False)
    """The file it came from."""
    base: Path = field(compare=False)
    """The folder where relative names of data files start."""


def is_loopback(endpoint: str) -> bool:
    """Whether only processes of this machine can reach an endpoint. Names but localhost are not looked up."""
    if endpoint.startswith("ipc://"):
        return True
    host = endpoint.removeprefix("tcp://").rpartition(":")[0].strip("[]")
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


# What the sections may hold -----------------------------------------------------------------------


def algorithm_settings(name: str) -> dict[str, Setting]:
    """The keys of the `algorithm` section for one learner; `preset` replaces the defaults of the others."""
    doc = "A named set of parameters, in place of the defaults of the other keys."
    preset = Setting("preset", "preset", Choice(tuple(PRESETS[name])), "default", doc)
    return {"name": _ALGORITHM_NAME, "preset": preset} | settings_of(PARAMETERS[name])


def data_settings(dataset: str) -> dict[str, Setting]:
    """The keys of the `data` section for one kind of data."""
    return {"dataset": _DATASET} | settings_of(DATA_SECTIONS[dataset])


DEFAULT_ALGORITHM, DEFAULT_PEERS = "ldr", "ldr-d"
"""The learner of a file that names none: with a graph of peers, the other one."""
_ALGORITHM_NAME = Setting("name", "name", Choice(tuple(PARAMETERS)), DEFAULT_ALGORITHM, "The learner.")
_DATASET = Setting(
    "dataset",
    "dataset",
    Choice(tuple(DATA_SECTIONS)),
    REQUIRED,
    "The kind of data; it may be left out where `files` is given.",
)
SECTIONS = (
    *("algorithm", "topology", "data", "source", "reducer", "peers"),
    *("policy", "checkpoint", "timeouts", "security"),
)
TOP_LEVEL = (
    *("name", "algorithm", "topology", "data", "source", "rounds", "seed", "allow_sharing_examples"),
    *("keep_records", "restart", "reducer", "peers", "policy", "checkpoint", "timeouts", "security"),
)
"""All keys at the top, in the order in which they are written."""
PEERS = ("drom-d", "ldr-d")
"""The learners without a reducer, whose nodes are each other's peers."""
_OF_PEERS, _OF_STAR = ("topology", "peers"), ("reducer",)


def foreign_sections(algorithm: str) -> tuple[str, ...]:
    """The sections that a learner must not have."""
    return _OF_STAR if algorithm in PEERS else _OF_PEERS


def _homes() -> Iterator[tuple[str, str, Collection[str]]]:
    """Every section, its kind, and the keys it may hold."""
    yield "", "", settings_of(ClusterConfig)
    for name in PARAMETERS:
        yield "algorithm", name, algorithm_settings(name)
    for dataset in DATA_SECTIONS:
        yield "data", dataset, data_settings(dataset)
    yield "source", "", settings_of(SourceSettings)
    yield "topology", "", settings_of(TopologySettings)
    yield "reducer", "", settings_of(ReducerSettings)
    yield "peers", "", settings_of(PeerSettings)
    yield "policy", "", settings_of(Policy)
    yield "checkpoint", "", settings_of(Checkpoints)
    yield "timeouts", "", settings_of(Timeouts)
    yield "security", "", settings_of(SecuritySettings)


# Loading ------------------------------------------------------------------------------------------


def load_config(path: Path, overrides: Sequence[str] = ()) -> ClusterConfig:
    """Read and check a configuration. Raises ConfigError with every problem that was found.

    Args:
        path: The YAML file.
        overrides: ``key=value`` each, such as ``algorithm.eta0=5``; they replace what the file says.
    """
    problems = Problems(path)
    root = read_yaml(path, problems)
    if not isinstance(root.value, dict):
        expected = "a mapping with the keys " + ", ".join(TOP_LEVEL)
        raise failure(root.mark, expected=expected, got=str(root))
    _override(root.value, overrides, problems)
    _choose_algorithm(root)

    top = _section(problems, "", root, settings_of(ClusterConfig), also=TOP_LEVEL)
    if top.values.get("name", "") is None:
        # Any file name will do: what a folder should not be called is replaced.
        top.values["name"] = re.sub("[^A-Za-z0-9._-]+", "-", path.stem).strip("-._")[:64] or "cluster"
    name, algorithm = _read_algorithm(problems, root.value.get("algorithm"))
    dataset, data = _read_data(problems, root.value.get("data"))
    source = _read_source(problems, root.value.get("source"), dataset, data)
    reducer = _section(problems, "reducer", root.value.get("reducer"), settings_of(ReducerSettings))
    _check_bind(reducer, "endpoint", "for the workers", "only where the reducer listens")
    peers = _section(problems, "peers", root.value.get("peers"), settings_of(PeerSettings))
    _check_bind(peers, "endpoints", "for the neighbors", "only where peers listen")
    _check_number_of_peers(peers)
    topology = _read_topology(problems, root.value.get("topology"))
    _check_sections(problems, root.value, name)
    policy = _section(problems, "policy", root.value.get("policy"), settings_of(Policy))
    checkpoint = _section(problems, "checkpoint", root.value.get("checkpoint"), settings_of(Checkpoints))
    timeouts = _section(problems, "timeouts", root.value.get("timeouts"), settings_of(Timeouts))
    _check_timeouts(timeouts)
    security = _section(problems, "security", root.value.get("security"), settings_of(SecuritySettings))
    problems.raise_any()

    settings = DATA_SECTIONS[dataset](**data.values)
    base = path.absolute().parent
    keys = None if security["keys"] is None else str(base / security["keys"])
    if topology is not None and topology.file is not None:
        topology = dataclasses.replace(topology, file=str(base / topology.file))
    if isinstance(settings, FileData):
        base = _folder_of_files(base / (settings.directory or ""), settings.files).absolute()
        # Written out, so that the configuration as run finds its data from anywhere.
        settings = dataclasses.replace(settings, directory=str(base))
    if isinstance(settings, LiveData):
        settings = with_names(settings, base)
    if source is not None and source.file is not None:
        source = dataclasses.replace(source, file=str(base / source.file))
    return ClusterConfig(
        algorithm=AlgorithmChoice(name, PARAMETERS[name](**algorithm.values)),
        topology=topology,
        data=settings,
        source=source,
        reducer=ReducerSettings(**reducer.values),
        peers=PeerSettings(**peers.values),
        policy=Policy(**policy.values),
        checkpoint=Checkpoints(**checkpoint.values),
        timeouts=Timeouts(**timeouts.values),
        security=SecuritySettings(keys=keys),
        path=path,
        base=base,
        **top.values,
    )


def _folder_of_files(own: Path, files: str) -> Path:
    """Where relative data files are: in the folder of the topology file, or, where none of them is there, in the one
    that DROM_NET_DATA names."""
    named = os.environ.get(DATA_FOLDER_VARIABLE)
    if not named or glob.glob(glob.escape(str(own / files)).replace("{task}", "*")):
        return own
    return Path(named)


def _override(root: dict[str, Item], overrides: Sequence[str], problems: Problems) -> None:
    """Put the values of ``--set`` in the place of the file's, as if they stood there."""
    former_name = _kind(root.get("algorithm"), "name")
    for index, override in enumerate(overrides):
        dotted, equals, text = override.partition("=")
        keys = [key.strip() for key in dotted.split(".")]
        path = ".".join(keys)
        mark = Mark(True, index, 0, str(problems.file))
        if not equals or not all(keys):
            problems.add(mark, "", expected="key=value, such as algorithm.eta0=5", got=quoted(override))
            continue
        section = root
        for key in keys[:-1]:
            inner = section.get(key)
            if inner is None or inner.value is None:
                inner = section[key] = Item({}, mark)
            if not isinstance(inner.value, dict):
                problems.add(mark, path, expected=f"a section where {key} is", got=str(inner))
                break
            section = inner.value
        else:
            try:
                section[keys[-1]] = read_option(path, text, index, problems)
            except ConfigError as error:
                problems.absorb(mark, error)
    _forget_former_algorithm(root, former_name)
    _let_preset_win(root)


def _let_preset_win(root: dict[str, Item]) -> None:
    """A preset named by ``--set`` is meant whole: it replaces the file's parameters, though not other ``--set``."""
    section = root["algorithm"].value if "algorithm" in root else None
    if not isinstance(section, dict) or "preset" not in section or not section["preset"].mark.option:
        return
    for key in list(section):
        if key != "name" and not section[key].mark.option:
            del section[key]


def _forget_former_algorithm(root: dict[str, Item], former_name: str) -> None:
    """Drop the file's parameters and sections that only the learner knows which ``--set algorithm.name`` replaced."""
    name = _kind(root.get("algorithm"), "name")
    if name not in PARAMETERS or former_name not in PARAMETERS:
        return
    section = root["algorithm"].value
    assert isinstance(section, dict)
    for key in algorithm_settings(former_name).keys() - algorithm_settings(name).keys():
        if key in section and not section[key].mark.option:
            del section[key]
    for key in set(foreign_sections(name)) - set(foreign_sections(former_name)):
        _forget_section(root, key)


def _forget_section(root: dict[str, Item], name: str) -> None:
    """Drop a section of the file; what ``--set`` has put into it stays, under the mark of the option."""
    section = root.get(name)
    if section is None or section.mark.option:
        return
    options = {}
    if isinstance(section.value, dict):
        options = {key: item for key, item in section.value.items() if item.mark.option}
    if options:
        root[name] = Item(options, min(item.mark for item in options.values()))
    else:
        del root[name]


def _choose_algorithm(root: Item) -> None:
    """Name the learner of a file that names none."""
    sections = root.value
    assert isinstance(sections, dict)
    section = sections.get("algorithm")
    if section is None or section.value is None:
        section = sections["algorithm"] = Item({}, root.mark)
    if isinstance(section.value, dict):
        topology = sections.get("topology")
        peers = topology is not None and topology.value is not None
        section.value.setdefault("name", Item(DEFAULT_PEERS if peers else DEFAULT_ALGORITHM, section.mark))


def _read_algorithm(problems: Problems, item: Item | None) -> tuple[str, Section]:
    name = _kind(item, "name")
    if name not in PARAMETERS:
        also = [key for name in PARAMETERS for key in algorithm_settings(name)]
        return "", _section(problems, "algorithm", item, {"name": _ALGORITHM_NAME}, also=also)
    preset = PRESETS[name].get(_kind(item, "preset") or "default", {})
    section = _section(problems, "algorithm", item, algorithm_settings(name), kind=name, preset=preset)
    section.values.pop("name")
    section.values.pop("preset", None)
    for check in CHECKS.get(name, ()):
        check(section)
    return name, section


def _read_data(problems: Problems, item: Item | None) -> tuple[str, Section]:
    names_files = item is not None and isinstance(item.value, dict) and "files" in item.value
    dataset = _kind(item, "dataset") or ("files" if names_files else "")
    if dataset not in DATA_SECTIONS:
        also = [key for dataset in DATA_SECTIONS for key in data_settings(dataset)]
        return "", _section(problems, "data", item, {"dataset": _DATASET}, also=also)
    preset: dict[str, object] = {"dataset": dataset}
    section = _section(problems, "data", item, data_settings(dataset), kind=dataset, preset=preset)
    section.values.pop("dataset", None)
    for check in CHECKS.get(dataset, ()):
        check(section)
    return dataset, section


def _read_topology(problems: Problems, item: Item | None) -> TopologySettings | None:
    """The graph of peers; None where there is no such section, or an error has been noted."""
    if item is None or item.value is None:
        return None
    known = settings_of(TopologySettings)
    section = _section(problems, "topology", item, known)
    if section.values.keys() != {setting.field for setting in known.values()}:
        return None
    settings = TopologySettings(**section.values)
    for problem in check_settings(settings):
        key = problem.place.removeprefix("topology.")
        section.complain(key, expected=problem.expected, got=problem.got, hint=problem.hint)
    return settings


def _read_source(problems: Problems, item: Item | None, dataset: str, data: Section) -> SourceSettings | None:
    """Where live examples come from; None for other data, or where an error has been noted."""
    if dataset and dataset != LiveData.dataset:
        if item is not None and item.value is not None:
            problems.add(item.mark, "source", expected=f"no such section with dataset {dataset}", got=str(item))
        return None
    known = settings_of(SourceSettings)
    section = _section(problems, "source", item, known)
    if not dataset or section.values.keys() != {setting.field for setting in known.values()}:
        return None
    settings = SourceSettings(**section.values)
    kinds = [kind for kind in ("bind", "file", "stdin") if section[kind]]
    if len(kinds) != 1:
        expected = "one of source.bind, source.file and source.stdin"
        section.complain(kinds[-1] if kinds else "bind", expected=expected, got=" and ".join(kinds) or "none")
        return None
    tasks = data.values.get("tasks") or ()
    for key in ("bind", "file"):
        if isinstance(section[key], str) and (odd := _odd_braces(section[key])):
            hint = did_you_mean(odd[:80], ["{task}"])
            section.complain(key, expected="no braces but {task}", hint=hint)
    if isinstance(settings.bind, tuple) and tasks and len(settings.bind) != len(tasks):
        expected = f"{len(tasks)} endpoints, as there are so many tasks"
        section.complain("bind", expected=expected, got=str(len(settings.bind)))
    if settings.file is not None and len(tasks) > 1 and "{task}" not in settings.file:
        section.complain("file", expected=f"a name with {{task}}, for {len(tasks)} tasks")
    if settings.file is not None and settings.format is None and PurePath(settings.file).suffix not in LINE_FORMATS:
        expected = f"a name that ends in {', '.join(LINE_FORMATS)}, or source.format"
        section.complain("file", expected=expected)
    if settings.bind is not None and settings.format is not None:
        section.complain("format", expected="none beside source.bind")
    return settings


def _odd_braces(pattern: str) -> str:
    """The first braces in a pattern that are not {task}; empty for none."""
    return next((word for word in re.findall(r"\{.*?\}", pattern) if word != "{task}"), "")


def _kind(item: Item | None, key: str) -> str:
    """What a section says it is; empty where it does not say it in a text."""
    kind = item.value.get(key) if item and isinstance(item.value, dict) else None
    return kind.value if kind and isinstance(kind.value, str) else ""


def where_it_belongs(key: str, here: str) -> str:
    """A hint where another section, or another kind of this one, has a key that was found `here`."""
    homes = [(section, kind) for section, kind, keys in _homes() if key in keys]
    if kinds := [kind for section, kind in homes if section == here]:
        *others, last = kinds
        listed = f"{', '.join(others)} and {last}" if others else last
        return f"it belongs to {'dataset' if here == 'data' else here} {listed}"
    if key in SECTIONS or ("", "") in homes:
        return "it belongs at the top"
    sections = dict.fromkeys(section for section, _ in homes)
    return f"it belongs under {' or '.join(sections)}" if sections else ""


_section = partial(Section, elsewhere=where_it_belongs)
"""Reads one section of the file."""


# What concerns several keys -----------------------------------------------------------------------


def _check_drom(section: Section) -> None:
    if section.given("eta0", "lam") and section["eta0"] * section["lam"] > 2.0:
        # Of the two, the one that is read last.
        key = max(section.items.keys() & {"eta0", "lambda"}, key=lambda key: section.items[key].mark)
        eta0, lam = section["eta0"], section["lam"]
        section.complain(key, expected="eta0 * lambda of at most 2", got=f"{eta0:g} * {lam:g} = {eta0 * lam:g}")


def _check_file_names(section: Section) -> None:
    if not section.given("files"):
        return
    files = section["files"]
    if odd := _odd_braces(files):
        section.complain("files", expected="no braces but {task}", hint=did_you_mean(odd[:80], ["{task}"]))
    elif "{task}" in files and section.given("task_column"):
        section.complain("task_column", expected="either {task} in data.files or a task column", got="both")
    elif "{task}" not in files and section.given("tasks") and "task_column" in section.values:
        num_tasks = len(section["tasks"])
        if num_tasks > 1 and section["task_column"] is None:
            expected = f"a pattern with {{task}}, or data.task_column, for {num_tasks} tasks"
            section.complain("files", expected=expected)
    elif "{task}" in files:
        for index, name in enumerate(section.values.get("tasks") or ()):
            if "/" in name or name in (".", ".."):
                expected, hint = "a name that can be in that of a file", "data.task_column takes any"
                section.complain("tasks", expected=expected, index=index, hint=hint)


def _folds(section: Section) -> bool:
    """Whether data.hash is for feature numbers, not for words and levels."""
    if section.values.get("columns") is not None or section.values.get("features") is not None:
        return False
    files = section.values.get("files")
    return files is None or "svmlight" in (section.values.get("format"), format_of(files))


def _check_columns(section: Section) -> None:
    """What is said in two ways must be said once, or agree."""
    features = section.values.get("features")
    if section.given("hash") and _folds(section) and section["hash"].bit_count() != 1:
        section.complain("hash", expected="a power of two")
    if section.given("hash", "dim"):
        section.complain("dim", expected="either data.hash or data.dim", got="both")
    if not isinstance(features, tuple):
        features = None
    for key in ("label", "task_column"):
        if features and section.values.get(key) in features:
            index = features.index(section[key])
            section.complain("features", expected=f"no feature that is data.{key}", index=index)
    if features and section.given("dim") and section["dim"] != len(features):
        expected = f"{len(features)}, as data.features lists so many"
        section.complain("dim", expected=expected)
    if section.given("columns") and section.values.get("features") is not None:
        section.complain("features", expected="either data.columns or data.features", got="both")
    for column in section.values.get("columns") or ():
        if column.name == section.values.get("label"):
            section.complain("columns", expected="no feature that is data.label", got=quoted(column.name))
    lengths = {key: len(section[key]) for key in ("center", "scale") if section.given(key)}
    wanted = next(iter(lengths.items()), ("", 0))
    for key, length in lengths.items():
        if length != wanted[1]:
            expected = f"{wanted[1]} numbers, as data.{wanted[0]} has"
            section.complain(key, expected=expected, got=str(length))
    if section.given("scale") and 0.0 in section["scale"]:
        index = section["scale"].index(0.0)
        section.complain("scale", expected="a number other than 0", index=index)


def _check_bind(section: Section, key: str, whom: str, got: str) -> None:
    if section.given("bind") and section.values.get(key, "") is None:
        section.complain("bind", expected=f"{section.path}.{key} as well, {whom}", got=got)


def _check_number_of_peers(section: Section) -> None:
    if section.given("endpoints", "bind") and len(section["endpoints"]) != len(section["bind"]):
        expected = f"{len(section['endpoints'])} endpoints, as peers.endpoints has"
        section.complain("bind", expected=expected, got=str(len(section["bind"])))


def _check_sections(problems: Problems, root: dict[str, Item], algorithm: str) -> None:
    """Peers have a graph and no reducer; others a reducer and no graph."""
    if not algorithm:
        return
    present = {key: item for key in SECTIONS if (item := root.get(key)) is not None and item.value is not None}
    if algorithm in PEERS and "topology" not in present:
        section = root["algorithm"].value
        assert isinstance(section, dict)
        expected = f"a section topology beside {algorithm}, for the graph of its peers"
        hint = "such as topology: {graph: ring}"
        problems.add(section["name"].mark, "algorithm.name", expected=expected, got="none", hint=hint)
    why = {
        "topology": f"{algorithm} has a reducer, and no graph of peers; algorithm.name: drom-d or ldr-d has one",
        "peers": f"{algorithm} has a reducer, and its workers are no peers; where they meet is reducer.endpoint",
        "reducer": f"the peers of {algorithm} have no reducer; where they meet is peers.endpoints",
    }
    for key in foreign_sections(algorithm):
        if key in present:
            expected = f"no such section with algorithm {algorithm}"
            problems.add(present[key].mark, key, expected=expected, got=str(present[key]), hint=why[key])


def _check_timeouts(section: Section) -> None:
    if section.given("resend_after_s", "resend_cap_s") and section["resend_cap_s"] < section["resend_after_s"]:
        key = "resend_cap_s" if "resend_cap_s" in section.items else "resend_after_s"
        after, cap = section["resend_after_s"], section["resend_cap_s"]
        section.complain(key, expected="resend_cap_s of at least resend_after_s", got=f"{cap:g} and {after:g}")


def _check_live(section: Section) -> None:
    keys = ("columns", "features", "dim", "hash")
    if all(section.values.get(key, "") is None for key in keys):
        expected = "data.columns, data.features, data.dim or data.hash: nothing is there yet that would tell it"
        section.complain("dim", expected=expected, got="none of them")
    if section.given("positive") and not section.given("negative") and not section.given("rest"):
        hint = "nothing is there yet that would tell it"
        section.complain("negative", expected="the label that is -1, or rest: negative", got="none", hint=hint)
    if section.values.get("scaling") == "site":
        section.complain("scaling", expected="running or none, for nobody knows the rows that are still to come")
    if section.given("hash", "center") and section.values.get("columns") is None:
        section.complain("center", expected="either data.hash or data.center: folded rows are sparse", got="both")
    if section.values.get("tasks") == ():
        section.complain("tasks", expected="at least one name", got="none")


CHECKS: dict[str, tuple[Callable[[Section], None], ...]] = {
    "drom": (_check_drom,),
    "drom-d": (_check_drom,),
    "files": (_check_file_names, _check_columns),
    "live": (_check_live, _check_columns),
}
"""The checks across the keys of a section, by its kind."""


# Writing ------------------------------------------------------------------------------------------


def to_mapping(config: ClusterConfig) -> dict[str, Any]:
    """The configuration with every value written out, as JSON knows them (infinity is ".inf"); loads again."""
    mapping: dict[str, Any] = _finite(_explicit(config))
    return mapping


_AS_RUN = "The configuration as it was run, with every default written out. It can be run again."


def to_yaml(config: ClusterConfig, *, head: str = _AS_RUN, without: Collection[str] = ()) -> str:
    """The configuration with every value written out, as YAML that loads again to an equal one.

    Args:
        head: A comment for its first line.
        without: Sections to leave out, for somebody who adds them later.
    """
    written = {key: value for key, value in _explicit(config).items() if key not in without}
    return f"# {head}\n{write_yaml(written)}"


def graph_schedule(config: ClusterConfig, tasks: Sequence[str]) -> GraphSchedule | None:
    """The graph of each sync round; None where there is a reducer.

    Args:
        tasks: The names of all tasks, in order.

    Raises:
        ConfigError: There is no such graph over so many tasks.
        DataError: The matrix file is wrong.
        UsageError: networkx is missing.
    """
    if config.topology is None:
        return None
    return make_schedule(config.topology, len(tasks), tasks, base=config.path.absolute().parent)


def peer_endpoints(config: ClusterConfig, names: Sequence[str]) -> tuple[str, ...] | None:
    """Where each task's peer is reached, in task order; None where the configuration leaves that to `run`.

    Where they listen is then ``config.peers.listens_at``, of the same length.

    Raises:
        ConfigError: There are not as many as tasks.
    """
    endpoints = config.peers.endpoints
    if endpoints is not None and len(endpoints) != len(names):
        expected = f"{len(names)} endpoints, one for each task"
        raise ConfigError([Problem(f"{config.path}: peers.endpoints", expected, str(len(endpoints)))])
    return endpoints


def config_digest(config: ClusterConfig, tasks: Sequence[str]) -> str:
    """SHA-256 of what defines the result, in hexadecimal: nodes of one cluster must agree on it.

    Of the topology it covers the graphs that come out of it, so that a graph may be drawn here and listed there.

    Args:
        config: The configuration. Its name, endpoints, folders, pace, measure and timeouts may differ by host.
        tasks: The names of all tasks, in order, also where the configuration leaves them to be found.

    Raises:
        InputError, UsageError: There is no such graph; see `graph_schedule`.
    """
    written = to_mapping(config)
    data = {key: value for key, value in written["data"].items() if key not in ("directory", "pace_s", "measure")}
    if isinstance(config.data, FileData):
        data["files"] = PurePath(config.data.files).name
    if isinstance(config.data, RowSettings):
        del data["tasks"]
        if isinstance(config.data.features, str):
            data["features"] = PurePath(config.data.features).name
    content = {"algorithm": written["algorithm"], "data": data, "tasks": list(tasks)}
    content |= {"rounds": config.rounds, "seed": config.seed, "policy": written["policy"]}
    if schedule := graph_schedule(config, tasks):
        content["topology"] = schedule.digest
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _explicit(config: ClusterConfig) -> dict[str, object]:
    head = {"name": config.algorithm.name}
    kind = {"dataset": config.data.dataset}
    written = {
        "name": config.name,
        "algorithm": head | _values(config.algorithm.parameters),
        # Keys without a value are not for this graph.
        "topology": {key: value for key, value in _values(config.topology).items() if value is not None},
        "data": kind | _values(config.data),
        "source": _values(config.source),
        "rounds": config.rounds,
        "seed": config.seed,
        "allow_sharing_examples": config.allow_sharing_examples,
        "keep_records": config.keep_records,
        "restart": config.restart,
        "reducer": _values(config.reducer),
        "peers": _values(config.peers),
        "policy": _values(config.policy),
        "checkpoint": _values(config.checkpoint),
        "timeouts": _values(config.timeouts),
        "security": _values(config.security),
    }
    foreign = [*foreign_sections(config.algorithm.name), *(["source"] if config.source is None else [])]
    return {key: value for key, value in written.items() if key not in foreign}


def _values(section: Any) -> dict[str, Any]:
    """The settings of a section by their keys; of None there are none."""
    if section is None:
        return {}
    values = {key: (setting, getattr(section, setting.field)) for key, setting in settings_of(type(section)).items()}
    return {key: None if value is None else setting.spec.plain(value) for key, (setting, value) in values.items()}


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    return ".inf" if value == math.inf else value
