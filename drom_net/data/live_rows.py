"""What live rows are, before any has come."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from drom_net.data.dataset import Dataset, TaskData, pick_task
from drom_net.data.faults import Faults
from drom_net.data.file_settings import preprocessing_of, read_features, with_bias
from drom_net.data.incoming import RowReader
from drom_net.data.labels import NEGATIVE, NUMERIC, Labels
from drom_net.data.preprocessing import HASHED_DIM
from drom_net.data.settings import LiveData


def with_names(settings: LiveData, base: Path) -> LiveData:
    """The settings with the names of the features in place of a file of them, so that nodes need no such file.

    Raises:
        DataError: The file is wrong, or the numbers of columns do not agree.
    """
    faults = Faults()
    features = read_features(settings, base, faults)
    faults.raise_if_any()
    settings = dataclasses.replace(settings, features=features)
    schema = settings.schema
    width = schema.num_numbers if schema is not None else settings.hash or settings.dim or 0
    for place, numbers in (("data.center", settings.center), ("data.scale", settings.scale)):
        if numbers is not None and len(numbers) != width:
            faults.add(place, f"{width} numbers, one a column", str(len(numbers)))
    faults.raise_if_any()
    return settings


def live_rows(settings: LiveData) -> RowReader:
    """What live rows are; the settings as `with_names` gives them."""
    schema = settings.schema
    raw_dim = schema.width if schema is not None else HASHED_DIM if settings.hash is not None else settings.dim or 0
    preprocessing = preprocessing_of(settings, raw_dim, schema)
    labels = dataclasses.replace(NUMERIC, missing=settings.no_label)
    if settings.positive is not None:
        labels = Labels(settings.positive, settings.negative or (), settings.rest == NEGATIVE, settings.no_label)
    return RowReader(preprocessing, settings.label, labels, delimiter=settings.delimiter, decimal=settings.decimal)


def describe_live(settings: LiveData, *, only: str | int | None = None) -> Dataset:
    """Live data as a data set that has no rows yet."""
    reader = live_rows(settings)
    names = settings.tasks if only is None else (settings.tasks[pick_task(settings.tasks, only)],)
    preprocessing = reader.preprocessing
    schema = preprocessing.schema
    return Dataset(
        name=settings.dataset,
        tasks=tuple(
            TaskData(name, np.zeros((0, preprocessing.raw_dim if schema else 0)), np.zeros(0)) for name in names
        ),
        dim=preprocessing.dim,
        features=with_bias(None if schema is None else schema.names, settings),
        positive=f"label {(reader.labels.positive or ('1',))[0]}",
        preprocessing=preprocessing,
        description="Examples that come while the cluster runs.",
        source="each site's own (section source)",
        licence="the user's own",
        is_prepared=False,
        labels=reader.labels,
    )
