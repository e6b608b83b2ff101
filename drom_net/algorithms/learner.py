"""The record of a learner: all that the rest of the package knows of it, in the module that computes it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from drom_net.algorithms.base import Algorithm, SyncRounds
from drom_net.algorithms.features import Features, Vector, dot
from drom_net.core.fields import REQUIRED, Choice, settings_of

Values = Mapping[str, object]
"""Parameters by field name."""


@dataclass(frozen=True, slots=True)
class Log:
    """Uniform in the logarithm, from low to high."""

    low: float
    high: float

    def draw(self, draws: np.random.Generator) -> float:
        return short(math.exp(draws.uniform(math.log(self.low), math.log(self.high))))


@dataclass(frozen=True, slots=True)
class Even:
    """Uniform from low to high."""

    low: float
    high: float

    def draw(self, draws: np.random.Generator) -> float:
        return short(draws.uniform(self.low, self.high))


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of these values, each as likely; a value may stand more than once."""

    values: tuple[object, ...]

    def draw(self, draws: np.random.Generator) -> object:
        return self.values[int(draws.integers(len(self.values)))]


Spread = Log | Even | OneOf


LOSS = OneOf(("logistic", "hinge"))
STEP: Mapping[str, Spread] = {"eta0": Log(0.3, 100.0), "loss": LOSS}
"""What is searched of learners that take gradient steps."""


def short(value: float) -> float:
    """To four digits: settings are read and typed by people."""
    return float(f"{value:.4g}")


def _as_drawn(drawn: dict[str, object]) -> dict[str, object] | None:
    return drawn


@dataclass(frozen=True, slots=True)
class Search:
    """One line of a comparison: what of the parameters is fixed, and what is searched."""

    suffix: str = ""
    """The line is called LEARNER-SUFFIX; without one as the learner."""
    fixed: Values = field(default_factory=dict)
    space: Mapping[str, Spread] = field(default_factory=dict)
    """By field name, or by a name that `finish` replaces. Empty: the defaults are the only setting."""
    finish: Callable[[dict[str, object]], dict[str, object] | None] = _as_drawn
    """From what was drawn to parameters; None has it drawn again."""


class Disagreement(NamedTuple):
    """Parameters that cannot stand together."""

    fields: tuple[str, ...]
    """By field name; of those that are given the last one is pointed at."""
    expected: str
    got: str


class AsARule(NamedTuple):
    """How much travels as a rule, of a learner that seldom sends all of its numbers: far less than at the most.

    Where rows are sparse it sends nothing of columns that no row of a site has.
    """

    part: tuple[float, float]
    """(of a contribution, of a reply) which share of its most bytes it takes where some of the numbers are sent."""
    in_full: tuple[float, float]
    """The same where all are."""
    again: float
    """All are sent again once a site has learned so many times as many examples as when they were sent last."""

    def is_due(self, examples: float, sent: float) -> bool:
        """Whether all are sent after so many examples, where they were sent last after `sent`; 0 for never."""
        return examples >= self.again * sent

    def count_in_full(self, sync: SyncRounds, last: int) -> int:
        """In how many sync rounds up to round `last` all are sent, where each round has an example."""
        found = t = 0
        while (t := sync.next(max(t + 1, math.ceil(self.again * t)))) <= last:
            found += 1
        return found


def _anything(values: Mapping[str, Any]) -> Disagreement | None:
    return None


def _linear(vectors: Mapping[str, Vector], x: Features) -> float:
    return dot(vectors["w"], x)


