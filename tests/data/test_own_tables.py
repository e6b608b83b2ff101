"""Tables as a new user has them: nothing is tuned, and the error is that of a pipeline a careful person would write.

Each is made from a seed, with what real tables have: raw units, missing values, categories, dates, text. The pipeline
standardises by the rows before, has one-hot columns and missing indicators, and learns logistic regression by AdaGrad,
predicting before it learns: at each site alone, or all sites' rows together; the better of the two counts.
"""

from __future__ import annotations

import csv
import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drom_net.cluster.prepare import prepare
from drom_net.cluster.run import run_loop
from drom_net.config.load import load_config
from drom_net.data.datasets import load_dataset
from drom_net.learning.metrics import total

pytestmark = pytest.mark.slow
Row = dict[str, Any]


def chance(score: float, rng: np.random.Generator) -> bool:
    return bool(rng.random() < 1.0 / (1.0 + np.exp(-score)))


def patients(rng: np.random.Generator) -> list[Row]:
    """Raw units far from 0, values that are missing, categories, a date that does not matter."""
    rows = []
    lean = {f"Clinic {site}": rng.normal(0, 0.3, 3) for site in "ABC"}
    day = datetime.date(2023, 1, 1)
    for number in range(900):
        site = list(lean)[rng.integers(3)]
        age, dose = rng.normal(62, 11), rng.normal(40, 6)
        smokes, ward = rng.random() < 0.3, ["east", "west", "north", "south"][rng.integers(4)]
        effect = np.array([1.2, -1.0, 0.8]) + lean[site]
        score = 1.8 * (effect @ [(age - 62) / 11, (dose - 40) / 6, smokes - 0.3]) + (ward == "west") - 0.2
        rows.append(
            {
                "clinic": site,
                "visit": (day + datetime.timedelta(days=number // 3)).strftime("%d.%m.%Y"),
                "age": f"{age:.0f}",
                "dose mg": "" if rng.random() < 0.12 else f"{dose:.1f}",
                "smokes": "yes" if smokes else "no",
                "ward": ward,
                "outcome": "relapse" if chance(score, rng) else "fine",
            }
        )
    return rows


def machines(rng: np.random.Generator) -> list[Row]:
    """Columns of which one counts in billions and one in thousandths."""
    rows = []
    for number in range(1200):
        z = rng.standard_normal(4)
        score = 2.0 * (1.0 * z[0] - 1.0 * z[1] + 0.8 * z[2]) + 0.5
        rows.append(
            {
                "column 1": str(number),
                "plant": f"plant-{rng.integers(4)}",
                "cycles": f"{4e9 + 3e7 * z[0]:.0f}",
                "gap": f"{0.012 + 0.0004 * z[1]:.7f}",
                "temperature": f"{351.5 + 2.5 * z[2]:.2f}",
                "hum": f"{z[3] * 1e5:.0f}",
                "failed": str(int(chance(score, rng))),
            }
        )
    return rows


def tickets(rng: np.random.Generator) -> list[Row]:
    """Text, and a number beside it."""
    urgent = ["leak", "smoke", "alarm", "burst", "stuck", "loud"]
    calm = ["thanks", "question", "invoice", "address", "manual", "visit"]
    common = ["pump", "the", "valve", "today", "please", "number", "about", "north", "again", "line", "two", "old"]
    rows = []
    for _ in range(1500):
        is_urgent = rng.random() < 0.4
        words = [*rng.choice(common, 5), *rng.choice(urgent if is_urgent else calm, 2)]
        words += [*rng.choice(urgent + calm, 1)]
        rows.append(
            {
                "team": ["red", "blue"][rng.integers(2)],
                "message": " ".join(rng.permutation(words)) + f" {rng.integers(1000)}",
                "waiting": f"{rng.normal(35 + 10 * is_urgent, 12):.1f}",
                "urgent": str(bool(is_urgent)),
            }
        )
    return rows


def invoices(rng: np.random.Generator) -> list[Row]:
    """Codes, of which many are rare, and a label by the codes."""
    codes = [f"K{number:03}" for number in range(60)]
    weight = dict(zip(codes, rng.normal(0, 1.6, 60), strict=True))
    share = 1.0 / np.arange(1, 61)
    rows = []
    for number in range(2000):
        code = codes[rng.choice(60, p=share / share.sum())]
        amount = float(np.exp(rng.normal(5, 1)))
        rows.append(
            {
                "branch": str(1 + rng.integers(3)),
                "invoice": f"R-{number:06}",
                "code": code if rng.random() > 0.03 else f"X{rng.integers(10**6)}",
                "amount": f"{amount:.2f}",
                "paid late": "TRUE" if chance(1.5 * weight[code] + 0.8 * (np.log(amount) - 5), rng) else "FALSE",
            }
        )
    return rows


Make = Callable[[np.random.Generator], list[Row]]
TABLES: dict[str, tuple[Make, str, str]] = {
    "patients": (patients, "clinic", "outcome"),
    "machines": (machines, "plant", "failed"),
    "tickets": (tickets, "team", "urgent"),
    "invoices": (invoices, "branch", "paid late"),
}
"""How each is made, its column of sites and that of labels."""


# --- the pipeline ------------------------------------------------------------------------------------


def features_of(row: Row, left_out: set[str]) -> tuple[dict[str, float], dict[str, float]]:
    """(its numbers, the rest) of a row; what is missing has an indicator."""
    numbers, rest = {}, {"bias": 1.0}
    for name, text in row.items():
        if name in left_out:
            continue
        if text == "":
            rest[f"{name} missing"] = 1.0
            continue
        if text.count(".") == 2:
            numbers[name] = float(datetime.datetime.strptime(text, "%d.%m.%Y").toordinal())
            continue
        try:
            numbers[name] = float(text)
        except ValueError:
            words = text.split()
            rest |= {f"{name}={word}": len(words) ** -0.5 for word in words}
    return numbers, rest


class Standardised:
    """Numbers by mean and deviation of those before (Welford)."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, float, float]] = {}

    def take(self, numbers: dict[str, float]) -> dict[str, float]:
        scaled = {}
        for name, value in numbers.items():
            count, mean, squares = self._seen.get(name, (0, 0.0, 0.0))
            scaled[name] = float(np.clip((value - mean) / (squares / count) ** 0.5, -5, 5)) if squares else 0.0
            delta = value - mean
            mean += delta / (count + 1)
            self._seen[name] = count + 1, mean, squares + delta * (value - mean)
        return scaled


class AdaGrad:
    """Logistic regression, a step of its own size for each weight."""

    def __init__(self, step: float = 0.5) -> None:
        self._step = step
        self._w: dict[str, float] = {}
        self._squares: dict[str, float] = {}

    def is_wrong(self, x: dict[str, float], label: float) -> bool:
        """Predict, then learn."""
        score = sum(self._w.get(name, 0.0) * value for name, value in x.items())
        slope = -label / (1.0 + np.exp(label * score))
        for name, value in x.items():
            gradient = slope * value
            self._squares[name] = self._squares.get(name, 1e-8) + gradient**2
            self._w[name] = self._w.get(name, 0.0) - self._step * gradient / self._squares[name] ** 0.5
        return (score >= 0.0) != (label > 0.0)


def pipeline_error(rows: list[Row], site: str, label: str, positive: str, left_out: set[str]) -> float:
    """The better of alone and pooled."""
    errors = []
    for pooled in (False, True):
        scaling = {row[site]: Standardised() for row in rows}
        models: dict[str, AdaGrad] = {}
        wrong = 0
        for row in rows:
            numbers, rest = features_of(row, {site, label} | left_out)
            x = scaling[row[site]].take(numbers) | rest
            model = models.setdefault("" if pooled else row[site], AdaGrad())
            wrong += model.is_wrong(x, 1.0 if row[label] == positive else -1.0)
        errors.append(wrong / len(rows))
    return min(errors)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_learned_as_well_as_by_a_careful_pipeline(name: str, tmp_path: Path) -> None:
    """ "error at most one point above the better of `alone` and `pooled`", with nothing edited, over three seeds."""
    make, site, label = TABLES[name]
    ours, theirs, always = [], [], []
    for seed in range(3):
        rows = make(np.random.default_rng(seed))
        folder = tmp_path / str(seed)
        folder.mkdir()
        with (folder / "table.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        path = folder / "table.yaml"
        path.write_text(
            f"data: {{files: table.csv, task_column: {site}, label: {label}}}\nalgorithm: {{name: adadrom}}\n"
        )
        config = load_config(path)
        prepared = prepare(config, load_dataset(config.data, base=config.base))
        result = run_loop(prepared)
        error = total(task.totals for task in result.tasks).error_rate
        assert error is not None
        schema = prepared.dataset.preprocessing.schema
        labels = prepared.dataset.labels
        assert schema is not None and labels is not None
        left_out = {column.name for column in schema.columns if not column.is_used}
        ours.append(error)
        theirs.append(pipeline_error(rows, site, label, labels.positive[0], left_out))
        share = np.mean([row[label] == labels.positive[0] for row in rows])
        always.append(min(share, 1.0 - share))
    told = f"{name}: {np.mean(ours):.3f}, the pipeline {np.mean(theirs):.3f}, always one label {np.mean(always):.3f}"
    assert np.mean(ours) <= np.mean(theirs) + 0.01, told
    assert np.mean(ours) < 0.8 * np.mean(always), told


def test_what_does_not_matter_is_left_out(tmp_path: Path) -> None:
    rows = machines(np.random.default_rng(0))
    with (tmp_path / "table.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    (tmp_path / "t.yaml").write_text(
        "data: {files: table.csv, task_column: plant, label: failed}\nalgorithm: {name: adadrom}\n"
    )
    config = load_config(tmp_path / "t.yaml")
    data = load_dataset(config.data, base=config.base)
    kinds = {column.name: column.kind for column in data.preprocessing.schema.columns}  # type: ignore[union-attr]
    assert kinds == {
        "column 1": "counter",
        "cycles": "number",
        "gap": "number",
        "temperature": "number",
        "hum": "number",
    }
    assert '"column 1" counts the rows: left out' in data.notes
