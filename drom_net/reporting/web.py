"""The page of `drom-net watch --web`: served on this machine alone, to who has its token."""

from __future__ import annotations

import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import parse_qs, urlsplit

from drom_net.core.errors import ClusterError, DromNetError
from drom_net.reporting.facts import read_events, read_facts
from drom_net.reporting.pictures import curves
from drom_net.reporting.watching import Seen, effect_in_words, kind_of, look, round_of, state_in_words

_EVERY_S, _ALIVE_S = 1.0, 15.0
"""How often a run is looked at; after how long without news a line says that the connection is there."""
_CLIENTS = 16
_CURVES, _POINTS = 12, 400
"""Of so many sites the page has curves, with so many points at most."""
_EVENTS = 50


class Feed:
    """What all open pages show; one thread writes it, theirs read it."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.version = 0
        self._now: dict[str, Any] = {"status": "waiting", "tasks": [], "events": []}
        self._history: dict[str, list[list[float]]] = {}
        """By label the (round, error in percent) of a curve."""

    def put(self, seen: Seen, events: list[dict[str, Any]]) -> None:
        state = seen.state
        now: dict[str, Any] = {"status": seen.status, "events": [event["text"] for event in events]}
        now |= {key: state.get(key) for key in ("name", "algorithm", "rounds", "rounds_limit", "error", "what_leaves")}
        now |= {key: state.get(key) for key in ("error_rate", "majority_error_rate", "edges", "verdict")}
        now["error"] = now["error"] or seen.note
        now["tasks"] = [_site(task) for task in state.get("tasks", ())]
        now["reducer"] = _site(state["reducer"]) if state.get("reducer") else None
        with self.changed:
            self._now = now
            if state and seen.status == "running":
                self._add("all", state.get("rounds", 0), state.get("error_rate"))
                self._add("majority", state.get("rounds", 0), state.get("majority_error_rate"))
                for task in list(state["tasks"])[:_CURVES]:
                    self._add(f"site {task['name']}", round_of(task), task.get("error_rate"))
            self.version += 1
            self.changed.notify_all()

    def put_curve(self, label: str, points: list[list[float]]) -> None:
        """A curve of a run that has ended."""
        self._history[label] = points

    def wait(self, version: int) -> tuple[int, str | None]:
        """(version, what there is as JSON) once it is newer than a version; None where nothing came for a while."""
        with self.changed:
            if not self.changed.wait_for(lambda: self.version > version, _ALIVE_S):
                return version, None
            return self.version, json.dumps(self._now | {"curves": self._history})

    def _add(self, label: str, t: int, rate: float | None) -> None:
        if rate is None:
            return
        points = self._history.setdefault(label, [])
        if points and points[-1][0] >= t:
            return
        points.append([t, round(100.0 * rate, 3)])
        if len(points) > _POINTS:
            del points[1:-1:2]


def _site(task: Any) -> dict[str, Any]:
    """What the page tells of a node, as text where it is words."""
    return {
        "name": task["name"],
        "round": round_of(task),
        "error": task.get("error_rate"),
        "majority": task.get("majority_error_rate"),
        "sharing": effect_in_words(task),
        "sent": task.get("bytes_sent") or 0,
        "kind": kind_of(task),
        "words": state_in_words(task),
    }


class PageServer:
    """http://127.0.0.1:PORT/?token=TOKEN"""

    def __init__(self, feed: Feed, port: int = 0) -> None:
        """
        Args:
            port: 0 for one that is free.

        Raises:
            ClusterError: It cannot listen there.
        """
        self._token = secrets.token_urlsafe(16)
        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(feed, self._token))
        except OSError as error:
            raise ClusterError(f"cannot serve a page on 127.0.0.1:{port}: {error.strerror}") from None
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/?token={self._token}"
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
    over = False
    try:
        while True:
            if not over:
                seen = look(run_dir)
                over = seen.is_over
                if over and not feed.version:
                    put_curves(feed, run_dir)
                feed.put(seen, read_events(run_dir, limit=_EVENTS))
            time.sleep(_EVERY_S)
    finally:
        server.close()


def put_curves(feed: Feed, run_dir: Path) -> None:
    """The curves of a run that has ended, from its records; none where it has kept none."""
    try:
        facts = read_facts(run_dir)
    except DromNetError:
        return
    parts = [
        ("all", facts.tasks),
        *((f"site {name}", [task]) for name, task in zip(facts.names, facts.tasks, strict=False)),
    ]
    for label, tasks in parts[: _CURVES + 1]:
        if sum(len(task.rounds) for task in tasks):
            ours, majority = curves("", tasks, None).series
            feed.put_curve(label, [[x, round(y, 3)] for x, y in zip(ours.x, ours.y, strict=True)])
            if label == "all":
                feed.put_curve("majority", [[x, round(y, 3)] for x, y in zip(majority.x, majority.y, strict=True)])


def _static(name: str) -> str:
    return (Path(__file__).parent / "static" / name).read_text(encoding="utf-8")


def _handler(feed: Feed, token: str) -> type[BaseHTTPRequestHandler]:
    open_pages = threading.BoundedSemaphore(_CLIENTS)

    class Handler(BaseHTTPRequestHandler):
        timeout = 10.0

        def do_GET(self) -> None:
            name = self.headers.get("Host", "").partition(":")[0]  # a browser leaves port 80 out
            try:
                url = urlsplit(self.path)
            except ValueError:
                self.send_error(400, "that is no address")
                return
            if name not in ("127.0.0.1", "localhost"):  # a foreign name that was made to point here
                self.send_error(403, "this page is of this machine")
            elif not hmac.compare_digest(parse_qs(url.query).get("token", [""])[0].encode(), token.encode()):
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
            page = Template(_static("watch.html")).substitute(nonce=nonce, style=style, script=_static("watch.js"))
            body = page.encode()
            self._head("text/html; charset=utf-8", nonce)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _events(self) -> None:
            if not open_pages.acquire(blocking=False):
                self.send_error(503, f"{_CLIENTS} pages are open already")
                return
            try:
                self._head("text/event-stream")
                self.end_headers()
                version = 0
                while True:
                    version, news = feed.wait(version)
                    self.wfile.write(b": here\n\n" if news is None else f"data: {news}\n\n".encode())
                    self.wfile.flush()
            except OSError:
                pass  # the page was closed
            finally:
                open_pages.release()

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

    return Handler
