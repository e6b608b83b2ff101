"""Values given by --set and by presets, put over those of the file."""

from __future__ import annotations

from collections.abc import Sequence

from drom_net.algorithms import find_learner
from drom_net.config.model import DEFAULT_ALGORITHM, algorithm_settings, foreign_sections
from drom_net.config.yamlfile import Item, Mark, Problems, quoted, read_option
from drom_net.core.errors import ConfigError


def apply_overrides(root: dict[str, Item], overrides: Sequence[str], problems: Problems) -> None:
    """Put the values of ``--set`` in the place of the file's, as if they stood there."""
    former = _learner_of(root)
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
    _forget_former_algorithm(root, *former)
    _let_preset_win(root)


def _let_preset_win(root: dict[str, Item]) -> None:
    """A preset named by ``--set`` is meant whole: it replaces the file's parameters, though not other ``--set``."""
    section = root["algorithm"].value if "algorithm" in root else None
    if not isinstance(section, dict) or "preset" not in section or not section["preset"].mark.option:
        return
    for key in list(section):
        if key != "name" and not section[key].mark.option:
            del section[key]


def _learner_of(root: dict[str, Item]) -> tuple[str, bool]:
    """(its name, whether there is a section topology)."""
    topology = root.get("topology")
    name = kind_of(root.get("algorithm"), "name") or DEFAULT_ALGORITHM
    return name, topology is not None and topology.value is not None


def _forget_former_algorithm(root: dict[str, Item], former_name: str, former_topology: bool) -> None:
    """Drop the file's parameters and sections that only the former learner knows, or only its star or graph."""
    name, topology = _learner_of(root)
    if find_learner(name) is None or find_learner(former_name) is None:
        return
    item = root.get("algorithm")
    section = item.value if item is not None and isinstance(item.value, dict) else {}
    for key in algorithm_settings(former_name).keys() - algorithm_settings(name).keys():
        if key in section and not section[key].mark.option:
            del section[key]
    former = foreign_sections(former_name, topology=former_topology)
    for key in set(foreign_sections(name, topology=topology)) - set(former):
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


def kind_of(item: Item | None, key: str) -> str:
    """What a section says it is; empty where it does not say it in a text."""
    kind = item.value.get(key) if item and isinstance(item.value, dict) else None
    return kind.value if kind and isinstance(kind.value, str) else ""
