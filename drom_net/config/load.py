"""From a YAML file and --set to a configuration that is right, or one error that names the place."""

from __future__ import annotations

import dataclasses
import glob
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from drom_net.algorithms import BUILTIN, learner_named
from drom_net.algorithms.learner import Disagreement
from drom_net.config.checks import (
    CHECKS,
    check_bind,
    check_format,
    check_number_of_peers,
    check_sections,
    check_timeouts,
    complain_of_name,
    odd_braces,
)
from drom_net.config.model import (
    ALGORITHM_NAME,
    DATASET,
    DEFAULT_ALGORITHM,
    SECTIONS,
    TOP_LEVEL,
    AlgorithmChoice,
    ClusterConfig,
    PeerSettings,
    ReducerSettings,
    SecuritySettings,
    algorithm_settings,
    data_settings,
)
from drom_net.config.overrides import apply_overrides, kind_of
from drom_net.config.section import Section
from drom_net.config.yamlfile import Item, Mark, Problems, failure, item_of, quoted, read_yaml
from drom_net.core.errors import ConfigError, Problem, did_you_mean
from drom_net.core.fields import (
    settings_of,
)
from drom_net.data.formats import TableFormat, format_of, line_format, line_format_of, line_formats
from drom_net.data.live_rows import with_names
from drom_net.data.public.places import DATA_FOLDER_VARIABLE
from drom_net.data.settings import (
    DATA_SECTIONS,
    FileData,
    LiveData,
    SourceSettings,
    StreamSettings,
)
from drom_net.graph.settings import TopologySettings, check_settings
from drom_net.protocol.settings import WAIT, Checkpoints, Policy, Timeouts, policy_named

T = TypeVar("T")


def _homes() -> Iterator[tuple[str, str, Collection[str]]]:
    """Every section, its kind, and the keys it may hold."""
    yield "", "", settings_of(ClusterConfig)
    for name in BUILTIN:
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


def load_config(path: Path, overrides: Sequence[str] = ()) -> ClusterConfig:
    """Read and check a configuration. Raises ConfigError with every problem that was found.

    Args:
        path: The YAML file.
        overrides: ``key=value`` each, such as ``algorithm.eta0=5``; they replace what the file says.
    """
    problems = Problems(path)
    if isinstance(format_of(path.name, installed=False), TableFormat) and path.is_file() and path.suffix != ".txt":
        hint = f"`drom-net init {path}` writes one that learns from it"
        raise ConfigError([Problem(str(path), "a cluster's YAML file", "a table", hint)])
    return _checked(read_yaml(path, problems), path, overrides, problems)


def config_of(mapping: Mapping[str, object], *, name: str, overrides: Sequence[str] = ()) -> ClusterConfig:
    """The same of a mapping with what a file would say.

    Args:
        name: What messages call it, and where its run has no name of its own. Relative names of files start at the
            current folder.
    """
    path = Path(name)
    return _checked(item_of(dict(mapping), Mark(False, 0, 0, name)), path, overrides, Problems(path))


def _checked(root: Item, path: Path, overrides: Sequence[str], problems: Problems) -> ClusterConfig:
    if not isinstance(root.value, dict):
        expected = "a mapping with the keys " + ", ".join(TOP_LEVEL)
        raise failure(root.mark, expected=expected, got=str(root))
    apply_overrides(root.value, overrides, problems)
    _choose_algorithm(root)

    top = _section(problems, "", root, settings_of(ClusterConfig), also=TOP_LEVEL)
    if top.values.get("name", "") is None:
        # Any file name will do: what a folder should not be called is replaced.
        top.values["name"] = re.sub("[^A-Za-z0-9._-]+", "-", path.stem).strip("-._")[:64] or "cluster"
    name, algorithm = _read_algorithm(problems, root.value.get("algorithm"))
    dataset, data = _read_data(problems, root.value.get("data"))
    source = _read_source(problems, root.value.get("source"), dataset, data)
    reducer = _section(problems, "reducer", root.value.get("reducer"), settings_of(ReducerSettings))
    check_bind(reducer, "endpoint", "for the workers", "only where the reducer listens")
    peers = _section(problems, "peers", root.value.get("peers"), settings_of(PeerSettings))
    check_bind(peers, "endpoints", "for the neighbors", "only where peers listen")
    check_number_of_peers(peers)
    topology = _read_topology(problems, root.value.get("topology"))
    check_sections(problems, root.value, name)
    policy = _read_policy(problems, root.value.get("policy"))
    checkpoint = _section(problems, "checkpoint", root.value.get("checkpoint"), settings_of(Checkpoints))
    timeouts = _section(problems, "timeouts", root.value.get("timeouts"), settings_of(Timeouts))
    check_timeouts(timeouts)
    security = _section(problems, "security", root.value.get("security"), settings_of(SecuritySettings))
    problems.raise_any()

    settings = DATA_SECTIONS[dataset](**data.values)
    base = path.absolute().parent
    keys = None if security["keys"] is None else str(base / security["keys"])
    if topology is not None and topology.file is not None:
        topology = dataclasses.replace(topology, file=str(base / topology.file))
    settings, base = _with_places(settings, base)
    if source is not None and source.file is not None:
        source = dataclasses.replace(source, file=str(base / source.file))
    return ClusterConfig(
        algorithm=AlgorithmChoice(name, learner_named(name).parameters(**algorithm.values)),
        topology=topology,
        data=settings,
        source=source,
        reducer=ReducerSettings(**reducer.values),
        peers=PeerSettings(**peers.values),
        policy=policy,
        checkpoint=Checkpoints(**checkpoint.values),
        timeouts=Timeouts(**timeouts.values),
        security=SecuritySettings(keys=keys),
        path=path,
        base=base,
        **top.values,
    )


