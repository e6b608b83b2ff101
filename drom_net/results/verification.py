"""Whether a run directory says of itself what its records say: digest and figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drom_net.algorithms import learner_named
from drom_net.learning.calibration import probabilities_of
from drom_net.learning.metrics import Totals, total
from drom_net.learning.records import (
    LEARNED,
    PREDICTED,
    central_chain_of,
    run_digest,
    task_chain_of,
)
from drom_net.results.model_file import load_model, require_vectors, vectors_of
from drom_net.results.run_directory import aucs, chain_of_rounds
from drom_net.results.sharing import sharing_sections
from drom_net.results.tables import read_records, rows_as_tuples

_CHECKED = ("examples", "errors", "seen_errors", "outliers", "error_rate", "f1")
_CHECKED_LATER = ("majority_errors", "majority_error_rate", "log_loss", "auc")
"""Figures of a summary that `verify` makes again from the records; the latter are not in those of earlier versions."""


def recompute_digest(run_dir: Path, names: Sequence[str]) -> str:
    """The digest of a run, from its records and its model alone.

    Raises:
        UsageError: A file is missing or damaged.
    """
    rows, centrals, peers = read_records(run_dir, names)
    model = load_model(run_dir)
    chains = []
    for index, task_rows in enumerate(rows):
        vectors = list(vectors_of(model, index).values())
        chains.append(task_chain_of(task_rows, vectors))
    return run_digest(chains, chain_of_rounds([central_chain_of(central) for central in centrals], peers=peers))


def wrong_figures(run_dir: Path, summary: dict[str, Any]) -> list[str]:
    """Which figures of a summary are not those of the records, as ``site-03: errors 9, records say 10``.

    Raises:
        UsageError: A file is missing or damaged.
        ConfigError: Its learner is of another package, which is not installed here.
    """
    names = [task["name"] for task in summary["tasks"]]
    rows, _, _ = read_records(run_dir, names)
    algorithm = learner_named(summary.get("algorithm", "drom"), f"{run_dir}: algorithm").make()
    model = load_model(run_dir)
    require_vectors(model, algorithm, run_dir)
    log_odds = algorithm.log_odds
    counts = []
    for task_rows in rows:
        totals = Totals()
        learned = task_rows[task_rows["active"] == LEARNED]
        clean_labels, scores, labels = (learned[name].tolist() for name in ("clean_label", "score", "label"))
        given = probabilities_of(clean_labels, scores, labels, log_odds)
        for row, p in zip(rows_as_tuples(learned), given, strict=True):
            _, _, score, label, gamma, _, clean, _, _ = row
            totals.count(score, clean, label, gamma, p)
        counts.append(totals)
    wrong = []
    if "sharing" in summary and {"MIXTURE", "EVIDENCE"} <= model.keys():  # else the digest is another one, too
        overall, of_tasks = sharing_sections(model["MIXTURE"], model["EVIDENCE"])
        for said, figures in [*zip(summary["tasks"], of_tasks, strict=True), (summary | {"name": "all"}, overall)]:
            its = said.get("sharing", {})
            its = {"effect_by": figures["effect_by"]} | its  # earlier versions did not say it
            if any(its.get(key) != value for key, value in figures.items()):
                wrong.append(f"{said['name']}: sharing is not what the models say")
    has_unlabelled = any((task_rows["active"] == PREDICTED).any() for task_rows in rows)
    auc_overall, auc_of_tasks = aucs(rows, [totals.examples for totals in counts])
    for name, said, totals, its_auc in [
        *zip(names, summary["tasks"], counts, auc_of_tasks, strict=True),
        ("all", summary, total(counts), auc_overall),
    ]:
        for key in _CHECKED + tuple(key for key in _CHECKED_LATER if key in said):
            if key == "auc" and said[key] is None and has_unlabelled:
                continue  # a run of before, when such rows took it away
            found = its_auc if key == "auc" else getattr(totals, key)
            if not _is_same(said.get(key), found):
                wrong.append(f"{name}: {key} {said.get(key)}, records say {found}")
    return wrong[:10]


def _is_same(said: Any, found: float | None) -> bool:
    """Bit for bit, but for logarithms of another machine and sums of them."""
    if isinstance(said, float) and isinstance(found, float):
        return math.isclose(said, found, rel_tol=1e-9)
    return bool(said == found)
