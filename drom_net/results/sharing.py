"""What sharing gained or lost a task that mixes experts, how much they weigh, and how noisy its labels look (pure)."""

from __future__ import annotations

from typing import Any

from drom_net.algorithms.adadrom.mixing import ALONE, EVIDENCE, EXPERTS
from drom_net.algorithms.features import Matrix, Vector

Figures = dict[str, Any]
_NOISE_FROM = 20
"""So many examples at least, or nothing is said of their noise."""


def sharing_sections(mixtures: Matrix, evidence: Matrix) -> tuple[Figures, list[Figures]]:
    """The figures of all tasks, and those of each.

    Args:
        mixtures: With `evidence`, a row a task.
    """
    of_tasks = [sharing_figures(*rows) for rows in zip(mixtures, evidence, strict=True)]
    return sharing_figures(mixtures.mean(axis=0), evidence.sum(axis=0)), of_tasks


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