def _with_places(settings: StreamSettings, base: Path) -> tuple[StreamSettings, Path]:
    """Data settings that say where their files are, and the folder that relative names are of."""
    if isinstance(settings, FileData):
        base = _folder_of_files(base / (settings.directory or ""), settings.files).absolute()
        # Written out, so that the configuration as run finds its data from anywhere.
        return dataclasses.replace(settings, directory=str(base)), base
    if isinstance(settings, LiveData):
        return with_names(settings, base), base
    return settings, base


def _folder_of_files(own: Path, files: str) -> Path:
    """Where relative data files are: in the folder of the YAML file, or, where none of them is there, in the one
    that DROM_NET_DATA names."""
    named = os.environ.get(DATA_FOLDER_VARIABLE)
    if not named or glob.glob(glob.escape(str(own / files)).replace("{task}", "*")):
        return own
    return Path(named)


def _choose_algorithm(root: Item) -> None:
    """Name the learner of a file that names none."""
    sections = root.value
    assert isinstance(sections, dict)
    section = sections.get("algorithm")
    if section is None or section.value is None:
        section = sections["algorithm"] = Item({}, root.mark)
    if isinstance(section.value, dict):
        section.value.setdefault("name", Item(DEFAULT_ALGORITHM, section.mark))


def _read_algorithm(problems: Problems, item: Item | None) -> tuple[str, Section]:
    name = kind_of(item, "name")
    try:
        learner = learner_named(name)
    except ConfigError as error:
        also = [key for name in BUILTIN for key in algorithm_settings(name)]
        section = _section(problems, "algorithm", item, {"name": ALGORITHM_NAME}, also=[*also, *_keys_of(item, name)])
        if name:
            complain_of_name(section, "name", error)
        return "", section
    preset = learner.preset(kind_of(item, "preset"))
    section = _section(problems, "algorithm", item, algorithm_settings(name), kind=name, preset=preset)
    section.values.pop("name")
    section.values.pop("preset", None)
    known = settings_of(learner.parameters).values()

    def disagreement() -> Disagreement | None:
        found = learner.check({key: value for key, value in section.values.items() if value is not None})
        if found is None and section.values.keys() == {setting.field for setting in known}:
            learner.parameters(**section.values)
        return found

    if wrong := _asked(section, "learner", disagreement):
        keys = [setting.key for setting in known if setting.field in wrong.fields]
        given = [key for key in keys if key in section.items]
        # Of those in the file, the one that is read last.
        key = max(given, key=lambda key: section.items[key].mark) if given else keys[0]
        section.complain(key, expected=wrong.expected, got=wrong.got)
    return name, section


def _asked(section: Section, kind: str, ask: Callable[[], T]) -> T | None:
    """What code says that may be of another package; None where it raised, which is complained of."""
    try:
        return ask()
    except Exception as error:  # whatever it does with settings that are right by themselves
        what = " ".join(f"{type(error).__name__}: {error}".split())
        got = f"{quoted(str(section.items['name'].value))} ({what})"
        section.complain("name", expected=f"a {kind} that takes these settings", got=got)
        return None


def _keys_of(item: Item | None, name: str) -> Collection[str]:
    """What is not complained of as well, for nobody knows the keys of what is not there."""
    return item.value if ":" in name and item is not None and isinstance(item.value, dict) else ()


def _read_policy(problems: Problems, item: Item | None) -> Policy:
    """The policy, of this package or of another; one by default where an error has been noted."""
    name = kind_of(item, "name")
    try:
        policy = policy_named(name or None)
    except ConfigError as error:
        section = _section(problems, "policy", item, settings_of(Policy), also=_keys_of(item, name))
        complain_of_name(section, "name", error)
        return WAIT
    known = settings_of(policy)
    section = _section(problems, "policy", item, known)
    if section.values.keys() != {setting.field for setting in known.values()}:
        return WAIT
    chosen = _asked(section, "policy", lambda: policy(**section.values))
    if chosen is None:
        return WAIT
    if policy.closes is not Policy.closes and _asked(section, "policy", lambda: bool(chosen.may_miss)) is False:
        expected = "a policy whose may_miss is true, for its own `closes` may leave somebody out"
        section.complain("name", expected=expected, got=f"{quoted(name)}, whose may_miss is false")
    return chosen


def _read_data(problems: Problems, item: Item | None) -> tuple[str, Section]:
    names_files = item is not None and isinstance(item.value, dict) and "files" in item.value
    dataset = kind_of(item, "dataset") or ("files" if names_files else "")
    if dataset not in DATA_SECTIONS:
        also = [key for dataset in DATA_SECTIONS for key in data_settings(dataset)]
        return "", _section(problems, "data", item, {"dataset": DATASET}, also=also)
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
        if isinstance(section[key], str) and (odd := odd_braces(section[key])):
            hint = did_you_mean(odd[:80], ["{task}"])
            section.complain(key, expected="no braces but {task}", hint=hint)
    if isinstance(settings.bind, tuple) and tasks and len(settings.bind) != len(tasks):
        expected = f"{len(tasks)} endpoints, as there are so many tasks"
        section.complain("bind", expected=expected, got=str(len(settings.bind)))
    if settings.file is not None and len(tasks) > 1 and "{task}" not in settings.file:
        section.complain("file", expected=f"a name with {{task}}, for {len(tasks)} tasks")
    if settings.file is not None and settings.format is None and line_format_of(settings.file) is None:
        suffixes = ", ".join(suffix for format in line_formats().values() for suffix in format.line_suffixes)
        expected = f"a name that ends in {suffixes}, or source.format"
        section.complain("file", expected=expected)
    check_format(section, line_format)
    if settings.bind is not None and settings.format is not None:
        section.complain("format", expected="none beside source.bind")
    return settings


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
