"""The pictures of a run's report, as panels (pure; `plots` draws them)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from drom_net.learning.metrics import majority_wrong
from drom_net.reporting.facts import RunFacts, Task
from drom_net.results.report import Panel, Picture, Reference, Series

SITES_SHOWN = 12
"""Of more sites a picture shows only some."""
ROWS_SHOWN = 20
"""Of more sites the table shows the first and the last half of so many; all are in a part that unfolds."""
_POINTS, _BINS, _BEGIN = 120, 10, 10
_THIS, _MAJORITY, _ALONE = "this run", "majority", "alone, at the end"


def in_order(facts: RunFacts) -> list[int]:
    """The sites as the table has them, and all pictures: in the order of the run; of more than `ROWS_SHOWN` the one
    first that gained most, or errs least."""
    tasks = facts.summary["tasks"]
    order = list(range(len(tasks)))
    return order if len(tasks) <= ROWS_SHOWN else sorted(order, key=lambda site: _rank(tasks[site]))


def chosen(facts: RunFacts) -> list[int]:
    """The sites that pictures show, in order: all, or those that gained or lost most, or err most and least."""
    order, tasks = in_order(facts), facts.summary["tasks"]
    if len(tasks) <= SITES_SHOWN:
        return order
    ranking = sorted(order, key=lambda site: _rank(tasks[site]))
    shown = {*ranking[: SITES_SHOWN // 2], *ranking[-SITES_SHOWN // 2 :]}
    return [site for site in order if site in shown]


def _rank(task: Mapping[str, Any]) -> float:
    gain = (task.get("sharing") or {}).get("gain_points")
    error = task.get("error_rate")
    return -gain if gain is not None else (math.inf if error is None else error)


def overview(facts: RunFacts) -> Picture | None:
    """The main figure: error over time, gains by site, error by site, calibration; None where there is nothing."""
    panels = [
        panel
        for panel in (_error_of_all(facts), _gains(facts), _errors_by_site(facts), reliability(facts))
        if panel is not None
    ]
    return Picture(panels, 1 if len(panels) == 1 else 2) if panels else None


def by_site(facts: RunFacts) -> Picture | None:
    """Error over time of each site."""
    panels = []
    for site in chosen(facts) if facts.tasks and len(facts.tasks) > 1 else ():
        if len(facts.tasks[site].rounds) > _BEGIN:
            panels.append(curves(_short(facts.names[site]), [facts.tasks[site]], _alone(facts.summary["tasks"][site])))
    return Picture(panels, min(3, len(panels))) if panels else None


def reliability(facts: RunFacts) -> Panel | None:
    """How often +1 was true where it was given so much probability, with 95 % intervals (Wilson)."""
    p, positive = _probabilities(facts)
    if not len(p):
        return None
    edges = np.minimum((p * _BINS).astype(int), _BINS - 1)
    x, y, low, high = [], [], [], []
    for place in range(_BINS):
        inside = edges == place
        count = int(inside.sum())
        if not count:
            continue
        share, z = float(positive[inside].mean()), 1.96
        middle = (share + z * z / (2 * count)) / (1 + z * z / count)
        reach = z * np.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
        x.append(float(p[inside].mean()))
        y.append(share)
        low.append(min(share, float(middle - reach)))
        high.append(max(share, float(middle + reach)))
    ideal = Series("ideal", [0.0, 1.0], [0.0, 1.0], guide=True)
    series = [Series(_THIS, x, y, low, high), ideal]
    return Panel("Calibration", "probability given to +1", "share that was +1", series, y_limits=(-0.02, 1.02))


def calibration_error(facts: RunFacts) -> float | None:
    """The mean distance between the probability given and the share that came true, over ten bins; None of nothing."""
    p, positive = _probabilities(facts)
    if not len(p):
        return None
    edges = np.minimum((p * _BINS).astype(int), _BINS - 1)
    sums = [abs(float((p[edges == place] - positive[edges == place]).sum())) for place in range(_BINS)]
    return sum(sums) / len(p)


def _probabilities(facts: RunFacts) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    p = np.concatenate([np.asarray(task.p, dtype=np.float64) for task in facts.tasks] or [np.zeros(0)])
    clean = np.concatenate([np.asarray(task.clean, dtype=np.float64) for task in facts.tasks] or [np.zeros(0)])
    return p, clean > 0.0


def _error_of_all(facts: RunFacts) -> Panel | None:
    if sum(len(task.rounds) for task in facts.tasks) <= _BEGIN:
        return None
    return curves("Error over time, all sites", facts.tasks, _alone(facts.summary))


def curves(title: str, tasks: Sequence[Task], alone: float | None) -> Panel:
    """Errors so far of these sites together, by round.

    Args:
        tasks: With some examples.
        alone: Their error rate at the end, each alone, where that is known.
    """
    rounds = np.concatenate([np.asarray(task.rounds) for task in tasks])
    wrong = np.concatenate([np.asarray(task.wrong, dtype=np.float64) for task in tasks])
    majority = np.concatenate([majority_wrong(np.asarray(task.seen), np.asarray(task.clean)) for task in tasks])
    order = np.argsort(rounds, kind="stable")
    rounds, counts = rounds[order], np.arange(1, len(order) + 1)
    kept = np.unique(np.linspace(_BEGIN - 1, len(order) - 1, _POINTS).round().astype(int))
    series = []
    for label, errors in ((_THIS, wrong), (_MAJORITY, majority)):
        rate = 100.0 * np.cumsum(errors[order]) / counts
        series.append(Series(label, rounds[kept].tolist(), rate[kept].tolist()))
    references = [] if alone is None else [Reference(_ALONE, 100.0 * alone)]
    return Panel(title, "round", "errors so far (%)", series, references)


def _gains(facts: RunFacts) -> Panel | None:
    known = []
    for site in chosen(facts):
        its = facts.summary["tasks"][site].get("sharing") or {}
        if its.get("gain_points") is not None and its.get("gain_points_interval"):
            known.append((_short(facts.names[site]), its["gain_points"], *its["gain_points_interval"]))
    if not known:
        return None
    names, gains, low, high = zip(*known, strict=True)
    series = [Series("gain by sharing", range(len(names)), gains, low, high)]
    title = "What sharing gains each site"
    return Panel(title, "", "fewer errors (points)", series, [Reference("no gain", 0.0)], points=True, ticks=names)


def _errors_by_site(facts: RunFacts) -> Panel | None:
    sites = [(facts.names[site], facts.summary["tasks"][site]) for site in chosen(facts)]
    sites = [(name, task) for name, task in sites if task.get("error_rate") is not None]
    if not sites:
        return None
    series = [
        Series(label, range(len(sites)), [100.0 * (task.get(key) or 0.0) for _, task in sites])
        for label, key in ((_THIS, "error_rate"), (_MAJORITY, "majority_error_rate"))
    ]
    return Panel("Error by site", "", "errors (%)", series, points=True, ticks=[_short(name) for name, _ in sites])


def _alone(figures: Mapping[str, Any]) -> float | None:
    rate: float | None = (figures.get("sharing") or {}).get("error_rate_alone")
    return rate


def _short(name: str, limit: int = 16) -> str:
    return name if len(name) <= limit else f"{name[: limit - 1]}…"
