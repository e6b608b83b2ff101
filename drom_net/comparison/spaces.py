"""What is searched of each learner: ranges as plain values, and the settings that are drawn from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from drom_net.algorithms import ALGORITHMS, PARAMETERS
from drom_net.core.errors import UsageError, did_you_mean
from drom_net.core.fields import settings_of
from drom_net.core.seeding import stream

Values = Mapping[str, object]
"""Parameters by field name."""


@dataclass(frozen=True, slots=True)
class Log:
    """Uniform in the logarithm, from low to high."""

    low: float
    high: float

    def draw(self, draws: np.random.Generator) -> float:
        return _short(math.exp(draws.uniform(math.log(self.low), math.log(self.high))))


@dataclass(frozen=True, slots=True)
class Even:
    """Uniform from low to high."""

    low: float
    high: float

    def draw(self, draws: np.random.Generator) -> float:
        return _short(draws.uniform(self.low, self.high))


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of these values, each as likely; a value may stand more than once."""

    values: tuple[object, ...]

    def draw(self, draws: np.random.Generator) -> object:
        return self.values[int(draws.integers(len(self.values)))]


Spread = Log | Even | OneOf


def _short(value: float) -> float:
    """To four digits: settings are read and typed by people."""
    return float(f"{value:.4g}")


def _as_drawn(drawn: dict[str, object]) -> dict[str, object] | None:
    return drawn


def _of_drom(drawn: dict[str, object]) -> dict[str, object] | None:
    """rho from rho/lambda, and the cap xi from the loss at which it cuts; None where the pair (w, a) is unstable."""
    eta0, lam, p = float(drawn["eta0"]), float(drawn["lam"]), float(drawn["p"])  # type: ignore[arg-type]
    if eta0 * lam > 2.0:
        return None
    ratio, capped_at = float(drawn.pop("rho / lam")), float(drawn.pop("loss cap"))  # type: ignore[arg-type]
    return drawn | {"rho": _short(lam * ratio), "xi": _short(capped_at**p)}


@dataclass(frozen=True, slots=True)
class Learner:
    """One line of a comparison: an algorithm, what of it is fixed, and what is searched."""

    algorithm: str
    fixed: Values = field(default_factory=dict)
    space: Mapping[str, Spread] = field(default_factory=dict)
    """By field name, or by a name that `finish` replaces."""
    finish: Callable[[dict[str, object]], dict[str, object] | None] = _as_drawn
    """From what was drawn to parameters; None has it drawn again."""


_LOSS = OneOf(("logistic", "hinge"))
_STEP: dict[str, Spread] = {"eta0": Log(0.3, 100.0), "loss": _LOSS}
_DROM: dict[str, Spread] = {
    "eta0": Log(1.0, 100.0),
    "lam": Log(1e-4, 0.1),
    "rho / lam": Log(1.0, 4000.0),
    "p": Even(0.3, 1.0),
    "loss cap": OneOf((math.inf, math.inf, math.inf, math.inf, 1.0, 2.0, 3.0, 5.0)),
    "loss": _LOSS,
}
_OSMTL: dict[str, Spread] = {**_STEP, "alpha": Even(0.1, 1.0), "s": Log(0.01, 1.0)}

LEARNERS: dict[str, Learner] = {
    "drom": Learner("drom", space=_DROM, finish=_of_drom),
    "drom-d": Learner("drom-d", space=_DROM, finish=_of_drom),
    "local": Learner("local", space=_STEP),
    "pooled": Learner("pooled", space=_STEP),
    "osmtl-f": Learner("osmtl", {"relation": "fixed"}, {**_STEP, "alpha": Even(0.1, 1.0)}),
    "osmtl-e": Learner("osmtl", {"relation": "exponential"}, _OSMTL),
    "osmtl-t": Learner("osmtl", {"relation": "truncated"}, _OSMTL),
    "prox-gd": Learner("prox-gd", space={**_STEP, "lam": Log(1e-5, 0.5)}),
    "d-ofw": Learner("d-ofw", space={"eta0": Log(1.0, 100.0), "radius": Log(5.0, 500.0), "loss": _LOSS}),
    "d-admm": Learner(
        "d-admm",
        space={"C": Log(0.01, 10.0), "lam": Log(1e-3, 10.0), "rho": Log(0.1, 300.0), "replayed": OneOf((5, 20))},
    ),
}
"""What a comparison may name. An algorithm without an entry is compared with its default parameters."""


def learner_names() -> tuple[str, ...]:
    """All that a comparison may name."""
    known = {learner.algorithm for learner in LEARNERS.values()}
    return (*LEARNERS, *(name for name in ALGORITHMS if name not in known))


def learner_of(name: str) -> Learner:
    """The learner of this name.

    Raises:
        UsageError: There is none.
    """
    if name in LEARNERS:
        return LEARNERS[name]
    names = learner_names()
    if name not in names:
        hint = did_you_mean(name, names)
        raise UsageError(f'expected learners of {", ".join(names)}; got "{name}"' + (f"; {hint}" if hint else ""))
    return Learner(name)


def searched_keys() -> set[str]:
    """The keys of the section `algorithm` that some learner's search sets, or that name the learner."""
    keys = {"name", "preset"}
    for learner in LEARNERS.values():
        drawn = _drawn_fields(learner) | set(learner.fixed)
        keys |= {key for key, setting in settings_of(PARAMETERS[learner.algorithm]).items() if setting.field in drawn}
    return keys


def _drawn_fields(learner: Learner) -> set[str]:
    """The parameters that are drawn, by field name."""
    fields = set(learner.space)
    if learner.finish is _of_drom:
        fields |= {"rho", "xi"}
    return fields


def draw(name: str, number: int, seed: int) -> dict[str, object]:
    """The searched parameters of one setting, by field name; the same fields for every number.

    Args:
        number: From 0, which is the algorithm's defaults. A setting does not depend on how many others are drawn.
        seed: What the settings are drawn from.
    """
    learner = learner_of(name)
    draws = stream(seed, "settings", name, number)
    while True:
        drawn = learner.finish({key: spread.draw(draws) for key, spread in learner.space.items()})
        if drawn is not None:
            break
    if number:
        return drawn
    defaults = PARAMETERS[learner.algorithm]()
    return {key: getattr(defaults, key) for key in drawn}


def num_settings(name: str, wanted: int) -> int:
    """How many settings are tried: all that are wanted, or the defaults alone where nothing is searched."""
    return wanted if learner_of(name).space else 1
