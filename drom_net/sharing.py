"""What sharing gained or lost a task that mixes experts, how much they weigh, and how noisy its labels look (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drom_net.algorithms.features import Matrix, Vector
from drom_net.algorithms.ldr import ALONE, EVIDENCE, EXPERTS

Figures = dict[str, Any]
_NOISE_FROM = 20
"""So many examples at least, or nothing is said of their noise."""
_LOSERS_TOLD = 3


def sharing_sections(
    names: Sequence[str], mixtures: Matrix, evidence: Matrix, *, flipped: bool
) -> tuple[Figures, list[Figures]]:
    """The figures of all tasks, with a `verdict`, and those of each.

    Args:
        mixtures: With `evidence`, a row a task.
        flipped: Whether the labels that were seen are not all clean.
    """
    of_tasks = [sharing_figures(*rows) for rows in zip(mixtures, evidence, strict=True)]
    overall = sharing_figures(mixtures.mean(axis=0), evidence.sum(axis=0))
    return {"verdict": verdict(names, of_tasks, overall, flipped=flipped), **overall}, of_tasks


def sharing_figures(mixture: Vector, evidence: Vector) -> Figures:
    """What two vectors of a model say, as plain JSON types; None where there are no examples, or too few.

    Errors are those on the labels seen; `alone` is a mixture of those of its experts that use nothing
    of the others.
    `gain_points` (points of the error rate) and `gain_nats` (log loss an example) are positive where sharing helped.
    `weight` is the mean over the examples of what the experts that share weigh. `noise` is the share of labels that
    came out contrary to the prediction, where each counts the more the surer it was.

    Args:
        mixture: The experts' weights at the end, as `EXPERTS`.
        evidence: What was counted, as `EVIDENCE`.
    """
    weights = dict(zip(EXPERTS[: len(mixture)], mixture.tolist(), strict=True))
    weight_alone = sum(weights.get(EXPERTS[expert], 0.0) for expert in ALONE)
    counts = dict(zip(EVIDENCE, evidence.tolist(), strict=True))
    examples = int(counts["examples"])
    errors, alone = int(counts["errors"]), int(counts["errors_alone"])
    figures: Figures = {"errors": errors, "errors_alone": alone}
    figures |= dict.fromkeys(("error_rate", "error_rate_alone", "gain_points", "gain_nats", "weight", "noise"))
    if examples:
        figures["error_rate"], figures["error_rate_alone"] = errors / examples, alone / examples
        figures["gain_points"] = 100.0 * (alone - errors) / examples
        figures["gain_nats"] = (counts["loss_alone"] - counts["loss"]) / examples
        figures["weight"] = counts["weight_of_sharing"] / examples
    if examples >= _NOISE_FROM and counts["sure"] > 0.0:
        figures["noise"] = counts["sure_errors"] / counts["sure"]
    return figures | {"weight_at_end": 1.0 - weight_alone, "weights_at_end": weights}


def verdict(names: Sequence[str], tasks: Sequence[Figures], overall: Figures, *, flipped: bool) -> str:
    """Whether sharing helped, and where it hurt, as a sentence.

    Args:
        tasks: The `sharing_figures` of each, and `overall` of all.
        flipped: Whether the labels that were seen are not all clean.
    """
    if overall["error_rate"] is None:
        return "sharing: there were no examples"
    if len(names) == 1:
        return "sharing: there is one task, and nobody to share with"
    gains = {name: task["gain_points"] or 0.0 for name, task in zip(names, tasks, strict=True)}
    lost = {name: task["errors"] - task["errors_alone"] for name, task in zip(names, tasks, strict=True)}
    losers = sorted((name for name in gains if gains[name] < 0.0), key=gains.__getitem__)
    helped = f"{sum(gain > 0.0 for gain in gains.values())} of {len(gains)} tasks"
    gain = overall["gain_points"]
    rates = f"{100 * overall['error_rate']:.2f} % errors"
    rates += f" instead of {100 * overall['error_rate_alone']:.2f} % alone" if gain else ", as alone"
    rates += ", by the labels seen" if flipped else ""
    if gain > 0.0:
        said = f"sharing helped {helped}: {rates}"
    elif gain < 0.0:
        said = f"sharing lost {-gain:.2f} points: {rates}; it helped {helped}"
    else:
        said = f"sharing made no difference: {rates}; it helped {helped}"
    told = [
        f"{name} lost {-gains[name]:.2f} points ({lost[name]} error{'' if lost[name] == 1 else 's'})"
        for name in losers[:_LOSERS_TOLD]
    ]
    if len(losers) > len(told):
        told.append(f"{len(losers) - len(told)} more lost less")
    return f"{said}; {', '.join(told) or 'no task lost'}"