@dataclass(frozen=True, slots=True, kw_only=True)
class Learner:
    """A learner, as the configuration, comparisons and nodes know it."""

    name: str
    parameters: type
    """A frozen dataclass whose fields are made by `core.fields.option`, each with a default."""
    build: Callable[[Any], Algorithm]
    """From an instance of it to the algorithm."""
    reveals: str
    """What leaves a site, in one sentence."""
    reveals_with: Callable[[Any, bool], str] | None = None
    """(parameters, whether on a graph) -> in one sentence what the reducer, a neighbor and another site can compute
    with these; None where it is always `reveals`."""
    on: tuple[str, ...] = ("star",)
    """Where it runs: on a "star" its nodes are workers of a reducer, on a "graph" they are peers; on either, as a file
    has a section topology or not. On a graph the parameters must have `tau`, and may have `exchange`: without it a peer
    waits for its neighbors in each sync round (blocking)."""
    along_tree: bool = False
    """Whether on a graph something flows along a tree of it: then the graph has to stay, and has no weights."""
    presets: Mapping[str, Values] = field(default_factory=dict)
    """Named sets of parameters beside the defaults, which are the preset "default"."""
    check: Callable[[Mapping[str, Any]], Disagreement | None] = _anything
    """What several parameters must agree on: given those that are right by themselves, by field name."""
    searches: tuple[Search, ...] = (Search(),)
    """The lines of a comparison."""
    constants: tuple[object, ...] = ()
    """What of its code must be the same at all nodes, as the bits of integers that are added: part of the digest of the
    configuration, by which nodes know that they fit together."""
    shares_examples: bool = False
    """Whether its contributions are the examples themselves, which then leave their site. Its central step bounds them
    (`features.bounded_example`)."""
    score: Callable[[Mapping[str, Vector], Features], float] = _linear
    """The score of x by the vectors of `Algorithm.model`."""
    as_a_rule: AsARule | None = None
    """How much travels as a rule; None where it is about as much as at the most, or not known."""
    states: tuple[type, ...] = ()
    """Classes that its snapshots hold and that are in another module than its parameters; outside this package."""

    def __post_init__(self) -> None:
        if not self.on or not set(self.on) <= {"star", "graph"}:
            raise ValueError(f'{self.name}: a learner is on "star", "graph" or both, got {self.on}')
        settings = settings_of(self.parameters)
        if required := [key for key, setting in settings.items() if setting.default is REQUIRED]:
            raise ValueError(f"{self.name}: every parameter needs a default, {required[0]} has none")
        if taken := {"name", "preset"} & set(settings):
            raise ValueError(f"{self.name}: a parameter cannot be called {min(taken)}, as a key of the section is")
        if "graph" in self.on and "tau" not in settings:
            raise ValueError(f"{self.name}: a learner on a graph needs a parameter tau")

    @property
    def is_linear(self) -> bool:
        """Whether its model is w alone."""
        return self.score is _linear

    def has_peers(self, *, topology: bool) -> bool:
        """Whether its nodes are peers, in a file with or without a section topology."""
        return "graph" in self.on and (topology or "star" not in self.on)

    def make(self, **parameters: Any) -> Algorithm:
        """The algorithm with these parameters by field name, and the defaults of the others."""
        return self.build(self.parameters(**parameters))

    def what_leaves(self, parameters: Any, *, on_graph: bool) -> str:
        """In one sentence what others can compute with these parameters."""
        return self.reveals if self.reveals_with is None else self.reveals_with(parameters, on_graph)

    def preset(self, name: str) -> Values:
        """A named set; nothing where there is none of this name."""
        return self.presets.get(name, {})

    @property
    def preset_names(self) -> tuple[str, ...]:
        return ("default", *self.presets)


def exchange_of(parameters: Any) -> str:
    """How peers exchange: "blocking" unless the parameters say otherwise."""
    return str(getattr(parameters, "exchange", "blocking"))


def exchanges_of(parameters: type) -> tuple[str, ...]:
    """What may be chosen of it."""
    setting = settings_of(parameters).get("exchange")
    return setting.spec.words if setting is not None and isinstance(setting.spec, Choice) else ("blocking",)


def of_task(parameters: Any, task: int) -> Any:
    """The parameters of one task: tau may be a list of one for each."""
    tau = getattr(parameters, "tau", None)
    return dataclasses.replace(parameters, tau=tau[task]) if isinstance(tau, tuple) else parameters
