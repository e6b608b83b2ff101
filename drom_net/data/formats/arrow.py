"""Columns from pyarrow's record batches, as arrays of our own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.features import Vector
from drom_net.data.cells import MISSING
from drom_net.data.faults import extra
from drom_net.data.tables import Cells, Days, Numbers, Texts, Wanted

_DAY = 86_400


def pyarrow(what: str) -> Any:
    """The package. Its memory goes back to the system: what is kept of a table are arrays of our own."""
    with extra("tables", what):
        import pyarrow as pa
    pa.set_memory_pool(pa.system_memory_pool())
    return pa


def gather(batches: Iterable[Any], names: Sequence[str], wanted: Wanted, pa: Any) -> tuple[dict[str, Cells], int]:
    """The columns of all batches, and how many rows they have."""
    columns = [_Column({""} if name in wanted.names else MISSING) for name in names]
    num_rows = 0
    for batch in batches:
        num_rows += batch.num_rows
        for name, column, part in zip(names, columns, batch.columns, strict=True):
            column.extend(_part(part, pa, as_text=name in wanted.texts))
    pa.default_memory_pool().release_unused()
    return {name: column.cells for name, column in zip(names, columns, strict=True)}, num_rows


class _Growing:
    """Numbers that are appended, in one array: many small ones would leave memory in pieces."""

    def __init__(self, dtype: Any) -> None:
        self._values = np.empty(1 << 16, dtype=dtype)
        self._count = 0

    def extend(self, part: npt.NDArray[Any]) -> None:
        count = self._count + len(part)
        if count > len(self._values):
            larger = np.empty(max(count, 2 * len(self._values)), dtype=self._values.dtype)
            larger[: self._count] = self._values[: self._count]
            self._values = larger
        self._values[self._count : count] = part
        self._count = count

    @property
    def values(self) -> npt.NDArray[Any]:
        return self._values[: self._count]


class _Column:
    """A column while its batches come."""

    def __init__(self, missing: Collection[str]) -> None:
        self._missing = missing
        self._numbers: _Growing | None = None
        self._is_days = self._has_time = False
        self._known: dict[str, int] = {}
        self._codes = _Growing(np.int64)

    def extend(self, part: Any) -> None:
        """Take what `_part` made of a batch."""
        if isinstance(part, Days):
            self._is_days, self._has_time, part = True, self._has_time or part.has_time, part.values
        if isinstance(part, np.ndarray):
            self._numbers = self._numbers or _Growing(np.float64)
            self._numbers.extend(part)
            return
        encoded = part.dictionary_encode()
        codes = [self._code(value) for value in encoded.dictionary.to_pylist()]
        self._codes.extend(np.array([*codes, -1])[encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)])

    def _code(self, value: str) -> int:
        if value.strip() in self._missing:
            return -1
        return self._known.setdefault(value, len(self._known))

    @property
    def cells(self) -> Cells:
        if self._numbers is None:
            return Texts(self._codes.values, list(self._known))
        return Days(self._numbers.values, self._has_time) if self._is_days else Numbers(self._numbers.values)


def _part(column: Any, pa: Any, *, as_text: bool) -> Any:
    """One batch of a column: floats, Days, or an array of texts."""
    types, kind = pa.types, column.type
    if types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    if types.is_string(kind):
        return column
    if types.is_timestamp(kind) and not as_text:
        return _days(column, pa)
    if types.is_date(kind) and not as_text:
        days = column.cast(pa.date32()).cast(pa.int32()).cast(pa.float64())
        return Days(_floats(days), False)
    if as_text or not (types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)):
        return _as_text(column, pa)
    return _floats(column.cast(pa.float64(), safe=False))


def _as_text(column: Any, pa: Any) -> Any:
    """Whatever it is, as texts that `plain_text` makes alike."""
    if pa.types.is_floating(column.type) or pa.types.is_decimal(column.type):
        values = [None if value is None else repr(float(value)) for value in column.to_pylist()]
        return pa.array([None if value == "nan" else value for value in values], pa.string())
    return column.cast(pa.string())


def _floats(column: Any) -> Vector:
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)


def _days(column: Any, pa: Any) -> Days:
    """As `columns.days_of` counts them, to the last bit."""
    micro = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    missing = micro.is_null().to_numpy(zero_copy_only=False)
    ticks = micro.fill_null(0).to_numpy(zero_copy_only=False)
    days, rest = np.divmod(ticks, _DAY * 1_000_000)
    seconds, micros = np.divmod(rest, 1_000_000)
    values = days + (seconds + micros / 1e6) / float(_DAY)
    values[missing] = np.nan
    return Days(values, bool(rest[~missing].any()))
