"""Every kind of data by its name, and what can be asked of each: its tasks, its dim, its examples."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from drom_net.data import digits_sites, files, live_rows, public, synthetic
from drom_net.data.dataset import Dataset, TaskData, describe, pick_task
from drom_net.data.public.catalog import PUBLIC_SETS
from drom_net.data.settings import DigitsSites, FileData, LiveData, RowSettings, StreamSettings, Synthetic

__all__ = [
    "DATASETS",
    "Dataset",
    "TaskData",
    "describe",
    "known_dim",
    "load_dataset",
    "pick_task",
    "task_names",
]


def _load_files(settings: StreamSettings, base: Path, only: str | int | None) -> Dataset:
    assert isinstance(settings, FileData)
    return files.load_files(settings, base=base, only=only)


def _load_live(settings: StreamSettings, base: Path, only: str | int | None) -> Dataset:
    assert isinstance(settings, LiveData)
    return live_rows.describe_live(settings, only=only)


def _load_digits_sites(settings: StreamSettings, base: Path, only: str | int | None) -> Dataset:
    return digits_sites.load_digits_sites(only=only)


def _load_synthetic(settings: StreamSettings, base: Path, only: str | int | None) -> Dataset:
    assert isinstance(settings, Synthetic)
    return synthetic.load_synthetic(settings, only=only)


def _load_public(settings: StreamSettings, base: Path, only: str | int | None) -> Dataset:
    return public.load_public(settings, base=base, only=only)


DATASETS: dict[str, Callable[[StreamSettings, Path, str | int | None], Dataset]] = {
    FileData.dataset: _load_files,
    LiveData.dataset: _load_live,
    DigitsSites.dataset: _load_digits_sites,
    Synthetic.dataset: _load_synthetic,
    **dict.fromkeys(PUBLIC_SETS, _load_public),
}
"""Settings, base folder and the one task that is wanted (or None) to the data; keyed as `DATA_SECTIONS`."""


def load_dataset(settings: StreamSettings, *, base: Path, only: str | int | None = None) -> Dataset:
    """The examples of all tasks, or of one.

    Args:
        base: The folder relative file names start at; of public sets the first one that is searched.
        only: A task's name or number (from 0): read that task's data alone, as a lone worker does.
            Files then need `settings.tasks`.

    Raises:
        DataError: All that is wrong with the data, each with its place.
        UsageError: An optional package is missing.
    """
    dataset = DATASETS[settings.dataset](settings, base, only)
    return dataclasses.replace(dataset, measure=settings.measure or dataset.measure)


def task_names(settings: StreamSettings, base: Path) -> tuple[str, ...]:
    """The tasks in order. Reads no examples, but for a task column whose names the settings leave out.

    Raises:
        DataError: No files are there, or the file with the task column is wrong.
    """
    if isinstance(settings, FileData):
        return files.task_names(settings, base)
    if isinstance(settings, LiveData):
        return settings.tasks
    if isinstance(settings, Synthetic):
        return synthetic.task_names(settings)
    if settings.dataset in PUBLIC_SETS:
        return public.public_tasks(settings)
    return digits_sites.SITE_NAMES


def known_dim(settings: StreamSettings, base: Path) -> int | None:
    """The dim where it is known without the examples; None where the columns of a file decide it.

    Raises:
        DataError: The file of feature names is wrong.
    """
    if isinstance(settings, RowSettings):
        return files.known_dim(settings, base)
    if settings.dataset in PUBLIC_SETS:
        return public.public_dim(settings)
    return settings.dim if isinstance(settings, Synthetic) else digits_sites.DIM
