"""What a run's figures say, as sentences: whether it was of use at all, and whether sharing helped (pure)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from drom_net.core.names import some_of
from drom_net.data.stream import FEW_ROWS
from drom_net.learning.metrics import Totals, total
from drom_net.results.evidence import HORIZON, told_by
from drom_net.results.wording import percent

_TASKS_TOLD = 3
_RARE = 0.2
"""A label is rare below this share."""
_EXAMPLES_PER_FEATURE = 10
_NO_FORECAST = f"; where no number stands, it would take more than {HORIZON} times the examples so far"

Figures = dict[str, Any]


def verdict(
    names: Sequence[str],
    counts: Sequence[Totals],
    sharing: Figures | None,
    sharing_of_tasks: Sequence[Figures],
    *,
    dim: int | None,
    auc: float | None,
) -> list[str]:
    """What to say of a run, in order; nothing where there were no examples and nobody shares.

    Args:
        counts: Of each task.
        sharing: As `sharing.sharing_figures` over all tasks; None of a learner that mixes no experts.
        sharing_of_tasks: The same of each.
        dim: How many features there are.
        auc: Over all predictions; with `dim` None where it is not known.
    """
    sums = total(counts)
    useful = is_better(sums)
    said = []
    flipped = any(task.seen_errors != task.errors for task in counts)
    if sums.examples and not useful:
        look_at = "log loss" if auc is None else f"AUC ({auc:.3f}) and log loss ({sums.log_loss:.3f})"
        positives = sums.true_positives + sums.false_negatives
        reason = why_not(sums.examples, positives, dim=dim, flipped=flipped, look_at=look_at)
        said.append(f"no better than always giving each site's commoner label: {_rates(sums)}; {reason}")
    useless = {name: task for name, task in zip(names, counts, strict=True) if task.examples and not is_better(task)}
    if useless and len(names) > 1 and (useful or len(useless) < len(names)):
        # Of fewer rows neither figure says anything.
        sure = [f"{name} ({_rates(task)})" for name, task in useless.items() if task.examples >= FEW_ROWS]
        if sure:
            said.append(f"tasks no better than their commoner label: {some_of(sure, _TASKS_TOLD)}")
    if sharing is not None:
        better = [is_better(task) for task in counts]
        said += sharing_verdict(names, sharing_of_tasks, sharing, flipped=flipped, useful=useful, better=better)
    return said


def is_better(counts: Totals) -> bool:
    """Whether there are fewer errors than always giving the commoner label makes."""
    return counts.errors < counts.majority_errors


def why_not(examples: int, positives: int, *, dim: int | None, flipped: bool, look_at: str) -> str:
    """Why learning may be no better than that, by what is known; the first reason that fits.

    Args:
        examples: There are so many, at least one, and so many of them are positive.
        dim: As for `verdict`.
        flipped: Whether labels were flipped on purpose.
        look_at: What to look at where one label is rare.
    """
    rarer = min(positives, examples - positives)
    if not rarer:
        return f"every label is {'+1' if positives else '-1'}"
    if rarer < _RARE * examples:
        label = "+1" if rarer == positives else "-1"
        share = f"only {100 * rarer / examples:.1f} % of the labels are {label}"
        return f"{share}, so the error says little: look at {look_at}"
    if dim is not None and examples < _EXAMPLES_PER_FEATURE * dim:
        return f"there may be too few examples, {examples} for {dim} features"
    if flipped:
        return "labels were flipped (data.flip)"
    return "the columns may not tell the label, or labels may be wrong: look at `drom-net data stats FILE`"


def _rates(counts: Totals) -> str:
    return f"{percent(counts.error_rate)} errors against {percent(counts.majority_error_rate)}"


def sharing_verdict(
    names: Sequence[str],
    tasks: Sequence[Figures],
    overall: Figures,
    *,
    flipped: bool,
    useful: bool,
    better: Sequence[bool],
) -> list[str]:
    """Whether sharing helps, in all, and whom it helps or hurts, as sentences.

    Args:
        tasks: The `sharing.sharing_figures` of each, and `overall` of all.
        flipped: Whether the labels that were seen are not all clean.
        useful: Whether the run is better than always giving the commoner label; else nothing helped.
        better: The same of each task.
    """
    if overall["error_rate"] is None:
        return ["sharing: there were no examples"]
    if len(names) == 1:
        return ["sharing: there is one task, and nobody to share with"]
    gain, found = overall["gain_points"], overall["effect"]
    rates = f"{100 * overall['error_rate']:.2f} % errors"
    rates += f" instead of {100 * overall['error_rate_alone']:.2f} % alone" if gain else ", as alone"
    rates += ", by the labels seen" if flipped else ""
    if not useful or found is None:
        return [f"sharing: {rates}"]
    if found == "cannot tell yet":
        more = overall["examples_missing"]
        when = "" if more is None else f", {_about(more)}"
        said = [f"sharing: cannot tell yet whether it helps{when}: {rates}, {_gain(overall)}"]
    else:
        said = [f"sharing {effect_of(overall)}: {rates}, {_gain(overall)}"]
    of: dict[str, list[tuple[float, str]]] = {"helps": [], "hurts": [], "cannot tell yet": []}
    for name, its, is_good in zip(names, tasks, better, strict=True):
        if its["effect"] in (None, "cannot tell yet"):
            more = its["examples_missing"]
            text = name if more is None else f"{name} ({_about(more)})"
            of["cannot tell yet"].append((math.inf if more is None else more, text))
        elif its["effect"] == "hurts" or is_good:
            by = " (log loss)" if _is_by_log_loss(its) else ""
            of[its["effect"]].append((-abs(its["gain_nats"]), f"{name}{by} {_gain(its)}"))
    for effect, whom in of.items():
        whom.sort(key=lambda pair: pair[0])
        why = _NO_FORECAST if math.inf in [by for by, _ in whom[:_TASKS_TOLD]] else ""
        if whom:
            start = "cannot tell yet of" if effect == "cannot tell yet" else f"sharing {effect}"
            told = some_of([text for _, text in whom], _TASKS_TOLD)
            said.append(f"{start} {len(whom)} of {len(names)} tasks: {told}{why}")
    return said


def task_verdict(its: Figures) -> str:
    """Whether sharing helps one task, in words: ``helps: +2.10 points [0.80, 3.40]``.

    Args:
        its: As `sharing.sharing_figures`, also of an earlier version.
    """
    found = its.get("effect")
    if found is None:
        return "nothing can be said"
    if found != "cannot tell yet":
        return f"{effect_of(its)}: {_gain(its)}"
    more = its.get("examples_missing")
    return f"cannot tell yet{'' if more is None else f', {_about(more)}'}: {_gain(its)}"


def effect_of(its: Figures) -> str:
    """``helps``, ``hurts`` or ``cannot tell yet``; ``helps (log loss)`` where that has told it, and errors cannot yet.

    Args:
        its: As for `task_verdict`; it has an effect.
    """
    return f"{its['effect']} (log loss)" if _is_by_log_loss(its) else str(its["effect"])


def effect_in_words(its: Figures | None) -> str:
    """An effect with the interval that tells it: ``helps [0.80, 3.40]``, in points; ``helps (log loss) [0.001, 0.039]
    nats`` where errors cannot tell it yet; empty where there is none.

    Args:
        its: As for `task_verdict`; None of a learner that mixes no experts.
    """
    if not its or not its.get("effect"):
        return ""
    unit = "nats" if _is_by_log_loss(its) else "points"
    if not its.get(f"gain_{unit}_interval"):
        return effect_of(its)
    return f"{effect_of(its)} {_interval(its)}" + (" nats" if unit == "nats" else "")


def _is_by_log_loss(its: Figures) -> bool:
    if "effect_by" in its:
        return bool(its["effect_by"] == "log loss")
    bounds, found = its.get("gain_points_interval"), its.get("effect")  # of an earlier version, which did not say it
    return bounds is not None and found is not None and told_by(found, (bounds[0], bounds[1])) == "log loss"


def _interval(its: Figures) -> str:
    """In points; in nats where log loss alone has told the effect."""
    if not _is_by_log_loss(its):
        low, high = its["gain_points_interval"]
        return f"[{low:.2f}, {high:.2f}]"
    low, high = its["gain_nats_interval"]
    return f"[{_nats(low)}, {_nats(high)}]"


def _gain(its: Figures) -> str:
    """A gain with its interval, in points of the error rate; in log loss where that alone has told the effect."""
    if not _is_by_log_loss(its):
        return f"{its['gain_points']:+.2f} points {_interval(its)}"
    return f"{its['gain_nats']:+.3f} nats {_interval(its)}"


def _nats(value: float) -> str:
    """A bound, of which it can be seen on which side of 0 it is."""
    return f"{value:.3f}" if round(value, 3) else f"{value:.1g}"


def _about(examples: int) -> str:
    """How many more examples it takes, in two figures."""
    unit = 10 ** max(0, len(str(examples)) - 2)
    return f"about {-(-examples // unit) * unit} more example{'' if examples == 1 else 's'}"
