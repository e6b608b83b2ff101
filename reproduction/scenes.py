"""Runs in which something goes wrong: a stream that changes or begins late, a site that sends garbage.

What is counted: the errors of some tasks by how many examples of their own they are away from the half of the run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.base import (
    Algorithm,
    CentralInfo,
    CentralState,
    Contribution,
    Example,
    LocalState,
    Prediction,
    Reply,
)
from drom_net.algorithms.features import MOST_OF_SUMMAND, Block, Features, SparseVectors, numbers
from drom_net.cluster.plan import algorithm_of
from drom_net.cluster.prepare import Prepared
from drom_net.comparison.comparison_data import ComparisonData, comparison_data, named_config
from drom_net.comparison.figures import Outcome, run_one
from drom_net.comparison.jobs import Job, configure
from drom_net.comparison.stats import Difference
from drom_net.comparison.tuning import Effort
from drom_net.data.settings import Mhci, StreamSettings
from drom_net.data.stream import TaskStream
from drom_net.learning.records import TASK_DTYPE
from drom_net.learning.reference import AfterRound, ReferenceResult, run_reference

BIN = 5
"""Errors are counted in bins of so many examples."""
ONE_HOT = "mhci-one-hot"
QUICK_ROUNDS = 60
QUICK_ORDERS = 2
LEARNERS: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "adadrom": ("adadrom", {}),
    "adadrom, robust": ("adadrom", {"robust": True}),
    "local, eta0 10": ("local", {"eta0": 10.0}),
    "local, eta0 20": ("local", {"eta0": 20.0}),
    "local, constant 3": ("local", {"eta0": 3.0, "steps": "constant"}),
    "local, constant 10": ("local", {"eta0": 10.0, "steps": "constant"}),
    "drom": ("drom", {}),
}
"""As it is called in tables -> the algorithm, and what of it is not at its default."""


# Data ---------------------------------------------------------------------------------------------


def data_of(name: str) -> StreamSettings:
    """The settings of a data set by its name; the one-hot features of mhci are `mhci-one-hot`."""
    return Mhci(features="one-hot") if name == ONE_HOT else named_config(name).data


def dataset_of(name: str, *, quick: bool, alignment: str = "lockstep") -> ComparisonData:
    """A data set to learn, by its name; a few rounds of it where all is to be quick."""
    data = dataclasses.replace(data_of(name), alignment=alignment)
    config = dataclasses.replace(named_config(data.dataset), name=name, data=data)
    return comparison_data(config).with_rounds(QUICK_ROUNDS if quick else None)


def seeds_of(*, quick: bool) -> range:
    """Those of the orders."""
    seeds = Effort().evaluation_seeds
    return seeds[:QUICK_ORDERS] if quick else seeds


def in_turn(order: int, number: int, num_tasks: int) -> list[int]:
    """So many tasks, others in each order (from 0), each about as often as the others over all orders."""
    return sorted({(order * number + place) % num_tasks for place in range(number)})


@dataclass(frozen=True, slots=True)
class Spliced(TaskStream):
    """A stream up to some round, and another one, whose rows and labels are its own, after it."""

    earlier: TaskStream | None = None
    """None: nothing comes before."""
    until: int = 0

    def example_at(self, t: int) -> tuple[Features, float, float] | None:
        if t > self.until:
            return TaskStream.example_at(self, t)
        return self.earlier.example_at(t) if self.earlier is not None else None


def splice(earlier: TaskStream | None, later: TaskStream, until: int) -> Spliced:
    """The examples of one stream up to a round, of another one after it; None is a stream that begins then."""
    return Spliced(later.rows, later.labels, later.clean, later.spread_over, later.passes, earlier=earlier, until=until)


# Learners -----------------------------------------------------------------------------------------


def by_own_examples(algorithm: Algorithm) -> Algorithm:
    """A learner whose rounds are its task's own examples: one that learns alone has no reason to count idle rounds."""

    def learn(state: LocalState, example: Example, t: int) -> tuple[LocalState, Prediction]:
        count, inner = state
        inner, prediction = algorithm.learn(inner, example, count + 1)
        return (count + 1, inner), prediction

    def update(state: LocalState, t: int) -> tuple[LocalState, Contribution]:
        count, inner = state
        inner, contribution = algorithm.update(inner, count)
        return (count, inner), contribution

    return algorithm._replace(
        init_local=lambda dim: (0, algorithm.init_local(dim)),
        learn=learn,
        update=update,
        predict=lambda state, x: algorithm.predict(state[1], x),
        model=lambda state: algorithm.model(state[1]),
    )


