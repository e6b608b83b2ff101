"""Measured regret: against the certified best W in hindsight, its slope in T, and Theorems 1 and 2 as numbers.

Three regrets are told apart, F_t(W) being the sum of the losses of the tasks active in round t (not weighted by gamma):

    plain      sum F_t(W_t)                       less the minimum over |W|_* <= r of sum F_t(W)
    objective  sum F_t(W_t) + lambda |W_t|_*      less the minimum over |W|_* <= r of sum F_t(W) + T lambda |W|_*
    mean       sum F_t(W_t) + lambda |sum W_t|_*  less the same minimum

`plain` is the paper's equation for Reg_T, `objective` is what its updates descend on (lambda acts in every round), and
`mean` is what the standard argument for a saddle point bounds: its dual comparator is one A for all rounds.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from drom_net.algorithms import BUILTIN
from drom_net.algorithms.drom import DromParameters
from drom_net.algorithms.drom_d import DromDParameters
from drom_net.algorithms.features import Matrix, Vector
from drom_net.algorithms.losses import LOSSES
from drom_net.core.errors import DataError
from drom_net.data.datasets import Dataset, load_dataset
from drom_net.data.prepare import make_stream
from drom_net.data.settings import DATA_SECTIONS, DigitsSites, StreamSettings, Synthetic
from drom_net.data.stream import TaskStream
from drom_net.graph.families import make_graph
from drom_net.graph.graph import GraphSchedule
from drom_net.graph.neighborhood import neighborhoods
from drom_net.graph.settings import TopologySettings
from drom_net.learning.records import TASK_DTYPE
from drom_net.learning.reference import run_reference, run_reference_peers
from drom_net.learning.task import TaskLearner
from drom_net.results.report import Cell, Panel, Picture, Reference, Report, Series, Table
from reproduction.hindsight import Hindsight, best_in_hindsight, nuclear_norm, signed_rows

TUNED = ("eta0", (0.3, 1.0, 3.0, 10.0, 30.0, 100.0))
"""The parameter that sets the step, and what every learner is tried with, but those of the theorems."""
TUNED_OTHERWISE: Mapping[str, tuple[str, tuple[float, ...]]] = {"d-admm": ("rho", (1.0, 10.0, 100.0, 1e3, 1e4))}
"""By algorithm, where it has no eta0: as many values, of what stands for 1/eta0."""
LAMBDA_IN_EVERY_ROUND = ("drom", "drom-d", "prox-gd")
"""Algorithms that pay lambda |W|_* once a round; D-ADMM has it once for all."""
TUNING_ORDER = 1000
"""The seed of the order that steps are chosen on; it is not evaluated."""
FITTED_POINTS = 6
"""The last so many powers of two are fitted: five doublings."""
DRAWN_POINTS = 200


@dataclass(frozen=True, slots=True)
class Candidate:
    """A learner with its parameters."""

    label: str
    algorithm: str
    parameters: Any
    graph: str | None = None
    """Of peers; None is a centre."""
    theory: bool = False
    """Its step is that of the theorems and is not tuned."""

    @property
    def lam(self) -> float:
        """The weight of the nuclear norm in each round; 0 for those without."""
        return self.parameters.lam if self.algorithm in LAMBDA_IN_EVERY_ROUND else 0.0

    @property
    def dual(self) -> bool:
        """Whether it has a dual vector a, and is what the theorems are about."""
        return isinstance(self.parameters, DromParameters)

    @property
    def step_name(self) -> str:
        """The parameter that sets its step."""
        return TUNED_OTHERWISE.get(self.algorithm, TUNED)[0]

    @property
    def tau(self) -> int:
        tau: int = getattr(self.parameters, "tau", 1)
        return tau

    @property
    def ball(self) -> float | None:
        """rho / lambda of DROM, where it is a number."""
        return self.parameters.rho / self.lam if self.dual and self.lam else None


class Trajectory(NamedTuple):
    """What a run left, by round t = 1 .. T."""

    losses: Vector
    """F_t(W_t)."""
    norms: Vector
    """|W_t|_*."""
    sums: Mapping[int, float]
    """|W_1 + .. + W_T|_* at each T that was asked for."""
    sigma: float
    """The largest sigma_1 of A_t that a centre saw."""
    reach_w: float
    """The largest |w_t| of a task."""
    reach_a: float
    kappa: float
    """The largest weight gamma of an example with a loss above 0."""


class Bracket(NamedTuple):
    """The truth is between the two."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        return 0.5 * (self.low + self.high)


