"""Files of a node that are there whole or not at all, and records cut back to where a snapshot goes on."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO, cast

import numpy as np
import numpy.typing as npt

from drom_net.core.errors import CheckpointError, naming
from drom_net.storage.snapshot_codec import Part

PART, COPY = ".part", ".copy"


def write_atomically(path: Path, parts: Iterable[Part]) -> None:
    """The file with this content, on disk; or, with an OSError that names it, what was there before."""
    temporary = path.with_name(path.name + PART)
    with naming(path):
        try:
            file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                for part in parts:
                    left = memoryview(part)
                    while left:
                        left = left[os.write(file, left) :]
                os.fsync(file)
            finally:
                os.close(file)
            os.replace(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)  # the name, too
        finally:
            os.close(folder)


def cut_back(path: Path, dtype: npt.DTypeLike, round: int, *, expect_round: int | None = None) -> int:
    """Cut a file of rows back to those of rounds up to this one, and say how many these are.

    Args:
        path: Rows that were only ever appended, ascending in their field `round`. The last one may be torn. Rows of
            nothing but zero bytes count as not written: after a power loss a file may end with such. A file that is
            missing has no rows.
        expect_round: The round of the last row that must be there; None where there may be none.

    Raises:
        CheckpointError: That row is missing.
    """
    row = np.dtype(dtype)
    assert row.fields is not None
    where, offset = row.fields["round"][:2]
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        if expect_round is None:
            return 0
        raise CheckpointError(f"{path} is missing; the snapshot goes on from its row of round {expect_round}") from None
    try:
        with naming(path):
            size = os.fstat(file).st_size

            def round_at(index: int) -> int | None:
                """None for a row that was not written."""
                data = os.pread(file, row.itemsize, index * row.itemsize)
                return int(np.frombuffer(data, where, 1, offset)[0]) if any(data) else None

            kept, beyond = 0, size // row.itemsize
            while kept < beyond:
                middle = (kept + beyond) // 2
                found = round_at(middle)
                if found is not None and found <= round:
                    kept = middle + 1
                else:
                    beyond = middle
            last = round_at(kept - 1) if kept else None
            if expect_round is not None and (last is None or last < expect_round):
                there = "has no row up to" if last is None else f"ends with round {last} where it should have"
                raise CheckpointError(
                    f"{path} {there} round {expect_round}: it is not the file that the snapshot was made beside"
                )
            if size != kept * row.itemsize:
                os.ftruncate(file, kept * row.itemsize)
    finally:
        os.close(file)
    return kept


def bring_to_disk(file: IO[bytes] | int) -> None:
    if isinstance(file, int):
        os.fsync(file)
        return
    with naming(cast("object", file.name)):
        file.flush()
        os.fsync(file.fileno())
