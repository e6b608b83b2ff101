"""Parquet files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from drom_net.data.faults import Faults, extra, quoted
from drom_net.data.formats.arrow import gather, pyarrow
from drom_net.data.formats.base import TableFormat
from drom_net.data.opening import opened, reading
from drom_net.data.tables import Cells, FileTable, Wanted, named_columns

_INDEX_OF_PANDAS = re.compile(r"__index_level_\d+__$")


class Parquet(TableFormat):
    name = "parquet"
    suffixes = (".parquet", ".pq")
    extra = "tables"
    is_packed = True

    def header(self, path: Path, shown: str, wanted: Wanted, faults: Faults) -> tuple[str, ...] | None:
        with extra("tables", "Parquet files"):
            import pyarrow.parquet as pq
        with _damage_as_fault(path, shown, faults), opened(path) as file:
            return _column_names(pq.ParquetFile(file), shown, faults)
        return None

    def table(self, path: Path, shown: str, wanted: Wanted, faults: Faults) -> FileTable | None:
        pa = pyarrow("Parquet files")
        import pyarrow.parquet as pq

        before = faults.count
        columns: dict[str, Cells] = {}
        num_rows = 0
        with _damage_as_fault(path, shown, faults), opened(path) as raw:
            file = pq.ParquetFile(raw)
            names = _column_names(file, shown, faults)
            if names is None:
                return None
            kept = [name for name in names if name not in wanted.skip]
            fields = {field.name.strip(): field for field in file.schema_arrow}
            for name in kept:
                if not is_readable(fields[name].type, pa):
                    expected, got = "numbers, texts, dates or yes/no", f"the type {fields[name].type}"
                    faults.add(f"{shown}, column {quoted(name)}", expected, got, "data.ignore leaves it out")
            if faults.count > before:
                return None
            batches = file.iter_batches(batch_size=1 << 16, columns=[fields[name].name for name in kept])
            columns, num_rows = gather(batches, kept, wanted, pa)
        if faults.count > before:
            return None
        if not num_rows:
            faults.add(shown, "rows", "none")
            return None
        return FileTable(shown, num_rows, columns)


@contextmanager
def _damage_as_fault(path: Path, shown: str, faults: Faults) -> Iterator[None]:
    """What damage raises within becomes a fault, and ends the block."""
    pa = pyarrow("Parquet files")

    with reading(path, shown, faults):
        try:
            yield
        except (pa.ArrowException, ValueError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # of the system, not of pyarrow
                raise
            faults.add(shown, "a whole Parquet file", "a damaged one or another file")


def _column_names(file: Any, shown: str, faults: Faults) -> tuple[str, ...] | None:
    # What pandas writes for an index without a name is no column.
    names = [name.strip() for name in file.schema_arrow.names if not _INDEX_OF_PANDAS.match(name)]
    return named_columns(names, shown, faults)


def is_readable(kind: Any, pa: Any) -> bool:
    """Whether `gather` can take a column of this type."""
    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    return any(
        (
            *(types.is_integer(kind), types.is_floating(kind), types.is_decimal(kind), types.is_boolean(kind)),
            *(types.is_string(kind), types.is_large_string(kind), types.is_timestamp(kind), types.is_date(kind)),
            *(types.is_null(kind), types.is_time(kind)),
        )
    )
