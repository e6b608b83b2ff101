"""What several settings must agree on."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from functools import partial

from drom_net.algorithms import BUILTIN, learner_named
from drom_net.config.model import (
    SECTIONS,
    foreign_sections,
)
from drom_net.config.section import Section
from drom_net.config.yamlfile import Item, Problems, quoted
from drom_net.core.errors import ConfigError, did_you_mean
from drom_net.data.formats import Format, NumberFormat, file_format, format_of
from drom_net.data.labels import clashes


def _check_file_names(section: Section) -> None:
    if not section.given("files"):
        return
    files = section["files"]
    if odd := odd_braces(files):
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
    if files is None:
        return True
    formats = [format_of(files)]
    if section.given("format"):
        with contextlib.suppress(ConfigError):  # complained of by itself
            formats.append(file_format(section["format"]))
    return any(isinstance(format, NumberFormat) and format.numbers_features for format in formats)


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


def check_bind(section: Section, key: str, whom: str, got: str) -> None:
    if section.given("bind") and section.values.get(key, "") is None:
        section.complain("bind", expected=f"{section.path}.{key} as well, {whom}", got=got)


def check_number_of_peers(section: Section) -> None:
    if section.given("endpoints", "bind") and len(section["endpoints"]) != len(section["bind"]):
        expected = f"{len(section['endpoints'])} endpoints, as peers.endpoints has"
        section.complain("bind", expected=expected, got=str(len(section["bind"])))


def check_sections(problems: Problems, root: dict[str, Item], algorithm: str) -> None:
    """Peers have a graph and no reducer; others a reducer and no graph."""
    if not algorithm:
        return
    present = {key: item for key in SECTIONS if (item := root.get(key)) is not None and item.value is not None}
    learner = learner_named(algorithm)
    if "star" not in learner.on and "topology" not in present:
        section = root["algorithm"].value
        assert isinstance(section, dict)
        expected = f"a section topology beside {algorithm}, for the graph of its peers"
        hint = "such as topology: {graph: ring}"
        problems.add(section["name"].mark, "algorithm.name", expected=expected, got="none", hint=hint)
    *others, last = (name for name, learner in BUILTIN.items() if "graph" in learner.on)
    on_graph = f"{', '.join(others)} or {last}"
    why = {
        "topology": f"{algorithm} has a reducer, and no graph of peers; algorithm.name: {on_graph} has one",
        "peers": f"{algorithm} has a reducer, and its workers are no peers; where they meet is reducer.endpoint"
        + ("; with a section topology they would be" if "graph" in learner.on else ""),
        "reducer": f"the peers of {algorithm} have no reducer; where they meet is peers.endpoints",
    }
    for key in foreign_sections(algorithm, topology="topology" in present):
        if key in present:
            expected = f"no such section with algorithm {algorithm}"
            problems.add(present[key].mark, key, expected=expected, got=str(present[key]), hint=why[key])


def check_timeouts(section: Section) -> None:
    if section.given("resend_after_s", "resend_cap_s") and section["resend_cap_s"] < section["resend_after_s"]:
        key = "resend_cap_s" if "resend_cap_s" in section.items else "resend_after_s"
        after, cap = section["resend_after_s"], section["resend_cap_s"]
        section.complain(key, expected="resend_cap_s of at least resend_after_s", got=f"{cap:g} and {after:g}")


def _check_labels(section: Section) -> None:
    for clash in clashes(section.values):
        index = section[clash.key].index(clash.text) if clash.text else None
        got = "" if clash.text else "none"
        section.complain(clash.key, expected=clash.expected, got=got, hint=clash.hint, index=index)


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


def complain_of_name(section: Section, key: str, error: ConfigError) -> None:
    """A name for which `Plugins` has nothing."""
    (problem,) = error.problems
    got = "" if problem.got == quoted(str(section.items[key].value)) else problem.got
    section.complain(key, expected=problem.expected, got=got, hint=problem.hint)


def check_format(section: Section, format_named: Callable[[str], Format]) -> None:
    """Whether there is a format of that name."""
    if section.given("format"):
        try:
            format_named(section["format"])
        except ConfigError as error:
            complain_of_name(section, "format", error)


CHECKS: dict[str, tuple[Callable[[Section], None], ...]] = {
    "files": (partial(check_format, format_named=file_format), _check_file_names, _check_columns, _check_labels),
    "live": (_check_live, _check_columns, _check_labels),
}
"""The checks across the keys of the section data, by its kind; those of learners are in their records."""


def odd_braces(pattern: str) -> str:
    """The first braces in a pattern that are not {task}; empty for none."""
    return next((word for word in re.findall(r"\{.*?\}", pattern) if word != "{task}"), "")
