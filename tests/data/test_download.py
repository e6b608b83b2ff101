"""`drom-net data get`: every way in which a download can go, against a server on this machine."""

from __future__ import annotations

import dataclasses
import errno
import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from drom_net.cli import main
from drom_net.data.datasets import load_dataset
from drom_net.data.public import download
from drom_net.data.public.catalog import PUBLIC_SETS, PublicFile
from drom_net.data.public.places import cache_folder, files_in, read_bytes
from drom_net.data.settings import DATA_SECTIONS
from drom_net.data.stream import SparseRows

pytestmark = pytest.mark.process


class Publisher:
    """A web server: what it has by path, how it behaves, and what it was asked (path, Range)."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[tuple[str, str | None]] = []
        self.cut_after: list[int] = []
        """So many bytes of the answer are sent before the connection is cut, one for each request to come."""
        self.knows_ranges = True
        self.says_length = True

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        wanted = request.headers.get("Range")
        self.asked.append((request.path, wanted))
        content = self.files.get(request.path)
        if content is None:
            request.send_error(404)
            return
        start = 0
        if wanted and self.knows_ranges:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                request.send_error(416)
                return
            request.send_response(206)
            request.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            request.send_response(200)
        body = content[start:]
        if self.says_length:
            request.send_header("Content-Length", str(len(body)))
        else:
            request.send_header("Transfer-Encoding", "chunked")
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        request.end_headers()
        request.wfile.write(body[: self.cut_after.pop(0)] if self.cut_after else body)
        request.close_connection = True


@pytest.fixture
def publisher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Publisher]:
    """The mirror that DROM_NET_MIRROR names, an empty cache, and nobody at the terminal."""
    found = Publisher()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            found.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv(download.MIRROR_VARIABLE, f"http://127.0.0.1:{server.server_port}/mirror/")
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv("DROM_NET_DATA", raising=False)
    for variable in ("XDG_CACHE_HOME", "HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(variable, str(tmp_path / "home"))
    monkeypatch.setattr("sys.stdin", io.StringIO())
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


CONTENT = bytes(range(256)) * 2000
PATH = "/mirror/publisher.example/some/toy.bin"


@pytest.fixture
def toy(publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A set of one file in place of `wisdm`; returns where the file will be."""
    file = PublicFile(("toy.bin",), "https://publisher.example/some/toy.bin", hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setitem(PUBLIC_SETS, "wisdm", dataclasses.replace(PUBLIC_SETS["wisdm"], files=(file,)))
    publisher.files[PATH] = CONTENT
    return cache_folder() / "wisdm" / "toy.bin"


def get(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(("data", "get", *arguments))
    out, err = capsys.readouterr()
    return code, out, err


def left(target: Path) -> dict[str, int]:
    """Names and sizes of all that is in the file's folder."""
    return {path.name: path.stat().st_size for path in target.parent.iterdir()} if target.parent.exists() else {}


def test_a_download(toy: Path, publisher: Publisher, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = get(capsys, "wisdm", "--json")
    assert code == 0 and json.loads(out) == [{"dataset": "wisdm", "files": [str(toy)]}]
    assert PUBLIC_SETS["wisdm"].licence in err
    assert toy.read_bytes() == CONTENT and left(toy) == {"toy.bin": len(CONTENT)}
    assert publisher.asked == [(PATH, None)]


def test_what_is_here_is_checked_and_not_fetched_again(
    toy: Path, publisher: Publisher, capsys: pytest.CaptureFixture[str]
) -> None:
    assert get(capsys, "wisdm")[0] == get(capsys, "wisdm")[0] == 0
    assert len(publisher.asked) == 1
    toy.write_bytes(b"other")
    code, _, err = get(capsys, "wisdm")
    assert code == 2 and f"error: {toy}: expected the SHA-256 " in err


def test_a_wrong_hash(toy: Path, publisher: Publisher, capsys: pytest.CaptureFixture[str]) -> None:
    publisher.files[PATH] = CONTENT[:-1] + b"x"
    code, out, err = get(capsys, "wisdm")
    assert (code, out) == (1, "") and left(toy) == {}
    [line] = [line for line in err.splitlines() if line.startswith("error:")]
    assert hashlib.sha256(CONTENT).hexdigest() in line and hashlib.sha256(publisher.files[PATH]).hexdigest() in line
    assert line.endswith("; it is thrown away")


def test_a_cut_connection_goes_on_where_it_stopped(
    toy: Path, publisher: Publisher, capsys: pytest.CaptureFixture[str]
) -> None:
    publisher.cut_after = [100_000, 1]
    assert get(capsys, "wisdm")[0] == 0
    assert publisher.asked == [(PATH, None), (PATH, "bytes=100000-"), (PATH, "bytes=100001-")]
    assert toy.read_bytes() == CONTENT and left(toy) == {"toy.bin": len(CONTENT)}


def test_a_connection_that_is_cut_again_and_again(
    toy: Path, publisher: Publisher, capsys: pytest.CaptureFixture[str]
) -> None:
    publisher.cut_after = [50_000] + [0] * (download.TRIES - 1)
    code, _, err = get(capsys, "wisdm")
    assert code == 1 and len(publisher.asked) == download.TRIES
    assert f"the connection was cut {download.TRIES} times; 50000 bytes are kept, and the next try goes on" in err
    assert left(toy) == {"part-toy.bin": 50_000}
    assert get(capsys, "wisdm")[0] == 0  # the next command
    assert publisher.asked[-1] == (PATH, "bytes=50000-") and toy.read_bytes() == CONTENT


@pytest.mark.parametrize("says_length", [True, False])
def test_a_server_that_cannot_go_on_starts_anew(
    says_length: bool, toy: Path, publisher: Publisher, capsys: pytest.CaptureFixture[str]
) -> None:
    """GitHub makes archives as it sends them: in chunks, without a length, and not from the middle."""
    publisher.knows_ranges, publisher.says_length, publisher.cut_after = False, says_length, [70_000]
    assert get(capsys, "wisdm")[0] == 0
    assert [path for path, _ in publisher.asked] == [PATH, PATH]
    assert toy.read_bytes() == CONTENT and left(toy) == {"toy.bin": len(CONTENT)}


def test_a_part_that_is_whole_already(toy: Path, publisher: Publisher, capsys: pytest.CaptureFixture[str]) -> None:
    toy.parent.mkdir(parents=True)
    part = toy.with_name("part-toy.bin")
    part.write_bytes(CONTENT)
    assert get(capsys, "wisdm")[0] == 0 and left(toy) == {"toy.bin": len(CONTENT)}
    toy.unlink()
    part.write_bytes(CONTENT + b"more")  # left by something else
    code, _, err = get(capsys, "wisdm")
    assert code == 1 and "it is thrown away" in err and left(toy) == {}
    assert get(capsys, "wisdm")[0] == 0


def test_not_found(toy: Path, publisher: Publisher, capsys: pytest.CaptureFixture[str]) -> None:
    del publisher.files[PATH]
    code, out, err = get(capsys, "wisdm")
    assert (code, out) == (1, "") and err.rstrip().endswith(f"{PATH}: the server answers 404 Not Found")
    assert left(toy) == {} and len(publisher.asked) == 1


def test_nobody_answers(toy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    refused = 'DROM_NET_MIRROR: expected http://.. or https://.., got "'
    for mirror, expected, what in (
        ("http://127.0.0.1:1", 1, "refused"),
        ("nonsense", 2, refused),
        ("file:///etc", 2, refused),
    ):
        monkeypatch.setenv(download.MIRROR_VARIABLE, mirror)
        code, _, err = get(capsys, "wisdm")
        assert code == expected and what in err and left(toy) == {}


def full_disk(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Files called part-.. take `after` bytes, and no more."""
    true_open = Path.open

    class Full(io.FileIO):
        def write(self, block: bytes) -> int:  # type: ignore[override]
            if self.tell() + len(block) > after:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(block)

    def opened(self: Path, mode: str = "r", *arguments: object, **options: object) -> object:
        if self.name.startswith("part-") and mode in ("wb", "ab"):
            return Full(self, mode)
        return true_open(self, mode, *arguments, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", opened)


def test_no_space(
    toy: Path, publisher: Publisher, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patched:
        full_disk(patched, after=200_000)
        code, out, err = get(capsys, "wisdm")
    assert (code, out) == (1, "") and left(toy) == {}
    assert err.rstrip().endswith(f"no space left in {toy.parent}; nothing of it is kept")
    assert get(capsys, "wisdm")[0] == 0 and toy.read_bytes() == CONTENT


def test_no_space_for_a_copy(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine" / "wisdm").mkdir(parents=True)
    (tmp_path / "mine" / "wisdm" / "toy.bin").write_bytes(CONTENT)

    def copyfile(_: Path, target: Path) -> None:
        target.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("shutil.copyfile", copyfile)
    code, _, err = get(capsys, "wisdm", "--from", str(tmp_path / "mine"))
    assert code == 1 and "no space left" in err and left(toy) == {}


def test_from_a_folder(toy: Path, publisher: Publisher, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "mine" / "wisdm" / "toy.bin"
    mine.parent.mkdir(parents=True)
    code, _, err = get(capsys, "wisdm", "--from", str(tmp_path / "mine"))
    assert code == 2 and f"error: {mine.parent}: expected toy.bin, got no such file" in err
    mine.write_bytes(b"another")
    code, _, err = get(capsys, "wisdm", "--from", str(tmp_path / "mine"))
    assert code == 2 and f"error: {mine}: expected the SHA-256 " in err and left(toy) == {}
    mine.write_bytes(CONTENT)
    assert get(capsys, "wisdm", "--from", str(tmp_path / "mine"))[0] == 0
    assert left(toy) == {"toy.bin": len(CONTENT)} and publisher.asked == []
    assert get(capsys, "wisdm", "--from", str(cache_folder()))[0] == 0  # onto itself
    assert toy.read_bytes() == CONTENT


class Person(io.StringIO):
    """A terminal at which somebody types."""

    def isatty(self) -> bool:
        return True


def test_the_licence_must_be_agreed_to(
    toy: Path, publisher: Publisher, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(PUBLIC_SETS, "wisdm", dataclasses.replace(PUBLIC_SETS["wisdm"], restricts=True))
    code, out, err = get(capsys, "wisdm")  # in a pipe
    assert (code, out) == (2, "") and "--accept-licence agrees to them" in err
    for typed in ("n\n", "\n"):
        monkeypatch.setattr("sys.stdin", Person(typed))
        code, out, err = get(capsys, "wisdm")
        assert (code, out) == (2, "") and "its terms were not agreed to" in err
        assert PUBLIC_SETS["wisdm"].licence in err
    assert publisher.asked == [] and left(toy) == {}
    monkeypatch.setattr("sys.stdin", Person("y\n"))
    assert get(capsys, "wisdm")[0] == 0
    toy.unlink()
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert get(capsys, "wisdm", "--accept-licence")[0] == 0


def test_an_archive_that_is_cut_or_has_other_content(publisher: Publisher, capsys: pytest.CaptureFixture[str]) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("root/enron1/ham/1.txt")
        member.size = 10_000
        archive.addfile(member, io.BytesIO(np.random.default_rng(0).bytes(10_000)))
    for content, what in (
        (packed.getvalue()[:5000], "expected a whole tar archive, got a damaged one"),
        (packed.getvalue(), "expected content with the SHA-256 "),
    ):
        url = PUBLIC_SETS["spam-enron"].files[0].url.removeprefix("https://")
        publisher.files[f"/mirror/{url}"] = content
        code, _, err = get(capsys, "spam-enron")
        assert code == 1 and what in err and "it is thrown away" in err
        assert left(cache_folder() / "spam_enron" / "x") == {}


def test_names_that_cannot_be_had(publisher: Publisher, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = get(capsys, "eachmovie", "--accept-licence")
    assert code == 2 and "error: eachmovie was withdrawn and cannot be downloaded" in err
    code, _, err = get(capsys, "jestre")
    assert code == 2 and 'got "jestre"; did you mean "jester"?' in err
    assert publisher.asked == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.large if name == "spam-enron" else ())
        for name in PUBLIC_SETS
        if name not in ("movielens", "eachmovie")
    ],
)
def test_each_set_as_its_publisher_has_it(
    name: str, publisher: Publisher, shared_set: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """The bytes that GitHub would send, made from the files at hand: plain, or the archive of a repository."""
    entry = PUBLIC_SETS[name]
    home = shared_set(entry.folder)
    found = files_in(entry, home)
    for file in entry.files:
        path = found[file.names[0]]
        content = _as_published(path) if file.members else path.read_bytes()
        if path.name != file.names[0] and not file.members:
            content = read_bytes(path)
        publisher.files["/mirror/" + file.url.removeprefix("https://")] = content
    code, _, err = get(capsys, name, "--accept-licence")
    assert code == 0, err
    assert sorted(path for path, _ in publisher.asked) == sorted(publisher.files)
    ours, theirs = (load_dataset(DATA_SECTIONS[name](), base=base) for base in (cache_folder(), home))
    for task, other in zip(ours.tasks, theirs.tasks, strict=True):
        np.testing.assert_array_equal(task.labels, other.labels)
        if isinstance(task.rows, SparseRows) and isinstance(other.rows, SparseRows):
            np.testing.assert_array_equal(task.rows.values, other.rows.values)
            np.testing.assert_array_equal(task.rows.indices, other.rows.indices)
        else:
            np.testing.assert_array_equal(task.rows, other.rows)


def _as_published(path: Path) -> bytes:
    """The archive packed by gzip, in another order, below a folder, with a file that is not of the set."""
    packed = io.BytesIO()
    with tarfile.open(path) as archive:
        members = {
            member.name: archive.extractfile(member).read()  # type: ignore[union-attr]
            for member in archive
            if member.isfile()
        }
    with gzip.open(packed, "wb", compresslevel=1) as unpacked, tarfile.open(fileobj=unpacked, mode="w") as archive:
        for name, content in [("README.md", b"a repository"), *reversed(members.items())]:
            member = tarfile.TarInfo(f"repository-0123abc/src/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()
