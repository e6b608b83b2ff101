"""What a run's figures say, as sentences: whether it was of use at all, and whether sharing helped (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drom_net.learning.metrics import Totals, total

_TASKS_TOLD = 3
_RARE = 0.2
"""A label is rare below this share."""
_EXAMPLES_PER_FEATURE = 10

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
        told = [f"{name} ({_rates(task)})" for name, task in list(useless.items())[:_TASKS_TOLD]]
        if len(useless) > len(told):
            told.append(f"{len(useless) - len(told)} more")
        said.append(f"tasks no better than their commoner label: {', '.join(told)}")
    if sharing is not None:
        better = [is_better(task) for task in counts]
        said.append(sharing_verdict(names, sharing_of_tasks, sharing, flipped=flipped, useful=useful, better=better))
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
    return f"{_percent(counts.error_rate)} errors against {_percent(counts.majority_error_rate)}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f} %"


def sharing_verdict(
    names: Sequence[str],
    tasks: Sequence[Figures],
    overall: Figures,
    *,
    flipped: bool,
    useful: bool,
    better: Sequence[bool],
) -> str:
    """Whether sharing helped, and where it hurt, as a sentence.

    Args:
        tasks: The `sharing.sharing_figures` of each, and `overall` of all.
        flipped: Whether the labels that were seen are not all clean.
        useful: Whether the run is better than always giving the commoner label; else nothing helped.
        better: The same of each task.
    """
    if overall["error_rate"] is None:
        return "sharing: there were no examples"
    if len(names) == 1:
        return "sharing: there is one task, and nobody to share with"
    gains = {name: task["gain_points"] or 0.0 for name, task in zip(names, tasks, strict=True)}
    lost = {name: task["errors"] - task["errors_alone"] for name, task in zip(names, tasks, strict=True)}
    losers = sorted((name for name in gains if gains[name] < 0.0), key=gains.__getitem__)
    num_helped = sum(gain > 0.0 and its for gain, its in zip(gains.values(), better, strict=True))
    helped = f"{num_helped} of {len(gains)} tasks"
    gain = overall["gain_points"]
    rates = f"{100 * overall['error_rate']:.2f} % errors"
    rates += f" instead of {100 * overall['error_rate_alone']:.2f} % alone" if gain else ", as alone"
    rates += ", by the labels seen" if flipped else ""
    if not useful:
        said = f"sharing: {rates}"
    elif gain > 0.0:
        said = f"sharing helped {helped}: {rates}"
    elif gain < 0.0:
        said = f"sharing lost {-gain:.2f} points: {rates}; it helped {helped}"
    else:
        said = f"sharing made no difference: {rates}; it helped {helped}"
    told = [
        f"{name} lost {-gains[name]:.2f} points ({lost[name]} error{'' if lost[name] == 1 else 's'})"
        for name in losers[:_TASKS_TOLD]
    ]
    if len(losers) > len(told):
        told.append(f"{len(losers) - len(told)} more lost less")
    return f"{said}; {', '.join(told) or 'no task lost'}"
