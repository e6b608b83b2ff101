"""Where the files of public data sets are on this machine, and whether they are the right ones."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
import re
import sys
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from drom_net.core.errors import DataError, Problem
from drom_net.data.public.catalog import PublicFile, PublicSet

DATA_FOLDER_VARIABLE = "DROM_NET_DATA"


def cache_folder() -> Path:
    """Where downloads are kept, in a folder for each set; made by whoever writes there."""
    if sys.platform == "win32":
        home = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        home = Path.home() / "Library" / "Caches"
    else:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "drom-net"


def find(entry: PublicSet, base: Path | None = None) -> dict[str, Path] | None:
    """The set's files by their first name, from the first folder that has all of them; None where none has.

    The folders are `base` if there is one, the one that DROM_NET_DATA names, and the cache.
    """
    named = os.environ.get(DATA_FOLDER_VARIABLE)
    for home in (base, Path(named) if named else None, cache_folder()):
        found = files_in(entry, home) if home is not None else {}
        if len(found) == len(entry.files):
            return found
    return None


def files_in(entry: PublicSet, home: Path) -> dict[str, Path]:
    """Those of the set's files that are in its sub-folder of `home`, by their first name."""
    found = {}
    for file in entry.files:
        for name in file.names:
            if (home / entry.folder / name).is_file():
                found[file.names[0]] = home / entry.folder / name
                break
    return found


def require(entry: PublicSet, base: Path) -> dict[str, Path]:
    """As `find`.

    Raises:
        DataError: No folder has the files; it says how to get them.
    """
    found = find(entry, base)
    if found is None:
        wanted = ", ".join(file.names[0] for file in entry.files)
        hint = f"drom-net data get {entry.name} downloads them, and {DATA_FOLDER_VARIABLE} names a folder that has them"
        if not any(file.url for file in entry.files):
            hint = f"it cannot be downloaded; {DATA_FOLDER_VARIABLE} names a folder that has it, as {entry.folder}/"
        raise DataError([Problem(f"data.dataset: {entry.name}", f"the files {wanted}", "none", hint)])
    return found


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """DataError instead of what the libraries say of a file that is damaged, or not of its `kind`."""
    try:
        yield
    except (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, gzip.BadGzipFile) as error:
        raise DataError([Problem(str(path), f"a whole {kind}", "a damaged one, or another file")]) from error


def read_bytes(path: Path) -> bytes:
    """The file's bytes, unpacked where it is called `.gz`.

    Raises:
        DataError: It is damaged.
    """
    with reading(path, "gzip file"):
        return gzip.decompress(path.read_bytes()) if path.name.endswith(".gz") else path.read_bytes()


def members(path: Path, expression: str) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of an archive's files of which `expression` is found in the path, from there on.

    So the names are the same whatever folder the archive puts everything in. Nothing is unpacked to disk.

    Args:
        path: A tar archive, packed or not.

    Raises:
        DataError: It is damaged.
    """
    pattern = re.compile(rf"(?:^|/)({expression}.*)", re.DOTALL)
    with reading(path, "tar archive"), tarfile.open(path, "r|*") as archive:
        for member in archive:
            match = pattern.search(member.name)
            if match is None or not member.isfile():
                continue
            content = archive.extractfile(member)
            assert content is not None
            yield match[1], content.read()


def digest_of(path: Path, file: PublicFile) -> str:
    """The SHA-256 (hex) that is compared with `file.sha256`.

    Of an archive's members it is that of the sorted lines ``NAME SHA-256-OF-ITS-BYTES``: the same however they
    are packed.

    Raises:
        DataError: The file is damaged.
    """
    if file.members:
        found = members(path, file.members)
        lines = sorted(f"{name} {hashlib.sha256(content).hexdigest()}\n" for name, content in found)
        return hashlib.sha256("".join(lines).encode()).hexdigest()
    if path.name.endswith(".gz") and not file.names[0].endswith(".gz"):
        return hashlib.sha256(read_bytes(path)).hexdigest()
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def check_file(path: Path, file: PublicFile) -> None:
    """Passes a file that is the one meant, or of which nobody knows the digest.

    Raises:
        DataError: It is damaged, or another one.
    """
    if not file.sha256:
        return
    found = digest_of(path, file)
    if found != file.sha256:
        what = "content with the SHA-256" if file.members else "the SHA-256"
        raise DataError([Problem(str(path), f"{what} {file.sha256}", found)])
