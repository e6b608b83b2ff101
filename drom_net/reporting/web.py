"""The page of `drom-net watch --web`: served on this machine alone, to who has its token."""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import parse_qs, urlsplit

from drom_net.core.errors import ClusterError
from drom_net.reporting.facts import read_events
from drom_net.reporting.feed import Feed
from drom_net.reporting.past import Alike, moments_of, with_graph
from drom_net.reporting.watching import look
from drom_net.results.evidence import SO_FAR

_EVERY_S, _OVER_EVERY_S, _SHARE = 1.0, 10.0, 0.01
"""How often a run that goes on is looked at, and one that is over, which may be resumed; or more rarely, so that it
takes at most this share of a processor's time."""
_CLIENTS = 16
_EVENTS = 50
_HERE = ("127.0.0.1", "localhost")


class PageServer:
    """http://127.0.0.1:PORT/?token=TOKEN"""

    def __init__(self, feed: Feed, port: int = 0) -> None:
        """
        Args:
            port: 0 for one that is free.

        Raises:
            ClusterError: It cannot listen there.
        """
        try:
            self._server = _Server(port, feed)
        except OSError as error:
            raise ClusterError(f"cannot serve a page on 127.0.0.1:{port}: {error.strerror}") from None
        self.url = f"http://127.0.0.1:{self._server.server_port}/?token={self._server.token}"
        self._thread = threading.Thread(target=self._server.serve_forever, name="page", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def serve(run_dir: Path, port: int, tell: Callable[[str], None]) -> int:
    """Serve the page of a run until somebody interrupts it.

    Args:
        tell: Called with the page's address.

    Raises:
        ClusterError: It cannot listen there.
        UsageError: The run directory is damaged.
    """
    feed = Feed()
    server = PageServer(feed, port)
    tell(server.url)
    alike, last = Alike(run_dir), None
    try:
        while True:
            if last is not None and last[0].is_final:
                time.sleep(_OVER_EVERY_S)
                continue
            found = None if last is None or last[0].is_over else alike.look(last[0])  # which sees to its own share
            begun = time.process_time()
            now = with_graph(run_dir, look(run_dir)), read_events(run_dir, limit=_EVENTS)
            is_first = last is None or not last[0].state
            if is_first:
                feed.begin(moments_of(run_dir, now[0]), len(now[0].state.get("tasks", ())))
            if now[0].is_over and now != last:
                found = alike.look(now[0])
            if now != last or found is not None:
                feed.put(*now, alike=found)
            used, last = time.process_time() - begun, now
            every_s = _OVER_EVERY_S if now[0].is_over else _EVERY_S
            time.sleep(every_s if is_first else max(every_s, used / _SHARE))
    finally:
        server.close()


def _static(name: str) -> str:
    return (Path(__file__).parent / "static" / name).read_text(encoding="utf-8")


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, feed: Feed) -> None:
        self.feed, self.token = feed, secrets.token_urlsafe(16)
        self.open_pages = threading.BoundedSemaphore(_CLIENTS)
        super().__init__(("127.0.0.1", port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # who left, or fell silent


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 10.0

    def do_GET(self) -> None:
        name = self.headers.get("Host", "").partition(":")[0]  # a browser leaves port 80 out
        try:
            url = urlsplit(self.path)
        except ValueError:
            self.send_error(400, "that is no address")
            return
        token = parse_qs(url.query).get("token", [""])[0]
        if name not in _HERE:  # a foreign name that was made to point here
            self.send_error(403, "this page is of this machine")
        elif not hmac.compare_digest(token.encode(), self.server.token.encode()):
            self.send_error(403, "the address has no token, or another one")
        elif url.path == "/":
            self._page()
        elif url.path == "/events":
            self._events()
        else:
            self.send_error(404)

    def _page(self) -> None:
        nonce = secrets.token_urlsafe(16)
        style = _static("page.css") + _static("watch.css")
        page = Template(_static("watch.html")).substitute(
            nonce=nonce, style=style, script=_static("watch.js"), so_far=SO_FAR
        )
        body = page.encode()
        self._head("text/html; charset=utf-8", nonce)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _events(self) -> None:
        if not self.server.open_pages.acquire(blocking=False):
            self.send_error(503, f"{_CLIENTS} pages are open already")
            return
        try:
            self._head("text/event-stream")
            self.end_headers()
            version = 0
            while True:
                version, news = self.server.feed.wait(version)
                self.wfile.write(b": here\n\n" if news is None else f"data: {news}\n\n".encode())
                self.wfile.flush()
        except OSError:
            pass  # the page was closed
        finally:
            self.server.open_pages.release()

    def _head(self, kind: str, nonce: str = "") -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        own = f"script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'" if nonce else ""
        policy = f"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; {own}"
        self.send_header("Content-Security-Policy", policy)

    def log_message(self, format: str, *args: Any) -> None:
        pass