class Slope(NamedTuple):
    """Of log regret against log T."""

    value: float
    standard_error: float


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A data set, the loss that is learned and measured on it, and the ball of the comparator."""

    dataset: Dataset
    settings: StreamSettings
    loss: str
    radius: float
    orders: int
    candidates: Callable[[str, float], list[Candidate]]

    @property
    def name(self) -> str:
        return self.dataset.name

    def streams(self, order: int) -> list[TaskStream]:
        """Its examples in the order of this seed."""
        tasks = enumerate(self.dataset.tasks)
        return [make_stream(task, self.settings, seed=order, index=index) for index, task in tasks]


def trajectory(
    candidate: Candidate,
    streams: Sequence[TaskStream],
    *,
    loss: str,
    checkpoints: Sequence[int] = (),
    rounds: int | None = None,
) -> Trajectory:
    """Run a learner by the plain loop and follow it.

    Args:
        loss: What F_t is measured in, whatever the learner itself uses.
        checkpoints: At which T the sum of W_t is wanted.
        rounds: At most so many.
    """
    total = np.zeros((len(streams), streams[0].dim))
    norms, sums = [0.0], {}  # W_1 = 0
    sigma = reach_w = reach_a = 0.0

    def follow(t: int, learners: Sequence[TaskLearner], last_sigma: float | None) -> bool:
        nonlocal sigma, reach_w, reach_a
        if t in checkpoints:
            sums[t] = nuclear_norm(total)
        models = [learner.result().model for learner in learners]
        W = np.stack([next(iter(model.values())) for model in models])  # w comes first
        np.add(total, W, out=total)
        norms.append(nuclear_norm(W))
        reach_w = max(reach_w, _longest(W))
        if candidate.dual:
            reach_a = max(reach_a, _longest(np.stack([model["a"] for model in models])))
        sigma = max(sigma, last_sigma or 0.0)
        return True

    make = BUILTIN[candidate.algorithm].build
    algorithm = make(candidate.parameters)
    if candidate.graph is None:
        star = run_reference(algorithm, streams, seed=0, rounds=rounds, after_round=follow)
        all_records = star.task_records
    else:
        names = [str(task) for task in range(len(streams))]
        graph = make_graph(TopologySettings(graph=candidate.graph), len(streams), names, Path())
        hoods = neighborhoods(GraphSchedule((graph,)), [algorithm.sync] * len(streams))
        algorithms = [algorithm] * len(streams)
        peers = run_reference_peers(algorithms, streams, hoods, seed=0, rounds=rounds, after_round=follow)
        all_records = peers.task_records
    losses, kappa = np.zeros(len(norms) - 1), 0.0
    value = LOSSES[loss].value
    for records in all_records:
        rows = np.frombuffer(records, TASK_DTYPE)
        rows = rows[rows["active"] == 1]
        losses[rows["round"] - 1] += [value(z) for z in (rows["label"] * rows["score"]).tolist()]
        kappa = max(kappa, float(rows["gamma"][rows["loss"] > 0.0].max(initial=0.0)))
    return Trajectory(losses, np.array(norms[:-1]), sums, sigma, reach_w, reach_a, kappa)


def _longest(rows: Matrix) -> float:
    return math.sqrt(float(np.max(np.einsum("ij,ij->i", rows, rows))))


class Minima:
    """The best W in hindsight over the prefixes of some streams, each found once, from that of a shorter prefix."""

    def __init__(self, streams: Sequence[TaskStream], loss: str) -> None:
        self._streams, self._loss = streams, loss
        self._rows = signed_rows(streams)
        self._found: dict[tuple[int, float, float], Hindsight] = {}
        self.beta = max(_longest(rows) for rows in self._rows if len(rows))
        """The Lipschitz constant of both losses: the longest x."""

    def of_zero(self, rounds: int) -> float:
        """The loss of W = 0, which every learner has without learning."""
        return LOSSES[self._loss].value(0.0) * sum(examples_until(stream, rounds) for stream in self._streams)

    def at(self, rounds: int, radius: float, lam: float = 0.0) -> Hindsight:
        """The minimum over |W|_* <= radius of sum F_t(W) + rounds lam |W|_*, t = 1 .. rounds."""
        key = (rounds, radius, lam)
        if key not in self._found:
            earlier = [T for T, other, weight in self._found if (other, weight) == (radius, lam) and rounds > T]
            start = self._found[max(earlier), radius, lam].W if earlier else None
            rows = [
                rows[: examples_until(stream, rounds)] for rows, stream in zip(self._rows, self._streams, strict=True)
            ]
            penalty = lam * rounds
            self._found[key] = best_in_hindsight(rows, loss=self._loss, radius=radius, penalty=penalty, start=start)
        return self._found[key]


def examples_until(stream: TaskStream, rounds: int) -> int:
    """How many examples the first rounds bring."""
    if stream.spread_over is None:
        return min(rounds, stream.num_examples)
    return min(rounds, stream.spread_over) * stream.num_examples // stream.spread_over


def plain_regret(run: Trajectory, minima: Minima, T: int, radius: float) -> Bracket:
    """sum F_t(W_t) less the minimum in the ball."""
    return _less(float(run.losses[:T].sum()), minima.at(T, radius))


def objective_regret(run: Trajectory, minima: Minima, T: int, radius: float, lam: float) -> Bracket:
    """The same with lambda |W|_* in every round."""
    return _less(float((run.losses[:T] + lam * run.norms[:T]).sum()), minima.at(T, radius, lam))


def mean_regret(run: Trajectory, minima: Minima, T: int, radius: float, lam: float) -> Bracket:
    """The same, with T lambda times the norm of the mean of W_t on the learner's side."""
    return _less(float(run.losses[:T].sum()) + lam * run.sums[T], minima.at(T, radius, lam))


