"""Public data sets by name: which tasks and columns each has, and its examples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from drom_net.core.errors import DataError, Problem
from drom_net.data.dataset import Dataset, pick_task
from drom_net.data.public import mail, others, ratings
from drom_net.data.public.catalog import PUBLIC_SETS
from drom_net.data.public.content import Content, Files
from drom_net.data.public.places import check_file, require
from drom_net.data.settings import (
    Amazon,
    EachMovie,
    Jester,
    Landmine,
    Mhci,
    MovieLens,
    Newsgroups,
    SpamEcml2006,
    SpamEnron,
    SpamPu,
    StreamSettings,
    Wisdm,
)

__all__ = ["check_public", "load_public", "public_dim", "public_tasks"]


class _Shape(NamedTuple):
    tasks: tuple[str, ...]
    dim: int
    read: Callable[[Files], Content]
    positive: str = ""
    """What +1 means, where the settings say it."""


def _shape(settings: StreamSettings) -> _Shape:
    """Tasks, columns and reader of a set, known without its files."""
    match settings:
        case SpamPu(features=words):
            dim = mail.NUM_WEKA_WORDS if words == "weka" else mail.NUM_WORDS
            return _Shape(mail.PU_TASKS, dim, lambda files: mail.read_spam_pu(files, words))
        case SpamEnron():
            return _Shape(mail.ENRON_TASKS, mail.NUM_WORDS, mail.read_spam_enron)
        case SpamEcml2006():
            return _Shape(mail.ECML_TASKS, mail.NUM_WORDS, mail.read_spam_ecml2006)
        case Mhci(features=kind):
            dim = len(others.MHCI_FEATURES[kind])
            return _Shape(others.MHCI_TASKS, dim, lambda files: others.read_mhci(files, kind))
        case Jester():
            return _Shape(ratings.TASKS, ratings.NUM_OTHERS, ratings.read_jester)
        case MovieLens():
            return _Shape(ratings.TASKS, ratings.NUM_OTHERS, ratings.read_movielens)
        case EachMovie():
            return _Shape(ratings.TASKS, ratings.NUM_OTHERS, ratings.read_eachmovie)
        case Amazon():
            return _Shape(others.DOMAINS, others.AMAZON_DIM, others.read_amazon)
        case Newsgroups(pair=pair):
            return _Shape(
                others.NEWSGROUPS_TASKS, others.NEWSGROUPS_DIM, lambda files: others.read_newsgroups(files, pair)
            )
        case Landmine():
            return _Shape(others.FIELDS, others.LANDMINE_DIM + 1, others.read_landmine)
        case Wisdm(activity=activity):
            dim = len(others.WISDM_FEATURES) + 1
            return _Shape(others.PEOPLE, dim, lambda files: others.read_wisdm(files, activity), activity)
    raise AssertionError(settings)


def public_tasks(settings: StreamSettings) -> tuple[str, ...]:
    """The tasks in order; reads nothing."""
    return _shape(settings).tasks


def public_dim(settings: StreamSettings) -> int:
    """The number of features, bias included; reads nothing."""
    return _shape(settings).dim


def check_public(settings: StreamSettings, base: Path) -> None:
    """Passes a public data set whose files are those of its publisher by their SHA-256, and all other data.

    Args:
        base: As for `load_public`.

    Raises:
        DataError: A file is not here, damaged, or another one.
    """
    entry = PUBLIC_SETS.get(settings.dataset)
    if entry is not None:
        found = require(entry, base)
        for file in entry.files:
            check_file(found[file.names[0]], file)


def load_public(settings: StreamSettings, *, base: Path, only: str | int | None = None) -> Dataset:
    """The data set, or one task of it.

    Words, medians and deviations are those of all tasks, so the whole set is read even for one.

    Args:
        base: The first folder where its sub-folder is looked for, see `places.find`.

    Raises:
        DataError: Its files are not here, or cannot be read; whether they are its publisher's `check_public` tells.
        UsageError: An optional package is missing.
    """
    entry, shape = PUBLIC_SETS[settings.dataset], _shape(settings)
    chosen = None if only is None else pick_task(shape.tasks, only)
    tasks, features, preprocessing = shape.read(require(entry, base))
    dim = preprocessing.dim
    if dim != shape.dim:
        # Its name and its columns are what nodes agree on before any of them has read the files.
        raise DataError([Problem(f"data.dataset: {entry.name}", f"{shape.dim} columns from its files", str(dim))])
    return Dataset(
        name=entry.name,
        tasks=tasks if chosen is None else (tasks[chosen],),
        dim=dim,
        features=features,
        positive=shape.positive or entry.positive,
        preprocessing=preprocessing,
        description=entry.description,
        source=entry.source,
        licence=entry.licence,
        measure=entry.measure,
    )
