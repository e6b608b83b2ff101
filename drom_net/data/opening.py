"""The bytes of a file: unpacked where it is packed, and what goes wrong as faults."""

from __future__ import annotations

import errno
import gzip
import io
import itertools
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath

from drom_net.core.errors import did_you_mean
from drom_net.data.faults import Faults, extra


def unpacked(name: str) -> str:
    """A file's name, without its folder, as if it were not packed."""
    return PurePath(name).name.removesuffix(".gz").removesuffix(".zst")


@contextmanager
def reading(path: Path, shown: str, faults: Faults) -> Iterator[None]:
    """Faults instead of the exceptions of reading `path`."""
    try:
        yield
    except FileNotFoundError:
        hint = _near_file(path, shown) or (
            "" if path == Path(shown) else "relative names start at data.directory, or at DROM_NET_DATA where it is set"
        )
        faults.add(shown, "a file", "none of this name", hint)
    except IsADirectoryError:
        faults.add(shown, "a file", "a folder")
    except gzip.BadGzipFile as error:
        got = "a damaged one" if "CRC" in str(error) or "length" in str(error) else "something else"
        faults.add(shown, "gzip data, as its name says", got)
    except EOFError:
        faults.add(shown, "a whole gzip file", "one that is cut off")
    except zlib.error:
        faults.add(shown, "gzip data, as its name says", "a damaged one")
    except OSError as error:
        if error.errno is None and path.name.endswith(".zst"):  # of pyarrow, not of the system
            faults.add(shown, "a whole zstd file, as its name says", "a damaged one or another file")
            return
        faults.add(shown, "a file that can be read", (error.strerror or type(error).__name__).lower())


@contextmanager
def opened(path: Path) -> Iterator[io.BufferedIOBase]:
    """The bytes of a file, unpacked when it is called .gz or .zst. Raises what `reading` expects."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "not a regular file")  # a pipe could keep us waiting for ever
    try:
        raw = path.open("rb")
    except ValueError as error:  # a null byte in the name
        raise FileNotFoundError(str(error)) from None
    with raw:
        if path.name.endswith(".zst"):
            with extra("tables", "files that are packed by zstd"):
                import pyarrow as pa
            with pa.CompressedInputStream(pa.PythonFile(raw), "zstd") as unpacked:
                yield io.BufferedReader(unpacked)
        elif path.name.endswith(".gz"):
            with gzip.open(raw) as unpacked:
                yield unpacked
        else:
            yield raw


def utf8_lines(file: Iterable[bytes], shown: str, faults: Faults) -> Iterator[str]:
    """The lines of a UTF-8 file, with or without a byte order mark; ends at the first that is not UTF-8."""
    for number, line in enumerate(file, start=1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            faults.add(f"{shown}:{number}", "UTF-8 text", f"byte 0x{line[error.start]:02x}")
            return


def _near_file(path: Path, shown: str) -> str:
    try:
        siblings = [entry.name for entry in itertools.islice(path.parent.iterdir(), 10_000)]
    except (OSError, ValueError):
        return ""
    return did_you_mean(Path(shown).name, sorted(siblings))
