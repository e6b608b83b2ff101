"""Fetching the files of public data sets from their publishers: resumed after a cut, checked, put in place at once.

A file is written as part-NAME beside its place, and gets its name when its SHA-256 is right. A part that is left is
gone on with, where the server allows it.
"""

from __future__ import annotations

import errno
import http.client
import os
import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO

from drom_net.core.errors import DataError, DownloadError, UsageError
from drom_net.data.public.catalog import PublicFile, PublicSet
from drom_net.data.public.places import DATA_FOLDER_VARIABLE, check_file, files_in

MIRROR_VARIABLE = "DROM_NET_MIRROR"
"""``http://host/path`` in front of ``publisher/path``, in place of ``https://``."""
TRIES = 5
"""So often one download goes on after a cut."""
SILENCE_LIMIT_S = 30.0
BLOCK_BYTES = 1 << 16

Report = Callable[[str, int, int | None], None]
"""Is told a file's name, how many bytes are here, and how many there are in all, where the server says."""


def fetch_set(entry: PublicSet, home: Path, report: Report) -> None:
    """Fetch those files of a set that are not in its sub-folder of `home`.

    Raises:
        UsageError: Nobody publishes it any more.
        DownloadError: A file cannot be had, there is no space, or it is not the right one; files that are whole stay.
    """
    if not all(file.url for file in entry.files):
        raise UsageError(
            f"{entry.name} was withdrawn and cannot be downloaded; who has it can put it into a folder {entry.folder} "
            f"of the one that {DATA_FOLDER_VARIABLE} names"
        )
    present = files_in(entry, home)
    for file in entry.files:
        if file.names[0] not in present:
            fetch(file, home / entry.folder / file.names[0], report)


def fetch(file: PublicFile, target: Path, report: Report) -> None:
    """Fetch one file. Raises as `fetch_set`."""
    url = mirrored(file.url)
    part = target.with_name(f"part-{target.name}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for left in reversed(range(TRIES)):
            if _fetch_more(url, part, lambda here, size: report(target.name, here, size)):
                break
            if not left:
                raise DownloadError(f"{url}: the connection was cut {TRIES} times; {_kept(part)}")
        _put_in_place(file, part, target, url)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise UsageError(f"cannot write to {target.parent}: {error.strerror or error}") from error
        part.unlink(missing_ok=True)
        raise DownloadError(f"{url}: no space left in {target.parent}; nothing of it is kept") from error


def copy_set(entry: PublicSet, origin: Path, home: Path) -> None:
    """Check the set's files in its sub-folder of `origin`, and copy them to that of `home`.

    Raises:
        UsageError: One is not there.
        DataError: One is damaged, or not the right one.
        DownloadError: There is no space.
    """
    found = files_in(entry, origin)
    for file in entry.files:
        if file.names[0] not in found:
            raise UsageError(f"{origin / entry.folder}: expected {' or '.join(file.names)}, got no such file")
        check_file(found[file.names[0]], file)
    for path in found.values():
        target = home / entry.folder / path.name
        if target.exists() and target.samefile(path):
            continue
        part = target.with_name(f"part-{target.name}")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, part)
            os.replace(part, target)
        except OSError as error:
            part.unlink(missing_ok=True)
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DownloadError(f"no space left in {target.parent}; nothing of {path.name} is kept") from error
            raise UsageError(f"cannot write to {target.parent}: {error.strerror or error}") from error


def mirrored(url: str) -> str:
    """The address in the mirror that DROM_NET_MIRROR names; the publisher's where it names none.

    Raises:
        UsageError: It names something else.
    """
    mirror = os.environ.get(MIRROR_VARIABLE)
    if mirror and not mirror.startswith(("http://", "https://")):
        raise UsageError(f'{MIRROR_VARIABLE}: expected http://.. or https://.., got "{mirror}"')
    return f"{mirror.rstrip('/')}/{url.removeprefix('https://')}" if mirror else url


def _fetch_more(url: str, part: Path, report: Callable[[int, int | None], None]) -> bool:
    """Add to `part` what the server sends; False when the connection was cut before the end."""
    here = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "drom-net", "Accept-Encoding": "identity"}
    if here:
        headers["Range"] = f"bytes={here}-"
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=SILENCE_LIMIT_S) as answer:
            if answer.status != http.client.PARTIAL_CONTENT or not _begins_at(answer, here):
                here = 0  # the server sends it whole
            length = answer.headers.get("Content-Length")
            size = here + int(length) if length is not None else None
            with part.open("ab" if here else "wb") as file:
                return _copy(answer, file, here, size, report)
    except urllib.error.HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and here:
            return True  # all of it is here already, or another file: its SHA-256 tells
        raise DownloadError(f"{url}: the server answers {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        if isinstance(error.reason, ConnectionResetError | TimeoutError):
            return False
        raise DownloadError(f"{url}: {error.reason}; {_kept(part)}") from error
    except (http.client.HTTPException, ConnectionError, TimeoutError):
        return False
    except ValueError as error:
        raise DownloadError(f"{url}: expected an address, http:// or https://, got another ({error})") from error


def _begins_at(answer: http.client.HTTPResponse, here: int) -> bool:
    match = re.match(r"bytes (\d+)-", answer.headers.get("Content-Range", ""))
    return match is not None and int(match[1]) == here


def _copy(
    answer: IO[bytes], file: IO[bytes], here: int, size: int | None, report: Callable[[int, int | None], None]
) -> bool:
    """Whether all `size` bytes came; without a size, whether the server ended what it sent."""
    report(here, size)
    while block := answer.read(BLOCK_BYTES):
        file.write(block)
        here += len(block)
        report(here, size)
    return size is None or here >= size


def _put_in_place(file: PublicFile, part: Path, target: Path, url: str) -> None:
    """Give `part` its name, if it is the right file; else it is thrown away."""
    try:
        check_file(part, file)
    except DataError as error:
        part.unlink()
        problem = error.problems[0]
        raise DownloadError(f"{url}: expected {problem.expected}, got {problem.got}; it is thrown away") from error
    os.replace(part, target)


def _kept(part: Path) -> str:
    here = part.stat().st_size if part.exists() else 0
    return f"{here} bytes are kept, and the next try goes on from there" if here else "nothing of it came"