def poisoned(algorithm: Algorithm, task: int, factor: float, *, squares: bool) -> Algorithm:
    """The learner where one task multiplies the vectors that it sends.

    Args:
        squares: Whether sums of squares are multiplied by the factor's sign as well, and so may become negative.
    """

    def garbage(block: Block, *, is_first: bool) -> Block:
        held = numbers(block)
        factors = np.full((1 if held.ndim == 1 else len(held), 1), factor)
        if is_first and algorithm.name in WITH_SQUARES:
            assert not (held[-1] < 0.0).any(), f"the last row of {algorithm.name} is no sum of squares"
            factors[-1] = factor if squares else abs(factor)
        values = factors * held
        if held.dtype == np.int64:
            values = np.clip(values, -MOST_OF_SUMMAND, MOST_OF_SUMMAND).astype(np.int64)
        return block._replace(values=values) if isinstance(block, SparseVectors) else values.reshape(held.shape)

    def central_step(
        state: CentralState, contributions: Mapping[int, Contribution], members: Sequence[int] | None = None
    ) -> tuple[CentralState, dict[int, Reply], CentralInfo]:
        if task in contributions:
            sent = contributions[task]
            vectors = tuple(garbage(block, is_first=not n) for n, block in enumerate(sent.vectors))
            contributions = {**contributions, task: sent._replace(vectors=vectors)}  # task order stays
        return algorithm.central_step(state, contributions, members)

    return algorithm._replace(central_step=central_step)


WITH_SQUARES = ("adadrom",)
"""The learners whose first block ends with sums of squares."""


# Runs ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scene:
    """What is not as usual in a run; here nothing."""

    tasks: tuple[int, ...] = ()
    """Whose errors are counted."""

    def measured(self, num_tasks: int) -> tuple[int, ...]:
        """Their places among the streams."""
        return self.tasks

    def streams(self, prepared: Prepared) -> Sequence[TaskStream]:
        """What is learned, in task order."""
        return prepared.streams

    def algorithm(self, prepared: Prepared) -> Algorithm:
        """What learns."""
        algorithm = algorithm_of(prepared.config, 0)
        return by_own_examples(algorithm) if algorithm.name == "local" else algorithm


@dataclass(frozen=True, slots=True)
class SceneJob(Job):
    """A run of a scene in the plain loop; its outcome's curve has the errors by example, see `Tally`."""

    scene: Scene = field(default_factory=Scene)

    @property
    def key(self) -> str:
        return f"{super(SceneJob, self).key} {self.scene!r}"

    def run(self, stopped: Callable[[], bool]) -> Outcome:
        results: list[ReferenceResult] = []

        def loop(prepared: Prepared, after_round: AfterRound) -> ReferenceResult:
            config = prepared.config
            results.append(
                run_reference(
                    self.scene.algorithm(prepared),
                    self.scene.streams(prepared),
                    seed=config.seed,
                    rounds=config.rounds,
                    after_round=after_round,
                )
            )
            return results[0]

        prepared = self.prepare()
        outcome = run_one(prepared, stopped, loop=loop)
        if outcome.status != "finished":
            return outcome
        records = [results[0].task_records[task] for task in self.scene.measured(len(prepared.streams))]
        return dataclasses.replace(outcome, curve=errors_by_example(records, half_of(prepared)))


def half_of(prepared: Prepared) -> int:
    """The round after which things change."""
    return prepared.rounds // 2


def scene_job(dataset: ComparisonData, learner: str, seed: int, scene: Scene) -> SceneJob:
    """A run of one of `LEARNERS`."""
    name, values = LEARNERS[learner]
    return SceneJob(dataset, configure(dataset, name, values, seed=seed), f"{learner} on {dataset.name}", scene)


