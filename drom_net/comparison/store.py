"""What has been run already: a file of JSON lines that a second start reads, and a cut-off last line does not spoil."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import IO, Any

from drom_net.core.closing import Closing
from drom_net.core.errors import UsageError

Record = dict[str, Any]


class Store(Closing):
    """Finished runs by their key. Without a path they are kept in memory alone."""

    def __init__(self, path: Path | None = None) -> None:
        """
        Raises:
            UsageError: The file is damaged before its last line, or another command is using it.
        """
        self.path = path
        self._records: dict[str, Record] = {}
        self._file: IO[bytes] | None = None
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+b")
        except OSError as error:
            raise UsageError(f"cannot write to {path}: {error.strerror}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._read(self._file, path)
        except BlockingIOError:
            self.close()
            raise UsageError(f"{path} is in use by another command; wait for it, or choose another --out") from None
        except UsageError:
            self.close()
            raise

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __len__(self) -> int:
        return len(self._records)

    def get(self, key: str) -> Record | None:
        return self._records.get(key)

    def add(self, record: Record) -> None:
        """Keep a record, which has a ``key``; it is on its way to the disk when this returns."""
        self._records[record["key"]] = record
        if self._file is not None:
            self._file.write(json.dumps(record, allow_nan=False).encode() + b"\n")
            self._file.flush()

    def _read(self, file: IO[bytes], path: Path) -> None:
        file.seek(0)
        whole = 0  # bytes up to the end of the last line that is whole
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                break
            try:
                record = json.loads(line)
                self._records[record["key"]] = record
            except (ValueError, TypeError, KeyError):
                raise UsageError(
                    f"{path}:{number}: expected a run as JSON, got something else; remove the line, or the file"
                ) from None
            whole += len(line)
        file.truncate(whole)  # whoever wrote the last line was killed over it
