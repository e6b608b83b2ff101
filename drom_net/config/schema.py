"""The reference of the configuration, as JSON Schema and as tables: both made from the settings themselves.

``python -m drom_net.config`` writes them to ``schema.json`` and into ``docs/configuration.md``.
"""

from __future__ import annotations

import inspect
import json
import math
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from drom_net.algorithms import BUILTIN
from drom_net.config.model import (
    DEFAULT_ALGORITHM,
    TOP_LEVEL,
    ClusterConfig,
    PeerSettings,
    ReducerSettings,
    SecuritySettings,
    algorithm_settings,
    data_settings,
    foreign_sections,
)
from drom_net.core.fields import REQUIRED, Setting, Spec, settings_of
from drom_net.data.settings import DATA_SECTIONS, LiveData, SourceSettings
from drom_net.graph.settings import TopologySettings
from drom_net.protocol.settings import Checkpoints, Policy, Timeouts

SCHEMA_FILE = Path(__file__).parents[1] / "schema.json"
SHORTER = {
    ", with {task} for the task's name, or a list of endpoints, one a task": ", also with {task}, or a list",
    ", or a list of such, one for each task": ", or a list, one a task",
    ", or a list of such": " or a list",
    "list of different items, each ": "list, each ",
    "list of endpoints, each tcp://host:port or ipc://path": "list of endpoints",
    ", none of them a control character": "",
    " and at most 1e+09": "",
    "whole number": "integer",
    "of at least": ">=",
    "of at most": "<=",
    "above": ">",
    "at most": "<=",
    "below": "<",
}
"""From the words of a message to those of a table."""
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"


def json_schema() -> dict[str, Any]:
    """The configuration as JSON Schema (draft 2020-12), for editors.

    It takes any name for a learner, a policy or a format of another package, the first two with any keys; whether there
    is one is seen as a file is loaded.
    """
    top = {key: _property(setting) for key, setting in settings_of(ClusterConfig).items()}
    top["algorithm"] = _one_of_kinds("algorithm", "name", list(BUILTIN), algorithm_settings)
    top["data"] = _one_of_kinds("data", "dataset", list(DATA_SECTIONS), data_settings)
    top["source"] = _optional_section(SourceSettings)
    top["topology"] = _optional_section(TopologySettings)
    top["reducer"] = _optional_section(ReducerSettings)
    top["peers"] = _optional_section(PeerSettings)
    top["policy"] = _policy_section()
    top["checkpoint"] = _optional_section(Checkpoints)
    top["timeouts"] = _optional_section(Timeouts)
    top["security"] = _optional_section(SecuritySettings)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A cluster of drom_net",
        "type": "object",
        "properties": {key: top[key] for key in TOP_LEVEL},
        "required": ["data"],
        "additionalProperties": False,
        "allOf": [*(_sections_of(name) for name in BUILTIN), _source_of_live_data()],
    }


def _sections_of(algorithm: str) -> dict[str, Any]:
    """What a learner asks of the sections beside it."""
    chosen: dict[str, Any] = {"properties": {"algorithm": {"properties": {"name": {"const": algorithm}}}}}
    if algorithm != DEFAULT_ALGORITHM:
        chosen["required"] = ["algorithm"]
        chosen["properties"]["algorithm"]["required"] = ["name"]
    there = {"properties": {"topology": {"type": "object"}}, "required": ["topology"]}
    peers, workers = (
        {"properties": {key: {"type": "null"} for key in foreign_sections(algorithm, topology=topology)}}
        for topology in (True, False)
    )
    if "star" not in BUILTIN[algorithm].on:
        return {"if": chosen, "then": {"allOf": [there, peers]}}
    if "graph" in BUILTIN[algorithm].on:
        return {"if": chosen, "then": {"if": there, "then": peers, "else": workers}}
    return {"if": chosen, "then": workers}


def _source_of_live_data() -> dict[str, Any]:
    """Live data has a source, and no other has."""
    live = {"properties": {"dataset": {"const": LiveData.dataset}}, "required": ["dataset"]}
    return {
        "if": {"properties": {"data": live}, "required": ["data"]},
        "then": {"properties": {"source": {"type": "object"}}, "required": ["source"]},
        "else": {"properties": {"source": {"type": "null"}}},
    }


