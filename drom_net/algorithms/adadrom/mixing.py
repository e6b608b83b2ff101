"""How a task mixes its experts: Hedge, once by their weights at this task alone, once by others' weights too.

Of nine numbers plain Python is as fast as NumPy.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass

FLOOR = 0.1
"""No expert gives a label less probability: a confident wrong label costs at most log 10, and its gradient fades."""
SHARE, SHARE_OF_PRIOR = 0.01, 0.1
"""What goes to all experts alike: of the weights after each example, so that a better one is found again; of others."""
LEAST = 1e-9
"""No less weight has either of the two mixtures."""
SCALE = 0.5 - FLOOR
_SOFT = 1e-3
"""So much is added to a probability, so that 0 and 1 have log odds."""
EVIDENCE = (
    *("examples", "errors", "errors_alone", "loss", "loss_alone", "weight_of_sharing"),
    *("confidence", "confident_errors", "loss_variance", "disagreements"),
)
"""What a task counts, by the labels that it sees: errors and log loss (nats) of the mixture, and of one of the experts
alone that use nothing of others, the sum of the weight of those that do, and its confidence, in all and where it was
wrong. Confidence is (|p - 1/2| / 0.4)^4, at most 1: above all the surest count, and a task of which it is never very
sure has some too. The last two are V of results.evidence for log loss and errors: for the latter it is how often the
two mixtures predicted different labels."""
EXPERTS = (
    *("local", "shared", "shared with offset", "directions", "shared with directions"),
    *("directions with offset", "recent directions"),
    *("local ridge", "shared with ridge"),
)
"""L, D, D+, S, DS, DS+, R, F, DF; the last two are there up to 2,048 features only."""
WITHOUT_RIDGE = 7
RECENT, OF_RECENT = 6, 0.01
"""R, which forgets, and what it weighs at first: it is let in where the others fail, and costs them little before."""
ALONE = (0, 7)
"""Those that use nothing of others."""


@dataclass(slots=True)
class Mixture:
    """The weights of K experts; each list has the sum 1, but for the last."""

    weights: list[float]
    """By their losses here."""
    prior: list[float]
    """What the experts weigh at other sites, in the mean."""
    both: list[float]
    """Of the mixture by `weights`, and of that by the products of `weights` and `prior`."""
    alone: list[float]
    """In a mixture of those that use nothing of others."""
    evidence: list[float]
    """What is counted, as `EVIDENCE`."""

    def score(self, margins: Sequence[float]) -> float:
        """p - 1/2 of the prediction."""
        own, joint = self.both
        products = list(map(operator.mul, self.weights, self.prior))
        return float(own * dot(self.weights, margins) + joint * (dot(products, margins) / sum(products)))

    def effective(self) -> list[float]:
        """What each expert weighs in the prediction."""
        own, joint = self.both
        joint /= dot(self.weights, self.prior)
        return [weight * (own + joint * prior) for weight, prior in zip(self.weights, self.prior, strict=True)]


def dot(ones: Sequence[float], others: Sequence[float]) -> float:
    """The sum of the products."""
    return float(sum(map(operator.mul, ones, others)))


def first_mixture(num_experts: int) -> Mixture:
    """Before the first example."""
    even, num_alone = [1.0 / num_experts] * num_experts, sum(expert < num_experts for expert in ALONE)
    return Mixture(
        list(first_weights(num_experts)), even, [0.5, 0.5], [1.0 / num_alone] * num_alone, [0.0] * len(EVIDENCE)
    )


@functools.cache
def first_weights(num_experts: int) -> tuple[float, ...]:
    """Of so many experts; what all get back of the weights is shared out in the same way."""
    of_others = (1.0 - OF_RECENT) / (num_experts - 1)
    return tuple(OF_RECENT if expert == RECENT else of_others for expert in range(num_experts))


def prior_of(others: Sequence[float]) -> list[float]:
    """From the sum of the weights at other sites to `Mixture.prior`; even where there are none."""
    kept = [max(weight, 1e-12) for weight in others]  # a site may say what it likes
    return _shared(kept, SHARE_OF_PRIOR, _even(len(kept)))


def margins_of(z: Sequence[float]) -> list[float]:
    """By how much experts of these scores find the label +1 more probable than 1/2: pi(z) - 1/2."""
    return [SCALE * math.tanh(0.5 * one) for one in z]  # s(z) - 1/2 = tanh(z/2) / 2


def log_odds(score: float) -> float:
    """Those of p without its floor, which p - 1/2 stands for."""
    return math.log((SCALE + score + _SOFT) / (SCALE - score + _SOFT))


def slope_of(margin: float, y: float) -> float:
    """The derivative by z of the loss -log pi(y z)."""
    return y / (2.0 * SCALE) * (margin * margin - SCALE * SCALE) / (0.5 + y * margin)


def weigh(mixture: Mixture, margins: Sequence[float], y: float) -> tuple[float, float]:
    """Give all weights their new values, and count; returns (score, log loss) of the prediction."""
    (own, joint), weights, num_alone = mixture.both, mixture.weights, len(mixture.alone)
    products = list(map(operator.mul, weights, mixture.prior))
    total, of_own = sum(products), dot(weights, margins)
    of_joint = dot(products, margins) / total
    score = own * of_own + joint * of_joint
    score_alone, sharing = 0.0, 1.0
    for weight, expert in zip(mixture.alone, ALONE, strict=False):
        score_alone += weight * margins[expert]
        sharing -= own * weights[expert] + joint / total * products[expert]
    loss, loss_alone = -math.log(0.5 + y * score), -math.log(0.5 + y * score_alone)
    wrong, wrong_alone = (score >= 0.0) != (y > 0.0), (score_alone >= 0.0) != (y > 0.0)
    confidence = (score / SCALE) ** 4
    half_range = 0.5 * (loss_alone - loss - math.log((0.5 - y * score) / (0.5 - y * score_alone)))
    of_losses, of_errors = half_range * half_range, wrong != wrong_alone
    counts = (1.0, wrong, wrong_alone, loss, loss_alone, sharing, confidence, confidence * wrong, of_losses, of_errors)
    mixture.evidence = list(map(operator.add, mixture.evidence, counts))
    own *= 0.5 + y * of_own
    own = min(1.0 - LEAST, max(LEAST, own / (own + joint * (0.5 + y * of_joint))))
    mixture.both = [own, 1.0 - own]
    likelihoods = [0.5 + y * margin for margin in margins]  # the probability of the label
    mixture.weights = _shared(list(map(operator.mul, weights, likelihoods)), SHARE, first_weights(len(weights)))
    of_alone = [mixture.alone[n] * likelihoods[ALONE[n]] for n in range(num_alone)]
    mixture.alone = _shared(of_alone, SHARE, _even(num_alone))
    return score, loss


def _shared(values: Sequence[float], share: float, parts: Sequence[float]) -> list[float]:
    """Values brought to the sum 1, of which a share is for all in these parts."""
    factor = (1.0 - share) / sum(values)
    return [factor * value + share * part for value, part in zip(values, parts, strict=True)]


@functools.cache
def _even(count: int) -> tuple[float, ...]:
    return (1.0 / count,) * count
