"""model.npz: what was learned, and how rows become what it was learned on."""

from __future__ import annotations

import dataclasses
import json
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.base import Algorithm
from drom_net.algorithms.features import Vector
from drom_net.core.errors import UsageError, naming
from drom_net.data.columns import NUMBER, Column, Schema
from drom_net.data.incoming import RowReader
from drom_net.data.preprocessing import Preprocessing
from drom_net.learning.task import CALIBRATION
from drom_net.results.outcomes import TaskOutcome

_ABOUT_MODEL = ("algorithm", "tasks", "features", "preprocessing", "positive")
"""What is in model.npz beside the vectors."""


def model_arrays(
    tasks: Sequence[TaskOutcome],
    *,
    algorithm: str,
    features: Sequence[str] | None,
    preprocessing: dict[str, Any],
    positive: str,
) -> dict[str, npt.NDArray[Any]]:
    """What model.npz has: the vectors of the model, one a row of a task, W of shape (m, d) first; the names of tasks
    and features (empty where unknown); the preprocessing as JSON."""
    arrays: dict[str, npt.NDArray[Any]] = {
        name.upper(): np.stack([task.model[name] for task in tasks]) for name in tasks[0].model
    }
    arrays["algorithm"] = np.array(algorithm)
    arrays["tasks"] = np.array([task.name for task in tasks], dtype=str)
    arrays["features"] = np.array(list(features or ()), dtype=str)
    arrays["preprocessing"] = np.array(json.dumps(preprocessing))
    arrays["positive"] = np.array(positive)
    return arrays


def write_model(path: Path, arrays: dict[str, npt.NDArray[Any]]) -> None:
    """Write model.npz, of `model_arrays`."""
    temporary = path.with_name(path.name + ".part")
    with naming(path), temporary.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # its stub takes them for allow_pickle
    temporary.replace(path)


def vectors_of(model: dict[str, npt.NDArray[Any]], index: int) -> dict[str, Vector]:
    """One task's part of a model, by the names and in the order of its algorithm."""
    return {key.lower(): np.ascontiguousarray(model[key][index]) for key in model if key not in _ABOUT_MODEL}


def require_vectors(model: dict[str, npt.NDArray[Any]], algorithm: Algorithm, run_dir: Path) -> None:
    """Raises UsageError where a model has not what its learner has in this version."""
    expected = [*algorithm.model(algorithm.init_local(model["W"].shape[1]))]
    expected += [] if algorithm.log_odds is None else [CALIBRATION]
    missing = [name for name in expected if name.upper() not in model]
    if missing:
        raise UsageError(
            f"{run_dir} is of an earlier version of {algorithm.name}: expected a model with {', '.join(missing)}, got "
            "none; `show` reads it, and run again it can be verified and predict"
        )


def load_model(run_dir: Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays of model.npz.

    Raises:
        UsageError: It is missing or damaged.
    """
    path = run_dir / "model.npz"
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            model = {name: arrays[name] for name in arrays.files}
    except FileNotFoundError:
        raise UsageError(f"{path} is missing: {run_dir} is not the directory of a finished run") from None
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise UsageError(f"{path} is damaged: {error}") from None
    missing = {"W", "tasks", "features", "preprocessing"} - model.keys()
    if missing:
        raise UsageError(f"{path} is no model of drom-net: it has no {', '.join(sorted(missing))}")
    return model


def row_reader_of(model: dict[str, npt.NDArray[Any]]) -> RowReader:
    """What reads rows for a model, also one of an earlier version: columns with names and no kinds are numbers."""
    made = Preprocessing.from_json(json.loads(str(model["preprocessing"])))
    features = tuple(str(name) for name in model["features"])
    if made.bias and features:
        features = features[:-1]
    if made.schema is None and features and made.hash is None:
        schema = Schema(tuple(Column(name, NUMBER) for name in features), places=0)
        made = dataclasses.replace(made, schema=schema, numbers=len(features))
    return RowReader(made)