def _one_of_kinds(
    section: str, selector: str, kinds: list[str], settings_for: Callable[[str], dict[str, Setting]]
) -> dict[str, Any]:
    """A section whose keys depend on one of them."""
    branches = []
    for kind in kinds:
        settings = settings_for(kind)
        this: dict[str, Any] = {"properties": {selector: {"const": kind}}, "required": [selector]}
        required = [key for key, setting in settings.items() if setting.default is REQUIRED]
        if kind == "files":
            this = {"anyOf": [this, {"required": ["files"], "not": {"required": [selector]}}]}
            required.remove(selector)
        elif kind == DEFAULT_ALGORITHM:
            this.pop("required")
        properties = {key: _property(setting) for key, setting in settings.items()}
        properties[selector] = {"const": kind}
        then = {"properties": properties, "required": required, "additionalProperties": False}
        branches.append({"if": this, "then": then})
    choice = _property(settings_for(kinds[0])[selector])
    schema: dict[str, Any] = {"type": "object", "properties": {selector: choice}, "allOf": branches}
    if section == "data":
        return schema | {"anyOf": [{"required": [selector]}, {"required": ["files"]}]}
    return schema


def _optional_section(section: type) -> dict[str, Any]:
    settings = settings_of(section)
    properties = {key: _property(setting) for key, setting in settings.items()}
    schema = {"type": ["object", "null"], "properties": properties, "additionalProperties": False}
    required = [key for key, setting in settings.items() if setting.default is REQUIRED]
    return schema | {"required": required} if required else schema


def _policy_section() -> dict[str, Any]:
    """One of another package may have keys of its own."""
    section = _optional_section(Policy)
    closed = {"properties": dict.fromkeys(section["properties"], True), "additionalProperties": False}
    del section["additionalProperties"]
    named = {"properties": {"name": {"type": "string"}}, "required": ["name"]}
    return section | {"if": named, "else": closed}


def _property(setting: Setting) -> dict[str, Any]:
    schema = setting.spec.schema()
    if setting.default is None:
        schema = {"anyOf": [schema, {"type": "null"}]}
    about: dict[str, Any] = {"description": setting.doc}
    if setting.default is not REQUIRED:
        default = list(setting.default) if isinstance(setting.default, tuple) else setting.default
        about["default"] = ".inf" if default == math.inf else default
    return about | schema


def reference_tables() -> str:
    """Every key with what it accepts, its default and its meaning, as Markdown; what several kinds have stands once."""
    parts = [_table("At the top", "", settings_of(ClusterConfig))]
    learners = {name: (learner.reveals, algorithm_settings(name)) for name, learner in BUILTIN.items()}
    about = "Every learner has these keys. Below: each one's own keys, and what leaves a site."
    parts += _tables_of_kinds("algorithm", "name", about, learners)
    kinds = {name: ("", data_settings(name)) for name in DATA_SECTIONS}
    about = "Every kind of [data](data.md) has these keys, unless its own section says otherwise."
    parts += _tables_of_kinds("data", "dataset", about, kinds)
    parts.append(_table("`source`", inspect.getdoc(SourceSettings) or "", settings_of(SourceSettings)))
    only = [f"`{name}`" for name, learner in BUILTIN.items() if tuple(learner.on) == ("graph",)]
    either = [f"`{name}`" for name, learner in BUILTIN.items() if set(learner.on) == {"star", "graph"}]
    more = f"{', '.join(only)} need it; with {', '.join(either)} it puts a graph in place of the reducer."
    about = f"{inspect.getdoc(TopologySettings) or ''} {more}"
    parts.append(_table("`topology`", about, settings_of(TopologySettings)))
    parts.append(_table("`reducer`", inspect.getdoc(ReducerSettings) or "", settings_of(ReducerSettings)))
    about = (inspect.getdoc(PeerSettings) or "") + " Only beside `topology`, where there is no `reducer`."
    parts.append(_table("`peers`", about, settings_of(PeerSettings)))
    parts.append(_table("`policy`", inspect.getdoc(Policy) or "", settings_of(Policy)))
    parts.append(_table("`checkpoint`", inspect.getdoc(Checkpoints) or "", settings_of(Checkpoints)))
    parts.append(_table("`timeouts`", inspect.getdoc(Timeouts) or "", settings_of(Timeouts)))
    parts.append(_table("`security`", inspect.getdoc(SecuritySettings) or "", settings_of(SecuritySettings)))
    return "\n".join(parts)