# What is counted ----------------------------------------------------------------------------------


def errors_by_example(task_records: Iterable[bytes], half: int) -> dict[str, list[float | None]]:
    """Errors on clean labels and examples, summed over tasks, by bins of a task's own examples; bin 0 is the first
    after round `half`, and bin -1 the last before."""
    wrong: dict[int, list[int]] = {}
    for records in task_records:
        rows = np.frombuffer(records, dtype=TASK_DTYPE)
        rows = rows[rows["active"] == 1]
        errors = (rows["score"] >= 0.0) != (rows["clean_label"] > 0.0)
        bins = (np.arange(len(rows)) - int((rows["round"] <= half).sum())) // BIN
        for place in np.unique(bins):
            counted = wrong.setdefault(int(place), [0, 0])
            counted[0] += int((bins == place).sum())
            counted[1] += int(errors[bins == place].sum())
    places = sorted(wrong)
    return {
        "bin": list(places),
        "examples": [wrong[place][0] for place in places],
        "errors": [wrong[place][1] for place in places],
    }


class Tally:
    """Errors by example, summed over some runs."""

    def __init__(self, outcomes: Iterable[Outcome]) -> None:
        """The runs must have finished."""
        counted: dict[int, npt.NDArray[np.int64]] = {}
        for outcome in outcomes:
            curve = outcome.curve
            for place, examples, errors in zip(curve["bin"], curve["examples"], curve["errors"], strict=True):
                row = counted.setdefault(int(place or 0), np.zeros(2, dtype=np.int64))
                row += (int(examples or 0), int(errors or 0))
        self._counted = counted

    @property
    def common(self) -> int:
        """How many examples after the change at least half of the streams have."""
        if 0 not in self._counted:
            return 0
        enough = self._counted[0][0] / 2.0
        return BIN * (1 + max(place for place, row in self._counted.items() if place >= 0 and row[0] >= enough))

    def counts(self, low: float = -np.inf, high: float = np.inf) -> tuple[int, int]:
        """(examples, errors) from `low` to below `high` examples after the change; both multiples of `BIN`."""
        rows = [row for place, row in self._counted.items() if low <= BIN * place < high]
        examples, errors = np.sum(rows, axis=0).tolist() if rows else (0, 0)
        return examples, errors

    def rate(self, low: float = -np.inf, high: float = np.inf) -> float | None:
        """The error rate there; None without examples."""
        examples, errors = self.counts(low, high)
        return errors / examples if examples else None


def finished(outcomes: Sequence[Outcome]) -> bool:
    """Whether none of them diverged."""
    return all(outcome.status == "finished" for outcome in outcomes)


def recovery(ours: Tally, yardstick: Tally | float, width: int) -> int | None:
    """After how many examples the error over the next `width` of them is at most a point, or a tenth, above a rate, or
    that of another tally on the same examples; None where it is not as long as half of the streams last."""
    for begin in range(0, ours.common - width + 1, BIN):
        wanted = yardstick if isinstance(yardstick, float) else yardstick.rate(begin, begin + width)
        rate = ours.rate(begin, begin + width)
        if rate is not None and wanted is not None and rate - wanted <= max(0.01, 0.1 * wanted):
            return begin
    return None


def steps_after(tally: Tally, step: int, low: int, high: int) -> tuple[list[float], list[float]]:
    """For a picture: the middle of each step of examples and the error rate in percent there."""
    found = [(begin + step / 2.0, tally.rate(begin, begin + step)) for begin in range(low, high, step)]
    return [x for x, rate in found if rate is not None], [100.0 * rate for _, rate in found if rate is not None]


def points_of(difference: Difference | None) -> str:
    """A difference of fractions in points, with its interval, for people."""
    if difference is None:
        return "-"
    mean = f"{100.0 * difference.mean:+.2f}"
    if difference.low is None or difference.high is None:
        return mean
    return f"{mean} [{100.0 * difference.low:+.2f}, {100.0 * difference.high:+.2f}]"
