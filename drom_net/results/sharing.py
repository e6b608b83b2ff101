"""What sharing gained or lost a task that mixes experts, how much they weigh, and how noisy its labels look (pure)."""

from __future__ import annotations

import math
from typing import Any

from drom_net.algorithms.adadrom.mixing import ALONE, EVIDENCE, EXPERTS, FLOOR
from drom_net.algorithms.features import Matrix, Vector
from drom_net.results.evidence import effect, interval, levels, missing, told_by

Figures = dict[str, Any]
_NOISE_FROM = 20
"""So many examples at least, or nothing is said of their noise."""


def sharing_sections(mixtures: Matrix, evidence: Matrix) -> tuple[Figures, list[Figures]]:
    """The figures of all tasks, and those of each.

    Args:
        mixtures: With `evidence`, a row a task.
    """
    of_each, of_all = levels(len(mixtures))
    of_tasks = [sharing_figures(*rows, of_each) for rows in zip(mixtures, evidence, strict=True)]
    return sharing_figures(mixtures.mean(axis=0), evidence.sum(axis=0), of_all), of_tasks


def sharing_figures(mixture: Vector, evidence: Vector, level: float | None = None) -> Figures:
    """What two vectors of a model say, as plain JSON types; None where there are no examples, or too few.

    Errors are those on the labels seen; `alone` is a mixture of those of its experts that use nothing
    of the others.
    `gain_points` (points of the error rate) and `gain_nats` (log loss an example) are positive where sharing helped.
    `gain_points_interval` and `gain_nats_interval` ([low, high]) hold at all times and both together, but for `level`;
    `effect` is what they say, `effect_by` which of the two says it (errors, where they do; else log loss), and
    `examples_missing` about how many more it takes until they say anything.
    `weight` is the mean over the examples of what the experts that share weigh. `noise` is the share of labels that
    came out contrary to the prediction, where each counts the more the surer it was.

    Args:
        mixture: The experts' weights at the end, as `EXPERTS`.
        evidence: What was counted, as `EVIDENCE`; by earlier versions without the last two.
        level: How probable a wrong `effect` may be; None where there is nobody to share with.
    """
    weights = dict(zip(EXPERTS[: len(mixture)], mixture.tolist(), strict=True))
    weight_alone = sum(weights.get(EXPERTS[expert], 0.0) for expert in ALONE)
    counts = dict(zip(EVIDENCE, evidence.tolist(), strict=False))
    examples = int(counts["examples"])
    errors, alone = int(counts["errors"]), int(counts["errors_alone"])
    figures: Figures = {"errors": errors, "errors_alone": alone}
    figures |= dict.fromkeys(("error_rate", "error_rate_alone", "gain_points", "gain_nats", "weight", "noise"))
    figures |= dict.fromkeys(("effect", "effect_by", "gain_points_interval", "gain_nats_interval", "examples_missing"))
    if examples:
        figures["error_rate"], figures["error_rate_alone"] = errors / examples, alone / examples
        figures["gain_points"] = 100.0 * (alone - errors) / examples
        figures["gain_nats"] = (counts["loss_alone"] - counts["loss"]) / examples
        figures["weight"] = counts["weight_of_sharing"] / examples
        if level is not None and "disagreements" in counts:
            figures |= _evidence(examples, counts, 0.5 * level)
    if examples >= _NOISE_FROM and counts["confidence"] > 0.0:
        figures["noise"] = counts["confident_errors"] / counts["confidence"]
    return figures | {"weight_at_end": 1.0 - weight_alone, "weights_at_end": weights}


def _evidence(examples: int, counts: dict[str, float], level: float) -> Figures:
    """How sure the gains are.

    Args:
        level: Of each of the two.
    """
    nats = examples, counts["loss_alone"] - counts["loss"], counts["loss_variance"], level
    errors = examples, counts["errors_alone"] - counts["errors"], counts["disagreements"], level
    of_nats, of_errors = interval(*nats, most=math.log((1.0 - FLOOR) / FLOOR)), interval(*errors, most=1.0)
    found = effect(of_nats, of_errors)
    forecasts = [more for more in (missing(*nats), missing(*errors)) if more is not None]
    return {
        "effect": found,
        "effect_by": told_by(found, of_errors),
        "gain_points_interval": [100.0 * bound for bound in of_errors],
        "gain_nats_interval": list(of_nats),
        "examples_missing": min(forecasts, default=None) if found == "cannot tell yet" else None,
    }