def _tables_of_kinds(
    section: str, selector: str, about: str, kinds: dict[str, tuple[str, dict[str, Setting]]]
) -> list[str]:
    """A table of what all kinds have (or all but one), and for each kind one of what no kind before it has.

    Args:
        selector: The key that chooses the kind.
        about: What the first table is of.
        kinds: What is said of each, and its keys.
    """
    every = [settings for _, settings in kinds.values()]
    common: dict[str, Setting] = {}
    for key, count in Counter(key for settings in every for key in settings).items():
        rows = [_row(settings[key]) for settings in every if key in settings]
        if count >= len(kinds) - 1:
            usual = Counter(rows).most_common(1)[0][0]
            common[key] = next(settings[key] for settings in every if key in settings and _row(settings[key]) == usual)
    home = {_row(setting): ("", setting) for setting in common.values()}
    parts, plain = [], []
    for kind, (what, settings) in kinds.items():
        own: dict[str, Setting] = {}
        as_in: dict[str, list[str]] = {}
        lacks = [f"`{key}`" for key in common if key not in settings]
        for key, setting in settings.items():
            where, first = home.setdefault(_row(setting), (kind, setting))
            if where == kind:
                own[key] = setting
            elif where or setting.default != first.default:
                default = "" if setting.default == first.default else _default(setting, " (default {})")
                as_in.setdefault(where, []).append(f"`{key}`{default}")
        if not own and not as_in and not lacks:
            plain.append(f"`{kind}`")
            continue
        more = [f"As {f'with `{where}`' if where else 'above'}: {', '.join(keys)}." for where, keys in as_in.items()]
        more += [f"There is no {', '.join(lacks)}."] if lacks else []
        parts.append(_table(f"`{section}.{selector}: {kind}`", " ".join(filter(None, [what, *more])), own))
    about += f" No others: {', '.join(plain)}." if plain else ""
    return [_table(f"`{section}`", about, common), *parts]


def _row(setting: Setting) -> tuple[str, str, str]:
    """What a table says of a key, but for its default."""
    return setting.key, accepts(setting.spec), setting.doc


def accepts(spec: Spec) -> str:
    """What a value may be: as a message says it, with signs in place of words."""
    text = re.sub("^(one of|an?|the) ", "", spec.expected())
    for words, shorter in SHORTER.items():
        text = text.replace(words, shorter)
    return text


def _table(title: str, about: str, settings: dict[str, Setting]) -> str:
    lines = [f"### {title}", "", *([about, ""] if about else [])]
    lines += ["| key | accepts (default) | meaning |", "|---|---|---|"] if settings else []
    for key, setting in settings.items():
        cells = (f"`{key}`", accepts(setting.spec) + _default(setting, " ({})"), setting.doc)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join([*lines, ""] if settings else lines)


def _default(setting: Setting, form: str) -> str:
    """The default, put into a form; nothing where there is none."""
    default = setting.default
    if default is None:
        return ""
    if default is REQUIRED:
        return form.format("required")
    if isinstance(default, bool):
        default = str(default).lower()
    elif isinstance(default, tuple):
        default = list(default)
    return form.format(f"`{'.inf' if default == math.inf else default}`")


def write_reference() -> None:
    """Bring the stored schema, and the tables of a checkout's documentation, up to date."""
    SCHEMA_FILE.write_text(json.dumps(json_schema(), indent=2) + "\n", encoding="utf-8")
    page = SCHEMA_FILE.parents[1] / "docs" / "configuration.md"
    if page.exists():
        before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        page.write_text(f"{before}{BEGIN}\n\n{reference_tables()}\n{END}{after}", encoding="utf-8")
