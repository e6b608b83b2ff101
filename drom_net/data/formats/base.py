"""What a format of rows is: of files, of lines, or of both. Each is one class, and its instance in `FORMATS`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import ClassVar

from drom_net.algorithms.features import Features
from drom_net.data.faults import Faults
from drom_net.data.incoming import RowError, RowReader
from drom_net.data.tables import FileTable, NumberTable, Source, Wanted

Example = tuple[Features, float]
"""A row, encoded, and its label: -1.0, +1.0 or, where it is missing, 0.0."""
Tell = Callable[[int, RowError], None]
"""Is told of each line that cannot be used: its number, and why."""


class Format(ABC):
    name: ClassVar[str]
    """As data.format, source.format and `predict --format` have it."""


# --- whole files -------------------------------------------------------------------------------------


class FileFormat(Format):
    """A format of whole files: a `TableFormat` or a `NumberFormat`.

    What is wrong with a file is added to the faults, and no exception of a library comes through. UsageError says that
    a package is missing.
    """

    suffixes: ClassVar[tuple[str, ...]]
    """Of names of files, in lower case, without .gz or .zst."""
    extra: ClassVar[str] = ""
    """The extra of drom-net without which its files cannot be read."""
    is_packed: ClassVar[bool] = False
    """Whether its files are packed in themselves, and so never .gz or .zst."""


class TableFormat(FileFormat):
    """Files whose columns have names; what kinds they are is found out."""

    @abstractmethod
    def header(self, path: Path, shown: str, wanted: Wanted, faults: Faults) -> tuple[str, ...] | None:
        """The names of all columns, in order; None after faults."""

    @abstractmethod
    def table(self, path: Path, shown: str, wanted: Wanted, faults: Faults) -> FileTable | None:
        """The columns but those to be skipped; None after faults.

        Args:
            shown: The file's name in messages.
        """


class NumberFormat(FileFormat):
    """Files of rows that are numbers already, without names."""

    numbers_features: ClassVar[bool] = False
    """Whether rows are sparse, with the features' numbers: data.zero_based and data.hash are for these. Such a file has
    no columns for label and task."""

    @abstractmethod
    def table(self, source: Source, faults: Faults) -> NumberTable | None:
        """The rows; None after faults."""


# --- lines -------------------------------------------------------------------------------------------


class LineParser:
    """The lines of a live source, to examples; by itself of those that each say all of their row."""

    header = ""
    """The column names that hold, as they were read; empty where there are none."""

    def __init__(self, row: Callable[[str], Example | None]) -> None:
        self._row = row

    def begin(self, header: str | None) -> None:
        """A new file begins (None), or the middle of one under these column names."""

    def is_open(self, text: bytes) -> bool:
        """Whether lines end within quotes, so that the next one belongs to them."""
        return False

    def read(self, text: str) -> Example | None:
        """The example in a line that is not blank; None where it has none.

        Raises:
            RowError: It cannot be used.
        """
        return self._row(text)


class LineFormat(Format):
    """A format with an example a line: of live sources, and of rows to predict."""

    line_suffixes: ClassVar[tuple[str, ...]]
    """Of names of files that are followed."""

    @abstractmethod
    def parser(self, rows: RowReader) -> LineParser: ...

    has_columns: ClassVar[bool] = False
    """Whether cells have names, so that one may say whose a row is (`predict --site`)."""

    @abstractmethod
    def unlabelled(
        self, lines: Iterable[str], rows: RowReader, tell: Tell, site: str = "", *, needs_site: bool = False
    ) -> Iterator[tuple[Features, object]]:
        """Rows to be predicted, of lines that may have labels, which are not looked at.

        Args:
            site: A column beside those of the rows.
            needs_site: Whether it must be there.

        Returns:
            Each row, and its cell of that column; None without.

        Raises:
            DataError: `tell` may raise it.
        """


class RowALine(LineFormat):
    """Lines that each say all of their row."""

    @abstractmethod
    def row(self, text: str, rows: RowReader, *, labelled: bool) -> Example | None:
        """The example in a line that is not blank; None where it has none.

        Args:
            labelled: Whether there must be a label; else 0.0 stands for it.

        Raises:
            RowError: It cannot be used.
        """

    def parser(self, rows: RowReader) -> LineParser:
        return LineParser(partial(self.row, rows=rows, labelled=True))

    def unlabelled(
        self, lines: Iterable[str], rows: RowReader, tell: Tell, site: str = "", *, needs_site: bool = False
    ) -> Iterator[tuple[Features, object]]:
        for number, line in enumerate(lines, start=1):
            try:
                found = self.unlabelled_row(line, rows, site) if line.strip() else None
            except RowError as error:
                tell(number, error)
            else:
                if found is not None:
                    yield found

    def unlabelled_row(self, text: str, rows: RowReader, site: str) -> tuple[Features, object] | None:
        """The row in a line that is not blank, and its cell of the column of the site."""
        found = self.row(text, rows, labelled=False)
        return found and (found[0], None)