def _less(total: float, best: Hindsight) -> Bracket:
    return Bracket(total - best.value, total - best.lower)


def theorem_bound(
    *, m: int, T: int, D: float, kappa: float, beta: float, lam: float, rho: float, tau: int = 1, eta0: float = 1.0
) -> float:
    """Theorem 2's bound of the regret; with tau = 1 it is Theorem 1's.

    Both are printed for eta0 = 1. For another first step D^2 is divided by it and the squared subgradients are
    multiplied with it, as in any sum of D^2 / eta_T and eta_t |g|^2.
    """
    primal, dual = kappa * beta + lam * D, rho + lam * D
    steps = (D / tau) ** 2 / eta0 + eta0 * (primal * primal + dual * dual)
    return m * math.sqrt(T) * math.pow(tau, 1.5) * steps


def diameter(run: Trajectory, best: Matrix) -> float:
    """A D that the theorems may assume: of the least ball around 0 that has all w_t and w* (all a_t and a*).

    The a* of a task is at most 1 long, as |A*|_2 <= 1. The least D is at least half of this one.
    """
    return 2.0 * max(run.reach_w, _longest(best), run.reach_a, 1.0)


def fit_slope(rounds: Sequence[float], regrets: Sequence[float]) -> Slope | None:
    """By least squares in log-log; None where a regret is not positive, or for fewer than 3 points."""
    if len(rounds) < 3 or min(regrets) <= 0.0:
        return None
    x, y = np.log(rounds), np.log(regrets)
    x = x - x.mean()
    value = float(x @ y / (x @ x))
    left = y - y.mean() - value * x
    return Slope(value, math.sqrt(float(left @ left) / (len(x) - 2) / float(x @ x)))


