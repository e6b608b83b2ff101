"""What a run learned, of what and by what: the rows of a report that name it, and its terms in plain words."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from drom_net.config.model import ClusterConfig
from drom_net.core.names import some_of
from drom_net.reporting.facts import RunFacts

_LISTED = 12
EXPERTS = {
    "local": "learns from this site's rows alone",
    "shared": "one model for all sites",
    "shared with offset": "the shared model, and what this site differs by",
    "directions": "what the models of all sites have in common, weighted for this site",
    "shared with directions": "the shared model, and of what it leaves the same",
    "directions with offset": "shared with directions, and what this site differs by",
    "recent directions": "as directions, but old examples fade: it follows a change",
    "local ridge": "least squares on this site's rows alone",
    "shared with ridge": "the shared model, and of what it leaves least squares at this site",
}
"""By the name of an expert of adadrom, what it is."""
TERMS = {
    "errors": "the share of examples whose label was predicted wrong, before it was learned from",
    "majority": "the errors of always giving the label that the site has seen more often",
    "alone": "the errors that the site would have made by itself, by those of its experts that use nothing of others",
    "gain": "errors alone less errors with sharing, in percentage points; above 0 sharing helped",
    "sharing": "helps or hurts where the gain in errors or in log loss is hardly chance, else cannot tell yet",
    "AUC": "how often an example of +1 has the higher score than one of -1: 1 is perfect, 0.5 is chance",
    "log loss": "minus the natural logarithm of the probability given to the true label, in the mean, in nats: lower "
    "is better, and 0.693 is a coin's",
    "F1": "the harmonic mean of precision and recall of +1",
    "noise": "how often the label was the other one though the learner was sure",
}
"""By the head of a column of figures, what it says."""


def about(facts: RunFacts) -> list[tuple[str, str]]:
    """(what, value) of a run, in order; what is not known is left out."""
    summary, config = facts.summary, facts.config
    rows = [("label", label_in_words(config, str(summary.get("positive") or "")))]
    rows += [("columns", text) for text in columns_in_words(config)]
    rows += [("sites and examples", _size(summary)), ("learner", _learner(summary, config))]
    rows += [("began", _moment(facts.environment.get("began"))), ("lasted", _lasted(summary))]
    version = facts.environment.get("drom_net")
    rows.append(("version", f"drom_net {version}" if version else ""))
    return [(what, value) for what, value in rows if value]


def label_in_words(config: ClusterConfig | None, positive: str) -> str:
    """``column service: +1 is yes, -1 is no``."""
    data = None if config is None else config.data
    name, ones = getattr(data, "label", None), getattr(data, "positive", None)
    if not name or not ones:
        return f"+1 is {positive}" if positive else ""
    negative, rest = getattr(data, "negative", None), getattr(data, "rest", None)
    others = "every other label" if rest else " or ".join(negative or ())
    return f"column {name}: +1 is {' or '.join(ones)}" + (f", -1 is {others}" if others else "")


def columns_in_words(config: ClusterConfig | None) -> list[str]:
    """The columns that were learned from by kind, ``number: load, age``, and those that were left out."""
    columns: Sequence[Any] = (getattr(config.data, "columns", None) or ()) if config is not None else ()
    by_kind: dict[str, list[str]] = {}
    for column in columns:
        by_kind.setdefault(column.kind if column.is_used else f"left out ({column.kind})", []).append(column.name)
    return [f"{kind}: {some_of(names, _LISTED)}" for kind, names in by_kind.items()]


def _size(summary: Mapping[str, Any]) -> str:
    sites, examples = len(summary["tasks"]), summary.get("examples")
    told = f"{sites} site{'' if sites == 1 else 's'}"
    return told if examples is None else f"{told}, {examples:,} labelled examples, {summary['rounds']:,} rounds"


def _learner(summary: Mapping[str, Any], config: ClusterConfig | None) -> str:
    if config is None:
        return str(summary["algorithm"])
    values = dataclasses.asdict(config.algorithm.parameters)
    told = ", ".join(f"{name} = {value}" for name, value in values.items())
    where = "with a reducer" if config.topology is None else "on a graph, without a reducer"
    if summary["algorithm"] == "local":
        where = "each site by itself"
    return f"{summary['algorithm']}, {where}" + (f" ({told})" if told else "")


def _moment(began: object) -> str:
    try:
        return f"{datetime.fromisoformat(str(began)):%Y-%m-%d %H:%M:%S} UTC"
    except ValueError:
        return ""


def _lasted(summary: Mapping[str, Any]) -> str:
    seconds = summary.get("seconds")
    if seconds is None:
        return ""
    clock = " of the simulated clock" if summary["driver"] == "simulation" else ""
    if seconds < 120.0:
        return f"{seconds:.3g} s{clock}"
    minutes, hours = round(seconds / 60.0), seconds / 3600.0
    return f"{minutes} minutes{clock}" if minutes < 120 else f"{hours:.1f} hours{clock}"
