"""Mail: `spam-pu`, `spam-enron`, `spam-ecml2006`. Words by document frequency, tf-idf, unit norm."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from drom_net.data.public.content import (
    Content,
    Files,
    binary_labels,
    most_frequent,
    read_matlab,
    signs,
    sparse_counts,
    tf_idf,
    wrong,
)
from drom_net.data.public.places import members
from drom_net.data.stream import SparseRows

NUM_WORDS = 1458
"""As many as the paper's Spam Email has."""
NUM_WEKA_WORDS = 1450
"""As many as Weka's rule leaves of the four PU corpora."""
WEKA_KEEPS = 1000
PU_TASKS = ("pu1", "pu2", "pu3", "pua")
ENRON_TASKS = tuple(f"enron{number}" for number in range(1, 7))
ECML_TASKS = tuple(f"user-{number:02d}" for number in range(1, 16))
ECML_DIM = 152_543

_PU_PATH = re.compile(r"pu_corpora_public/(pu1|pu2|pu3|pua)/part(\d+)/(.*(?:spmsg|legit).*)")
_ENRON_PATH = re.compile(r"(enron[1-6])/(ham|spam)/((\d+)\..*)")


def read_spam_pu(files: Files, features: str) -> Content:
    """PU1, PU2, PU3, PUA: parts 1 to 10, mails of at least two words, by part and name.

    Args:
        features: Which words, as in `settings.SpamPu`.
    """
    path = files["pu_corpora_public.tar.gz"]
    mails: dict[str, list[tuple[int, str, list[int]]]] = {task: [] for task in PU_TASKS}
    for name, text in members(path, "pu_corpora_public/"):
        match = _PU_PATH.fullmatch(name)
        if match is not None:
            words = [int(word) for word in re.findall(rb"\d+", text)]
            if len(words) >= 2:
                mails[match[1]].append((int(match[2]), match[3], words))
    _require_mails(mails, path)
    for found in mails.values():
        found.sort(key=lambda mail: mail[:2])
    every = np.unique(np.concatenate([mail[2] for found in mails.values() for mail in found]))
    counts = [_count_numbers([mail[2] for mail in found], every) for found in mails.values()]
    labels = [signs(np.array(["spmsg" in mail[1] for mail in found])) for found in mails.values()]
    if features == "weka":
        spam, legitimate = ([rows.take(np.flatnonzero(y == sign)) for rows, y in zip(counts, labels, strict=True)]
                            for sign in (1.0, -1.0))  # fmt: skip
        columns = np.union1d(_weka_words(spam), _weka_words(legitimate))
    else:
        columns = most_frequent(counts, NUM_WORDS)
    return tf_idf(PU_TASKS, counts, labels, columns, tuple(map(str, every[columns].tolist())))


def read_spam_enron(files: Files) -> Content:
    """Six mailboxes in the order in which the mail came; words are two letters or more."""
    path = files["enron_spam.tar.gz"]
    mails: dict[str, list[tuple[int, str, bool, Counter[bytes]]]] = {task: [] for task in ENRON_TASKS}
    for name, text in members(path, "enron[1-6]/"):
        match = _ENRON_PATH.fullmatch(name)
        if match is not None:
            words = Counter(re.findall(rb"[a-z]{2,}", text))
            mails[match[1]].append((int(match[4]), match[3], match[2] == "spam", words))
    _require_mails(mails, path)
    for found in mails.values():
        found.sort(key=lambda mail: mail[:2])
    every = sorted(set().union(*(mail[3].keys() for found in mails.values() for mail in found)))
    number = {word: index for index, word in enumerate(every)}
    counts = []
    for found in mails.values():
        lengths = [len(mail[3]) for mail in found]
        indices = np.array([number[word] for mail in found for word in mail[3]], dtype=np.int32)
        values = np.array([count for mail in found for count in mail[3].values()], dtype=np.float64)
        row_of = np.repeat(np.arange(len(found)), lengths)
        order = np.lexsort((indices, row_of))
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        counts.append(SparseRows(indptr, indices[order], values[order], len(every)))
    labels = [signs(np.array([mail[2] for mail in found])) for found in mails.values()]
    columns = most_frequent(counts, NUM_WORDS)
    return tf_idf(ENRON_TASKS, counts, labels, columns, tuple(every[column].decode() for column in columns))


def read_spam_ecml2006(files: Files) -> Content:
    """15 users, 400 mails each, in the file's order."""
    path = files["emails.mat"]
    X, Y = read_matlab(path, "X", "Y")
    num_tasks = len(ECML_TASKS)
    for key, cells in (("X", X), ("Y", Y)):
        if np.shape(cells) != (1, num_tasks):
            raise wrong(f"{path}, {key}", f"1 x {num_tasks} cells", np.shape(cells))
    counts, labels = [], []
    for task in range(num_tasks):
        counts.append(sparse_counts(X[0, task], f"{path}, X{{{task + 1}}}", ECML_DIM))
        labels.append(binary_labels(Y[0, task], f"{path}, Y{{{task + 1}}}", len(counts[-1].indptr) - 1, 1, 0))
    columns = most_frequent(counts, NUM_WORDS)
    return tf_idf(ECML_TASKS, counts, labels, columns, tuple(f"word-{column + 1}" for column in columns))


def _require_mails(mails: dict[str, list], path: object) -> None:  # type: ignore[type-arg]
    for task, found in mails.items():
        if not found:
            raise wrong(path, f"mails of {task}", "none")


def _count_numbers(documents: Sequence[Sequence[int]], words: npt.NDArray[np.int64]) -> SparseRows:
    """How often each of the (sorted) words is in each document."""
    row_of = np.repeat(np.arange(len(documents)), [len(document) for document in documents])
    columns = np.searchsorted(words, np.concatenate(documents))
    cells, counts = np.unique(row_of * len(words) + columns, return_counts=True)
    indptr = np.searchsorted(cells, np.arange(len(documents) + 1) * len(words)).astype(np.int64)
    return SparseRows(indptr, (cells % len(words)).astype(np.int32), counts.astype(np.float64), len(words))


def _weka_words(counts: Sequence[SparseRows]) -> npt.NDArray[np.int64]:
    """The words of one class that are at least as frequent as its 1,000th."""
    frequency = np.zeros(counts[0].dim)
    for rows in counts:
        frequency += np.bincount(rows.indices, weights=rows.values, minlength=rows.dim)
    least = max(1.0, np.sort(frequency)[-WEKA_KEEPS]) if len(frequency) >= WEKA_KEEPS else 1.0
    return np.flatnonzero(frequency >= least)