def powers_of_two(last: int, first: int = 16) -> list[int]:
    """first, 2 first, .. up to last."""
    return [first << k for k in range(max(0, (last // first).bit_length()))]


# What is run.

CONVEX: dict[str, object] = {"p": 1.0, "xi": math.inf, "kappa": 1.0, "eta0": 1.0, "solver": "gram"}
"""gamma = 1 always, so that all that is learned is convex; the steps are the theorems'."""


def theory_candidates(loss: str, radius: float) -> list[Candidate]:
    """DROM and DROM-D with the theorems' steps, for lambda = rho = 1 and for rho / lambda = radius."""
    literal = {**CONVEX, "loss": loss, "lam": 1.0, "rho": 1.0}
    wide = {**CONVEX, "loss": loss, "lam": 0.1, "rho": 0.1 * radius}
    light = {**CONVEX, "loss": loss, "lam": 0.01, "rho": 0.01 * radius}
    one, tenth, hundredth = "λ=ρ=1", f"λ=0.1 ρ={0.1 * radius:g}", f"λ=0.01 ρ={0.01 * radius:g}"

    def star(label: str, values: Mapping[str, Any]) -> Candidate:
        return Candidate(f"drom {label}", "drom", DromParameters(**values), theory=True)

    def peers(label: str, values: Mapping[str, Any], tau: int, graph: str) -> Candidate:
        parameters = DromDParameters(**values, tau=tau)
        return Candidate(f"drom-d {graph} τ={tau} {label}", "drom-d", parameters, graph, theory=True)

    return [
        star("paper p=0.5 ξ=1 λ=ρ=1", {**BUILTIN["drom"].presets["paper"], "solver": "gram"}),
        star(one, literal),
        star(tenth, wide),
        star(hundredth, light),
        peers(one, literal, 1, "full"),
        peers(tenth, wide, 1, "full"),
        peers(tenth, wide, 20, "full"),
        peers(tenth, wide, 1, "ring"),
    ]


def tuned_candidates(loss: str, radius: float) -> list[Candidate]:
    """Every algorithm with its default parameters, on this loss; its step is tuned.

    Those without a step are left out: they mix several models, and have no W_t that could be set beside the best W, or
    make their steps themselves (AROW, MT-CO2OL).
    """
    shared = {"loss": loss, "radius": radius, "solver": "gram"}
    found = []
    for name in BUILTIN:
        fields = {field.name for field in dataclasses.fields(BUILTIN[name].parameters)}
        if TUNED_OTHERWISE.get(name, TUNED)[0] not in fields:
            continue
        parameters = BUILTIN[name].parameters(**{key: value for key, value in shared.items() if key in fields})
        if not BUILTIN[name].has_peers(topology=False):
            found.append(Candidate(name, name, parameters))
            continue
        for graph, tau in (("full", 1), ("full", 20), ("ring", 1)):
            at: Any = dataclasses.replace(parameters, tau=tau)
            found.append(Candidate(f"{name} {graph} τ={tau}", name, at, graph))
    return found


def with_tuned_step(candidate: Candidate, streams: Sequence[TaskStream], loss: str, rounds: int) -> Candidate:
    """The same with the step of the least loss over so many rounds of an order that is not evaluated."""
    if candidate.theory:
        return candidate
    name, values = TUNED_OTHERWISE.get(candidate.algorithm, TUNED)
    tried = [
        dataclasses.replace(candidate, parameters=dataclasses.replace(candidate.parameters, **{name: value}))
        for value in values
    ]
    return min(tried, key=lambda one: float(trajectory(one, streams, loss=loss, rounds=rounds).losses.sum()))


SYNTHETIC_RADIUS = 80.0
"""So that it holds the best W of all of long prefixes: a learner that no ball holds would beat a smaller one."""
REAL_RADIUS = 200.0


def _synthetic(examples: int, orders: int) -> Benchmark:
    settings = Synthetic(tasks=12, examples=examples, dim=20, rank=2, noise=0.1, flip=0.1)

    def candidates(loss: str, radius: float) -> list[Candidate]:
        return tuned_candidates(loss, radius) + theory_candidates(loss, radius)

    return Benchmark(load_dataset(settings, base=Path()), settings, "hinge", SYNTHETIC_RADIUS, orders, candidates)


def _real(*, quick: bool, say: Callable[[str], None]) -> Benchmark:
    """spam-pu where it is at hand, else digits-sites, which needs no file."""
    if "spam-pu" in DATA_SECTIONS and not quick:
        spam = DATA_SECTIONS["spam-pu"]()
        try:
            dataset = load_dataset(spam, base=Path())
            return Benchmark(dataset, spam, "logistic", REAL_RADIUS, 1, tuned_candidates)
        except DataError as error:
            say(f"regret: digits-sites in place of spam-pu, which could not be read: {error}")
    digits = DigitsSites()
    dataset = load_dataset(digits, base=Path())
    return Benchmark(dataset, digits, "logistic", REAL_RADIUS, 1 if quick else 3, tuned_candidates)


@dataclass(frozen=True, slots=True)
class Measured:
    """One learner on one benchmark: each bracket is the mean over orders."""

    candidate: Candidate
    checkpoints: list[int]
    losses: list[float]
    minima: list[Bracket]
    plain: list[Bracket]
    """At the benchmark's radius."""
    objective: list[Bracket]
    """In the ball rho/lambda of DROM, else at the benchmark's radius; empty where there is no lambda."""
    mean: list[Bracket]
    slopes: list[Slope | None]
    """Of `plain`, by order."""
    theorem: Sequence[Cell]
    """The row of the table `theorems`, of the first order; empty for those without a rho/lambda."""
    norms: Vector
    """|W_t|_* of the first order."""


def measure(benchmark: Benchmark, *, say: Callable[[str], None]) -> list[Measured]:
    """Tune and run every learner of a benchmark, and take the minima from its losses."""
    orders = [benchmark.streams(seed) for seed in range(benchmark.orders)]
    minima = [Minima(streams, benchmark.loss) for streams in orders]
    rounds = max(stream.last_round() for stream in orders[0])
    checkpoints = powers_of_two(rounds)
    tuning = benchmark.streams(TUNING_ORDER)
    found = []
    for candidate in benchmark.candidates(benchmark.loss, benchmark.radius):
        tuned = with_tuned_step(candidate, tuning, benchmark.loss, max(1, rounds // 4))
        runs = [trajectory(tuned, streams, loss=benchmark.loss, checkpoints=checkpoints) for streams in orders]
        found.append(_measured(tuned, benchmark, runs, minima, checkpoints))
        say(f"regret: {benchmark.name}, {tuned.label}: {found[-1].plain[-1].middle:.0f} after {checkpoints[-1]} rounds")
    return found


def _measured(
    candidate: Candidate, benchmark: Benchmark, runs: list[Trajectory], minima: list[Minima], checkpoints: list[int]
) -> Measured:
    def each(of: Callable[[Trajectory, Minima, int], Bracket]) -> list[list[Bracket]]:
        return [[of(run, best, T) for T in checkpoints] for run, best in zip(runs, minima, strict=True)]

    def over_orders(brackets: list[list[Bracket]]) -> list[Bracket]:
        return [
            Bracket(float(np.mean([b.low for b in at])), float(np.mean([b.high for b in at])))
            for at in zip(*brackets, strict=True)
        ]

    plain = each(lambda run, best, T: plain_regret(run, best, T, benchmark.radius))
    objective: list[list[Bracket]] = []
    mean: list[list[Bracket]] = []
    theorem: Sequence[Cell] = ()
    if lam := candidate.lam:
        ball = candidate.ball or benchmark.radius
        objective = each(lambda run, best, T: objective_regret(run, best, T, ball, lam))
        mean = each(lambda run, best, T: mean_regret(run, best, T, ball, lam))
    if candidate.ball is not None:
        theorem = _theorem_row(candidate, benchmark.name, runs[0], minima[0], checkpoints[-1])
    return Measured(
        candidate,
        checkpoints,
        [float(np.mean([run.losses[:T].sum() for run in runs])) for T in checkpoints],
        over_orders(each(lambda _, best, T: Bracket((at := best.at(T, benchmark.radius)).lower, at.value))),
        over_orders(plain),
        over_orders(objective) if objective else [],
        over_orders(mean) if mean else [],
        [_fit(checkpoints, brackets) for brackets in plain],
        theorem,
        runs[0].norms,
    )


def _fit(checkpoints: Sequence[int], brackets: Sequence[Bracket]) -> Slope | None:
    """Of the middles, over the last points."""
    middles = [bracket.middle for bracket in brackets[-FITTED_POINTS:]]
    return fit_slope(checkpoints[-FITTED_POINTS:], middles) if middles else None


THEOREM_COLUMNS = (
    *("data", "algorithm", "lambda", "rho", "eta0", "tau", "p", "T"),
    *("rho_over_lambda", "share_of_rounds_within", "largest_nuclear_norm", "largest_sigma_1"),
    *("D", "kappa", "beta", "bound", "loss_of_w_0"),
    *("plain_low", "plain_high", "objective_low", "objective_high", "mean_low", "mean_high"),
)


def _theorem_row(candidate: Candidate, name: str, run: Trajectory, minima: Minima, T: int) -> Sequence[Cell]:
    q, ball = candidate.parameters, candidate.ball
    assert ball is not None
    best = minima.at(T, ball)
    D = diameter(run, best.W)
    bound = theorem_bound(
        m=len(best.W), T=T, D=D, kappa=run.kappa, beta=minima.beta, lam=q.lam, rho=q.rho, tau=candidate.tau, eta0=q.eta0
    )
    return (
        *(name, candidate.label, q.lam, q.rho, q.eta0, candidate.tau, q.p, T),
        *(ball, float(np.mean(run.norms[1:T] <= ball)), float(run.norms[:T].max()), run.sigma),
        *(D, run.kappa, minima.beta, bound, minima.of_zero(T)),
        *plain_regret(run, minima, T, ball),
        *objective_regret(run, minima, T, ball, q.lam),
        *mean_regret(run, minima, T, ball, q.lam),
    )


# The smallest case.

SMALLEST_X = 0.5


@dataclass(frozen=True, slots=True)
class Smallest:
    """One task of one feature, always x = 1/2 and y = +1; lambda = rho = 1 and the printed steps."""

    candidate: Candidate
    checkpoints: list[int]
    plain: list[Bracket]
    objective: list[Bracket]
    mean: list[Bracket]
    bounds: list[float]
    within: float
    """The share of rounds in which |W_t|_* <= rho/lambda."""
    largest: float
    D: float
    kappa: float


def smallest_cases(rounds: int) -> list[Smallest]:
    """DROM and DROM-D where everything can be followed by hand."""
    ones = np.ones(rounds)
    streams = [TaskStream(np.full((rounds, 1), SMALLEST_X), ones, ones)]
    minima = Minima(streams, "hinge")
    values: dict[str, Any] = {**CONVEX, "loss": "hinge", "lam": 1.0, "rho": 1.0}
    capped = {**values, "p": 0.9, "xi": 1.0}
    checkpoints = powers_of_two(rounds)
    found = []
    for candidate in (
        Candidate("drom", "drom", DromParameters(**values)),
        Candidate("drom p=0.9 ξ=1", "drom", DromParameters(**capped)),
        Candidate("drom-d τ=1", "drom-d", DromDParameters(**values), "full"),
    ):
        run = trajectory(candidate, streams, loss="hinge", checkpoints=checkpoints)
        D = diameter(run, minima.at(checkpoints[-1], 1.0).W)
        bounds = [
            theorem_bound(m=1, T=T, D=D, kappa=run.kappa, beta=minima.beta, lam=1.0, rho=1.0) for T in checkpoints
        ]
        found.append(
            Smallest(
                candidate,
                checkpoints,
                [plain_regret(run, minima, T, 1.0) for T in checkpoints],
                [objective_regret(run, minima, T, 1.0, 1.0) for T in checkpoints],
                [mean_regret(run, minima, T, 1.0, 1.0) for T in checkpoints],
                bounds,
                float(np.mean(run.norms <= 1.0)),
                float(run.norms.max()),
                D,
                run.kappa,
            )
        )
    return found


# The report.

CLAIMED = {"prox-gd": 0.5, "d-admm": 0.5, "d-ofw": 0.75, "drom": 0.5, "drom-d": 0.5}
"""The exponents of Table 1 (and of Theorem 2 for drom-d)."""

Row = Sequence[Cell]


def regret(*, quick: bool, say: Callable[[str], None]) -> Report:
    """Measure it all and say what came out.

    Args:
        quick: Short streams and one order: under a minute.
        say: Takes a line of progress.
    """
    small = smallest_cases(4096 if quick else 65536)
    benchmarks = [_synthetic(512 if quick else 4096, 1 if quick else 3), _real(quick=quick, say=say)]
    return make_report(benchmarks, [measure(benchmark, say=say) for benchmark in benchmarks], small)


def make_report(
    benchmarks: Sequence[Benchmark], measured: Sequence[Sequence[Measured]], small: Sequence[Smallest]
) -> Report:
    """The page, its tables and pictures, from what was measured of each benchmark."""
    return Report(
        name="regret",
        title="Regret against the best W in hindsight",
        text=_text(benchmarks, measured, small),
        tables={
            "regret": _regret_table(benchmarks, measured),
            "slopes": _slope_table(benchmarks, measured),
            "theorems": Table(THEOREM_COLUMNS, [one.theorem for part in measured for one in part if one.theorem]),
            "smallest": _smallest_table(small),
        },
        pictures={
            "regret": _regret_picture(benchmarks, measured, theory=False, title="tuned steps"),
            "printed": _regret_picture(benchmarks, measured, theory=True, title="printed steps"),
            "norms": _norm_picture(benchmarks[0], measured[0]),
            "smallest": _smallest_picture(small),
        },
    )


def _regret_table(benchmarks: Sequence[Benchmark], measured: Sequence[Sequence[Measured]]) -> Table:
    columns = (
        *("data", "loss", "radius", "orders", "algorithm", "step", "T", "learner_loss", "minimum_low", "minimum_high"),
        *("plain_low", "plain_high", "objective_low", "objective_high", "mean_low", "mean_high"),
    )
    rows: list[Row] = []
    for benchmark, part in zip(benchmarks, measured, strict=True):
        for one in part:
            head = (benchmark.name, benchmark.loss, benchmark.radius, benchmark.orders, one.candidate.label, _step(one))
            for k, T in enumerate(one.checkpoints):
                own: Row = (*one.objective[k], *one.mean[k]) if one.objective else (None,) * 4
                rows.append((*head, T, one.losses[k], *one.minima[k], *one.plain[k], *own))
    return Table(columns, rows)


def _step(one: Measured) -> str:
    """Such as eta0=3."""
    name = one.candidate.step_name
    return f"{name}={getattr(one.candidate.parameters, name):g}"


def _slope_table(benchmarks: Sequence[Benchmark], measured: Sequence[Sequence[Measured]]) -> Table:
    columns = (
        *("data", "algorithm", "step", "steps_of", "claimed", "from_T", "to_T"),
        *("plain_slope", "plain_standard_error", "plain_sd_over_orders", "plain_last_doubling"),
        *("objective_slope", "objective_standard_error", "mean_slope", "mean_standard_error"),
    )
    rows: list[Row] = []
    for benchmark, part in zip(benchmarks, measured, strict=True):
        for one in part:
            fitted = one.checkpoints[-FITTED_POINTS:]
            by_order = [slope.value for slope in one.slopes if slope is not None]
            spread = float(np.std(by_order, ddof=1)) if len(by_order) == len(one.slopes) > 1 else None
            steps = "theorem" if one.candidate.theory else "tuning"
            rows.append(
                (
                    *(benchmark.name, one.candidate.label, _step(one), steps, CLAIMED.get(one.candidate.algorithm)),
                    *(fitted[0], fitted[-1]),
                    *_cells(_fit(one.checkpoints, one.plain)),
                    spread,
                    _last_doubling(one.plain),
                    *_cells(_fit(one.checkpoints, one.objective)),
                    *_cells(_fit(one.checkpoints, one.mean)),
                )
            )
    return Table(columns, rows)


def _cells(slope: Slope | None) -> Row:
    return (None, None) if slope is None else tuple(slope)


def _last_doubling(brackets: Sequence[Bracket]) -> float | None:
    """The slope between the last two points."""
    if len(brackets) < 2 or min(brackets[-1].middle, brackets[-2].middle) <= 0.0:
        return None
    return math.log2(brackets[-1].middle / brackets[-2].middle)


def _smallest_table(cases: Sequence[Smallest]) -> Table:
    columns = (
        *("algorithm", "T", "plain_low", "plain_high", "objective_low", "objective_high", "mean_low", "mean_high"),
        *("bound", "share_of_rounds_within", "largest_nuclear_norm", "D", "kappa", "beta"),
    )
    rows: list[Row] = [
        (
            *(case.candidate.label, T, *case.plain[k], *case.objective[k], *case.mean[k], case.bounds[k]),
            *(case.within, case.largest, case.D, case.kappa, SMALLEST_X),
        )
        for case in cases
        for k, T in enumerate(case.checkpoints)
    ]
    return Table(columns, rows)


def _series(label: str, rounds: Sequence[int], brackets: Sequence[Bracket]) -> Series:
    """Of the points that a logarithmic axis has."""
    shown = [(float(T), b) for T, b in zip(rounds, brackets, strict=True) if b.low > 0.0]
    return Series(label, [T for T, _ in shown], [b.middle for _, b in shown])


def _guides(rounds: Sequence[int], through: float) -> list[Series]:
    """Lines of the claimed exponents through one value at the first T."""
    x = [float(T) for T in rounds]
    exponents = {"∝ √T": 0.5, "∝ T^(3/4)": 0.75, "∝ T": 1.0}
    return [
        Series(name, x, [through * (T / x[0]) ** power for T in x], guide=True) for name, power in exponents.items()
    ]


def _regret_picture(
    benchmarks: Sequence[Benchmark], measured: Sequence[Sequence[Measured]], *, theory: bool, title: str
) -> Picture:
    panels = []
    for benchmark, part in zip(benchmarks, measured, strict=True):
        shown = [one for one in part if one.candidate.theory == theory]
        if not shown:
            continue
        series = [_series(one.candidate.label, one.checkpoints, one.plain) for one in shown]
        first = max(one.plain[0].middle for one in shown)
        series += _guides(shown[0].checkpoints, first) if first > 0.0 else []
        where = f"{benchmark.name}, {title}"
        panels.append(Panel(where, "T (rounds)", f"regret (sum of {benchmark.loss})", series, log_x=True, log_y=True))
    return Picture(panels, columns=len(panels))


def _norm_picture(benchmark: Benchmark, part: Sequence[Measured]) -> Picture:
    """A panel for each rho/lambda."""
    groups: dict[float, list[Measured]] = {}
    for one in part:
        if one.candidate.ball is not None:
            groups.setdefault(one.candidate.ball, []).append(one)
    panels = []
    for ball, group in sorted(groups.items()):
        series = []
        for one in group:
            last = len(one.norms)
            picked = np.unique(np.geomspace(2, last, DRAWN_POINTS).astype(int))  # W_1 = 0 is on no logarithmic axis
            series.append(Series(one.candidate.label, picked.astype(float).tolist(), one.norms[picked - 1].tolist()))
        reference = Reference("ρ/λ", ball)
        title = f"{benchmark.name}, ρ/λ = {ball:.3g}"
        panels.append(Panel(title, "round", "nuclear norm of W_t", series, (reference,), log_x=True, log_y=True))
    return Picture(panels, columns=3)


def _smallest_picture(cases: Sequence[Smallest]) -> Picture:
    panels = []
    for case in cases:
        kinds = {"plain": case.plain, "objective": case.objective, "mean": case.mean}
        series = [_series(name, case.checkpoints, brackets) for name, brackets in kinds.items()]
        series.append(Series("bound of the theorem", [float(T) for T in case.checkpoints], case.bounds))
        panels.append(Panel(case.candidate.label, "T (rounds)", "regret", series, log_x=True, log_y=True))
    return Picture(panels, columns=3)


METHOD = """\
The paper's Table 1 claims a regret of order T^(1/2) for ProxGD, ADMM and DROM, and T^(3/4) for OFW. Theorem 1
(DROM) bounds it by m √T (D² + (κβ + λD)² + (ρ + λD)²), Theorem 2 (DROM-D) by m √T τ^(3/2) ((D/τ)² + (κβ + λD)² + (ρ
+ λD)²), both where |W_t|_* ≤ ρ/λ in all rounds t > 1. The paper measures none of it, and has no proof in its text.

## What was measured

The learners run by the plain loop. F_t(W_t) is the loss of the margins predicted in round t, summed over the tasks
active in it, without the weights γ. The comparator is the best W in a ball |W|_* ≤ r, found by accelerated
projected gradient steps, with a certified lower bound of the minimum; so every regret is a bracket (`_low`,
`_high`). Three are told apart:

- *plain*: Σ F_t(W_t) − min Σ F_t(W). The paper's definition of Reg_T.
- *objective*: Σ [F_t(W_t) + λ|W_t|_*] − min [Σ F_t(W) + Tλ|W|_*]. What the updates descend on, as λ acts in every
  round. (The paper's objective has λ|W|_* once for all T: that differs from plain by at most ρ.)
- *mean*: the same with λ|Σ W_t|_* on the learner's side. The standard argument for a saddle point bounds this one by
  O(√T) where γ = 1, all tasks meet in every round and D is finite. Its dual comparator is one A for all rounds, where
  the theorems name another A*_t in each; and it needs |W*|_* ≤ ρ/λ of the comparator W*, not of W_t.

Plain regrets are against the same r for all learners of a data set. Objective and mean are in DROM's own ball ρ/λ
(prox-gd's in that of r), and so is all of the table `theorems`. For the bounds, D is the diameter of the least ball
around 0 that holds every w_t and w* (a_t and a*): a valid D, at most twice the least. κ is the largest γ at a loss
above 0, β the longest x. Where η0 is not 1, the bound has D²/η0 and η0 times the other squares.
"""

WHY = """\
Why: the saddle point is w = 0, as λ = 1 is more than the slope β = 1/2, while the best w of the plain loss is 1.
Plain regret of a regularised learner is linear, up to λ|W*|_* a round. And the pair (w, a) turns around the saddle
point without coming nearer, so that λ|w_t| is paid in every round though the mean of w_t is near 0: the objective's
regret is linear as well, and the mean one is not. With ξ = 1 a round with w < 0 has a loss above 1, is an outlier,
and nothing ever moves again.
"""

CAUTION = """\
A slope over a few doublings of random examples is no order of growth. The claims are upper bounds for the worst
sequence: a smaller slope neither confirms nor sharpens one, a larger one refutes none before the bound itself is
passed, and a linear part that will rule later may not be seen yet. All prefixes are of one run: the points are not
independent, and the standard error of the fit is too small. A lower regret can go with a steeper slope. No slope is
given where the regret is not above 0 at every point: a learner outside of the ball may beat the best W in it.

## The theorems' preconditions and bounds

Nothing in Algorithm 1 or 2 enforces |W_t|_* ≤ ρ/λ. A bound above the loss of W = 0 says nothing at this T. Of the
first order:
"""

SPARSE = """\
In a sparse graph the corrections bound every |A^(i)|_2 of a neighborhood and not |A|_2. What the saddle point then
penalises is the largest tr(AᵀW) with all |A^(i)|_2 ≤ 1, which is at least |W|_*: the argument above does not reach
it.
"""


def _text(benchmarks: Sequence[Benchmark], measured: Sequence[Sequence[Measured]], small: Sequence[Smallest]) -> str:
    lines = [METHOD]
    for benchmark, part in zip(benchmarks, measured, strict=True):
        widest = max(bracket.high - bracket.low for one in part for bracket in one.plain)
        lines.append(
            f"- **{benchmark.name}**: {len(benchmark.dataset.tasks)} tasks, {benchmark.dataset.dim} features, loss "
            f"{benchmark.loss}, r = {benchmark.radius:g}, T = {part[0].checkpoints[-1]}, orders: {benchmark.orders}; "
            f"brackets are at most {widest:.2g} wide."
        )
    lines += [
        "",
        f"Tuned learners have their default parameters, and the {TUNED[0]} of {_listed(TUNED[1])} (d-admm: the rho of "
        f"{_listed(TUNED_OTHERWISE['d-admm'][1])}) with the least loss on a quarter of another order. "
        "d-admm learns the hinge whatever is measured.",
        "",
        "## The smallest case: both theorems fail as printed",
        "",
        "One task of one feature, always x = 1/2 and y = +1; hinge, λ = ρ = 1, the printed steps; DROM-D with τ = 1 "
        "and itself as its only neighbor. Every assumption holds:",
        "",
    ]
    for case in small:
        lines.append(
            f"- {case.candidate.label}: |W_t|_* ≤ ρ/λ in {_percent(case.within)} of the rounds (largest "
            f"{case.largest:.3f}), D = {case.D:.2f}, κ = {case.kappa:.2f}. At T = {case.checkpoints[-1]}: plain "
            f"{case.plain[-1].low:.0f}, objective {case.objective[-1].low:.0f}, mean {case.mean[-1].low:.0f}; bound "
            f"{case.bounds[-1]:.0f}. Above the bound are: plain {_crossing(case.plain, case)}, objective "
            f"{_crossing(case.objective, case)}."
        )
    lines += ["", WHY, "## Slopes", ""]
    for benchmark, part in zip(benchmarks, measured, strict=True):
        fitted = part[0].checkpoints[-FITTED_POINTS:]
        lines += [
            f"{benchmark.name}, plain regret from T = {fitted[0]} to {fitted[-1]} (slope ± standard error of the fit; "
            "that of the last doubling; the regret at the end):",
            "",
            *map(_slope_line, part),
            "",
        ]
    lines += [CAUTION, *(_theorem_line(one) for part in measured for one in part if one.theorem), "", SPARSE]
    return "\n".join(lines)


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _percent(share: float) -> str:
    return f"{100.0 * share:.1f} %"


def _crossing(regrets: Sequence[Bracket], case: Smallest) -> str:
    """From which T on a regret is certainly above the bound, in words."""
    below = [k for k, (regret, bound) in enumerate(zip(regrets, case.bounds, strict=True)) if regret.low <= bound]
    after = below[-1] + 1 if below else 0
    if after == len(regrets):
        return f"not yet at T = {case.checkpoints[-1]}"
    return f"from T = {case.checkpoints[after]} on"


def _slope_line(one: Measured) -> str:
    slope, last = _fit(one.checkpoints, one.plain), _last_doubling(one.plain)
    return (
        f"- {one.candidate.label} ({_step(one)}): "
        + ("no slope" if slope is None else f"{slope.value:.2f} ± {slope.standard_error:.2f}")
        + (", " if last is None else f", last {last:.2f}, ")
        + f"{one.plain[-1].middle:.0f}"
    )


def _theorem_line(one: Measured) -> str:
    cell = dict(zip(THEOREM_COLUMNS, one.theorem, strict=True))

    def number(name: str) -> float:
        value = cell[name]
        assert isinstance(value, int | float)
        return float(value)

    within = f"{_percent(number('share_of_rounds_within'))} of the rounds"
    return (
        f"- {cell['data']}, {cell['algorithm']}: |W_t|_* ≤ {number('rho_over_lambda'):.3g} in {within} (largest "
        f"{number('largest_nuclear_norm'):.1f}); the bound is {number('bound') / number('loss_of_w_0'):.2g} times the "
        f"loss of W = 0, the plain regret {number('plain_low') / number('bound'):.2g} of the bound"
    )
