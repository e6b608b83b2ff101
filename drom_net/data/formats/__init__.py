"""The formats of rows, of files and of lines: each is one class, in a module here, or in another package."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import Any, TypeVar

from drom_net.core.plugins import Plugins
from drom_net.data.formats.base import FileFormat, Format, LineFormat, NumberFormat, RowALine, TableFormat
from drom_net.data.formats.csv import Csv
from drom_net.data.formats.jsonl import JsonLines
from drom_net.data.formats.npz import Npz
from drom_net.data.formats.parquet import Parquet
from drom_net.data.formats.svmlight import Svmlight
from drom_net.data.opening import unpacked

T = TypeVar("T")

FORMATS: list[Format] = [JsonLines(), Csv(), Svmlight(), Npz(), Parquet()]
"""Those of this package."""


def file_formats() -> dict[str, FileFormat]:
    """Those of whole files, by name."""
    return {format.name: format for format in FORMATS if isinstance(format, FileFormat)}


def line_formats() -> dict[str, LineFormat]:
    """Those with an example a line, by name."""
    return {format.name: format for format in FORMATS if isinstance(format, LineFormat)}


def _made(kind: type[T]) -> Callable[[Any], T | None]:
    """From a class that another package has to a format of this kind; None of anything else."""
    return lambda found: found() if isinstance(found, type) and issubclass(found, kind) else None


FILE_FORMATS: Plugins[FileFormat] = Plugins(
    "drom_net.formats",
    "format of files",
    builtin=file_formats,
    take=_made(FileFormat),
    hint="a class that is derived from drom_net.data.formats.TableFormat or NumberFormat is one",
)
LINE_FORMATS: Plugins[LineFormat] = Plugins(
    "drom_net.formats",
    "format of lines",
    builtin=line_formats,
    take=_made(LineFormat),
    hint="a class that is derived from drom_net.data.formats.RowALine is one",
)


def file_format(name: str, place: str = "data.format") -> FileFormat:
    """The format of a name: of this package, an entry point of another, or MODULE:ATTRIBUTE.

    Args:
        place: Where the name stands, for the error.

    Raises:
        ConfigError: There is none.
    """
    return FILE_FORMATS.named(name, place)


def line_format(name: str, place: str = "source.format") -> LineFormat:
    """The same of lines."""
    return LINE_FORMATS.named(name, place)


def format_of(files: str, *, installed: bool = True) -> FileFormat | None:
    """The format that the name of the files tells.

    Args:
        installed: Whether it may be one of the entry points of other packages. All that are installed are looked at for
            these, where no format of this package has such a suffix.
    """
    suffix = PurePath(unpacked(files)).suffix.lower()
    own = next((format for format in file_formats().values() if suffix in format.suffixes), None)
    if own is not None or not (suffix and installed):
        return own
    return next((format for format in FILE_FORMATS.installed().values() if suffix in format.suffixes), None)


def line_format_of(file: str) -> str | None:
    """The name of the format of a file that is followed, as its own name tells it."""
    if not (suffix := PurePath(file).suffix):
        return None
    for formats in (line_formats, LINE_FORMATS.installed):
        for name, format in formats().items():
            if suffix in format.line_suffixes:
                return name
    return None


__all__ = [
    "FILE_FORMATS",
    "FORMATS",
    "LINE_FORMATS",
    "FileFormat",
    "Format",
    "LineFormat",
    "NumberFormat",
    "RowALine",
    "TableFormat",
    "file_format",
    "file_formats",
    "format_of",
    "line_format",
    "line_format_of",
    "line_formats",
]
