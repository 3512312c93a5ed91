"""The server behind the page: this machine only, reading only.

    GET /                       the page
    GET /view.css, /*.js        its looks and its program
    GET /api/runs               every run and study: status, steps, return
    GET /api/attention          what to look at first, and why
    GET /api/curve?id=&metric=  metrics of one run over its steps; several may be given, small=1 for few points
    GET /api/config?id=         the configuration of one run
    GET /api/run?id=            one run in detail: findings, evaluations, probes, fields that are not the default
    GET /api/study?id=          one study: its result
    GET /page?id=               the page that a study has written

Answers carry an ETag; a request with If-None-Match is answered with a 304 where nothing has changed.
"""

from __future__ import annotations

import hashlib
import json
import math
import socket
import sys
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from trimtab.core import reading
from trimtab.core.errors import UnreadableFile
from trimtab.core.json_values import to_json
from trimtab.extras.live_view.attention import attention
from trimtab.extras.live_view.listing import Listing, Watch
from trimtab.extras.live_view.run_details import read_config
from trimtab.extras.live_view.run_tree import RUN, Place, leads_inside

LOOPBACK = "127.0.0.1"
NAMES = (LOOPBACK, "localhost", "[::1]")
MOST_OF_A_PAGE = 256 * reading.MB
MOST_CONNECTIONS = 64  # at the same time; one more is closed at once
ASSETS = {
    "/": ("index.html", "text/html"),
    "/view.css": ("view.css", "text/css"),
    "/view.js": ("view.js", "text/javascript"),
    "/plot.js": ("plot.js", "text/javascript"),
}
STRICT = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'"
# A study's page is self-contained: it may run its own scripts, reach nothing here, and fetch nothing.
PAGE_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'; "
    "img-src data: blob:; sandbox allow-scripts allow-downloads"
)


Query = dict[str, list[str]]


class _Refused(Exception):
    """A request that is not answered: the status, and one line."""


class Viewer(ThreadingHTTPServer):
    """A server of one directory on the loopback interface."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, root: Path, port: int):
        self.watch = Watch(root)
        self._room = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__((LOOPBACK, port), _Handler)

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.server_address[1]}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A page that was closed or loaded again while it was answered is no error; anything else is shown."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)

    def server_bind(self) -> None:
        """Bind without asking a name server who we are."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = LOOPBACK, self.server_address[1]


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Viewer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "trimtab", ""
    timeout = 30

    def do_GET(self) -> None:
        try:
            self._refuse_strangers()
            self._answer()
        except _Refused as refused:
            status, why = refused.args
            self._send(status, why.encode() + b"\n", "text/plain")
        except (BrokenPipeError, ConnectionResetError):  # the page was closed
            self.close_connection = True

    do_HEAD = do_GET

    def _refuse_strangers(self) -> None:
        """Only names of this machine: a page from elsewhere that points its own name to this address is refused."""
        host = self.headers.get("Host", "")
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if name not in NAMES:
            raise _Refused(HTTPStatus.FORBIDDEN, "only requests for this machine are answered")
        origin = self.headers.get("Origin")
        if origin is not None and origin != f"http://{host}":  # also of other pages of this machine
            raise _Refused(HTTPStatus.FORBIDDEN, "requests of other pages are not answered")
        if self.headers.get("Content-Length") or self.headers.get("Transfer-Encoding"):
            self.close_connection = True  # a request's content is not read

    def _answer(self) -> None:
        url = urlsplit(self.path)
        if url.path in ASSETS:
            name, kind = ASSETS[url.path]
            data = (resources.files("trimtab.extras.live_view") / "assets" / name).read_bytes()
            self._send(HTTPStatus.OK, data, kind, tag=_etag(data))
        elif url.path in self.ROUTES:
            body = self.ROUTES[url.path](self, parse_qs(url.query))
            if isinstance(body, bytes):
                self._send(HTTPStatus.OK, body, "text/html", policy=PAGE_POLICY)
            else:
                data = _as_json(body)
                self._send(HTTPStatus.OK, data, "application/json", tag=_etag(data))
        else:
            raise _Refused(HTTPStatus.NOT_FOUND, "no such address")

    def _runs(self, query: Query) -> object:
        return self.server.watch.listing()

    def _attention(self, query: Query) -> object:
        return attention(self.server.watch)

    def _curve(self, query: Query) -> object:
        return self.server.watch.curve(self._place(query, "run"), query.get("metric", []), "small" in query)

    def _config(self, query: Query) -> object:
        place = self._place(query, "run")
        inside = all(
            leads_inside(self.server.watch.root, place.path / name) for name in ("config.yaml", "manifest.json")
        )
        return (read_config(place) if inside else None) or {}

    def _run(self, query: Query) -> object:
        return self.server.watch.details.of(self._place(query, "run"))

    def _study(self, query: Query) -> object:
        place = self._place(query, "study")
        return {"id": place.id, "kind": place.kind, **self.server.watch.details.answer(place.path)}

    def _page(self, query: Query) -> object:
        page = self._place(query, "study").path / "page.html"
        if not leads_inside(self.server.watch.root, page):
            raise _Refused(
                HTTPStatus.NOT_FOUND,
                "the study has no page yet, or its page is a link to a place outside this directory",
            )
        try:
            return reading.read_bytes(page, MOST_OF_A_PAGE)
        except UnreadableFile:
            raise _Refused(HTTPStatus.NOT_FOUND, "the page of the study cannot be read") from None

    ROUTES: ClassVar[dict[str, Callable[[_Handler, Query], object]]] = {
        "/api/runs": _runs,
        "/api/attention": _attention,
        "/api/curve": _curve,
        "/api/config": _config,
        "/api/run": _run,
        "/api/study": _study,
        "/page": _page,
    }

    def _place(self, query: Query, kind: str) -> Place:
        place = self.server.watch.place(query.get("id", [""])[0])
        if place is None or place.is_run != (kind == RUN):
            raise _Refused(HTTPStatus.NOT_FOUND, f"no such {kind}")
        return place

    def _send(self, status: int, data: bytes, kind: str, tag: str = "", policy: str = STRICT) -> None:
        same = bool(tag) and self.headers.get("If-None-Match") == tag
        self.send_response(HTTPStatus.NOT_MODIFIED if same else status)
        headers = {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": "0" if same else str(len(data)),
            "Cache-Control": "no-cache",
            "Content-Security-Policy": policy,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
        }
        for name, value in {**headers, **({"ETag": tag} if tag else {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if not same and self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing of every request."""


def _as_json(body: object) -> bytes:
    """A typed answer as JSON; numbers that are not finite become null."""
    text = body.json if isinstance(body, Listing) else json.dumps(_finite(to_json(body)), allow_nan=False)
    return text.encode()


def _etag(data: bytes) -> str:
    """A name for an answer: equal answers have equal names."""
    return f'"{hashlib.sha256(data).hexdigest()[:20]}"'


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
