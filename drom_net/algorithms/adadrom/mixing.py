"""How a task mixes its experts: Hedge, once by their weights at this task alone, once by others' weights too."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from drom_net.algorithms.features import Vector

FLOOR = 0.1
"""No expert gives a label less probability: a confident wrong label costs at most log 10, and its gradient fades."""
SHARE, SHARE_OF_PRIOR = 0.01, 0.1
"""What goes to all experts alike: of the weights after each example, so that a better one is found again; of others."""
LEAST = 1e-9
"""No less weight has either of the two mixtures."""
SCALE = 0.5 - FLOOR
ALONE = (0, 5)
"""The experts that use nothing of others."""


@dataclass(slots=True)
class Mixture:
    """The weights of K experts; each array has the sum 1, but for the last."""

    weights: Vector
    """By their losses here."""
    prior: Vector
    """What the experts weigh at other sites, in the mean."""
    both: Vector
    """Of the mixture by `weights`, and of that by the products of `weights` and `prior`."""
    alone: Vector
    """In a mixture of those that use nothing of others."""
    evidence: Vector
    """What is counted, as `ldr.EVIDENCE`."""

    def joint(self) -> Vector:
        """The weights of the second of both mixtures."""
        products = self.weights * self.prior
        return products / float(products.sum())

    def effective(self) -> Vector:
        """What each expert weighs in the prediction."""
        return self.mixed(self.joint())

    def mixed(self, joint: Vector) -> Vector:
        """The same, where `joint()` is known."""
        own, shared = self.both.tolist()
        found: Vector = own * self.weights + shared * joint
        return found


def even_mixture(num_experts: int) -> Mixture:
    """Before the first example."""
    even, alone = np.full(num_experts, 1.0 / num_experts), sum(expert < num_experts for expert in ALONE)
    return Mixture(even, even.copy(), np.full(2, 0.5), np.full(alone, 1.0 / alone), np.zeros(8))


def prior_of(others: Vector) -> Vector:
    """From the sum of the weights at other sites to `Mixture.prior`; even where there are none."""
    kept = np.maximum(others, 1e-12)  # a site may say what it likes
    return (1.0 - SHARE_OF_PRIOR) / float(kept.sum()) * kept + SHARE_OF_PRIOR / len(kept)


def tilts_of(z: list[float]) -> Vector:
    """By how much experts of these scores find the label +1 more probable than 1/2: pi(z) - 1/2."""
    tilts: Vector = SCALE * np.tanh(0.5 * np.array(z))  # s(z) - 1/2 = tanh(z/2) / 2
    return tilts


def slopes_of(tilts: Vector, y: float) -> Vector:
    """The derivatives by z of the losses -log pi(y z)."""
    return y / (2.0 * SCALE) * (tilts * tilts - SCALE * SCALE) / (0.5 + y * tilts)


def weigh(mixture: Mixture, tilts: Vector, y: float) -> tuple[float, float]:
    """Give all weights their new values, and count; returns (score, log loss) of the prediction."""
    joint, alone, given = mixture.joint(), list(ALONE[: len(mixture.alone)]), 0.5 + y * tilts
    effective = mixture.mixed(joint)
    score, score_alone = float(effective @ tilts), float(mixture.alone @ tilts[alone])
    loss, loss_alone = -math.log(0.5 + y * score), -math.log(0.5 + y * score_alone)
    wrong, wrong_alone = (score >= 0.0) != (y > 0.0), (score_alone >= 0.0) != (y > 0.0)
    sharing, sure = 1.0 - float(effective[alone].sum()), (score / SCALE) ** 4
    mixture.evidence += (1.0, wrong, wrong_alone, loss, loss_alone, sharing, sure, sure * wrong)
    both = mixture.both * (mixture.weights @ given, joint @ given)
    mixture.both = np.clip(both / both.sum(), LEAST, 1.0 - LEAST)
    mixture.weights = _after(mixture.weights, given)
    mixture.alone = _after(mixture.alone, given[alone])
    return score, loss


def _after(weights: Vector, given: Vector) -> Vector:
    """Hedge: the weights by the probability that each expert gave to the label, and a share for all alike."""
    products = weights * given
    return (1.0 - SHARE) / float(products.sum()) * products + SHARE / len(products)
