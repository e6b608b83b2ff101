"""The formats of rows, of files and of lines: each is one class, in a module here. All else asks `FORMATS`."""

from __future__ import annotations

from pathlib import PurePath

from drom_net.data.formats.base import FileFormat, Format, LineFormat, NumberFormat, RowALine, TableFormat
from drom_net.data.formats.csv import Csv
from drom_net.data.formats.jsonl import JsonLines
from drom_net.data.formats.npz import Npz
from drom_net.data.formats.parquet import Parquet
from drom_net.data.formats.svmlight import Svmlight
from drom_net.data.opening import unpacked

FORMATS: list[Format] = [JsonLines(), Csv(), Svmlight(), Npz(), Parquet()]


def file_formats() -> dict[str, FileFormat]:
    """Those of whole files, by name."""
    return {format.name: format for format in FORMATS if isinstance(format, FileFormat)}


def line_formats() -> dict[str, LineFormat]:
    """Those with an example a line, by name."""
    return {format.name: format for format in FORMATS if isinstance(format, LineFormat)}


def format_of(files: str) -> FileFormat | None:
    """The format that the name of the files tells."""
    suffix = PurePath(unpacked(files)).suffix.lower()
    return next((format for format in file_formats().values() if suffix in format.suffixes), None)


def line_format_of(file: str) -> LineFormat | None:
    """The same for a file that is followed."""
    suffix = PurePath(file).suffix
    return next((format for format in line_formats().values() if suffix in format.line_suffixes), None)


__all__ = [
    "FORMATS",
    "FileFormat",
    "Format",
    "LineFormat",
    "NumberFormat",
    "RowALine",
    "TableFormat",
    "file_formats",
    "format_of",
    "line_format_of",
    "line_formats",
]
