"""A local web server that can break off, send wrong data, and recover."""

from __future__ import annotations

import io
import re
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from unbag.data.download import Patience


@dataclass
class Page:
    """One file on the server, and how the server behaves about it."""

    content: bytes
    mark: str = '"v1"'
    has_ranges: bool = True
    breaks: list[int] = field(default_factory=list)
    """Bytes after which the next responses break off."""
    refusals: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    """Status and headers of the next responses."""
    leads_to: str = ""
    length: int | None = None
    """A wrong Content-Length; -1 for no such header."""
    kind: str = "application/octet-stream"
    encoding: str = ""
    ignores_if_range: bool = False
    stalls: list[float] = field(default_factory=list)
    """Seconds for which the next responses stall before they end."""
    range_shift: int = 0
    """Offset of the sent range from the requested one."""


@dataclass
class Site:
    """Pages by path, and the path and headers of every request."""

    address: str
    pages: dict[str, Page] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def put(self, path: str, content: bytes) -> Page:
        """Publish a file, or a new version of it."""
        self.pages[path] = Page(content)
        return self.pages[path]

    def at(self, path: str) -> str:
        """The address of a page."""
        return f"{self.address}{path}"

    @property
    def ranges(self) -> list[str]:
        """The Range header of every request; empty if there was none."""
        return [headers.get("Range", "") for _, headers in self.asked]


class Handler(BaseHTTPRequestHandler):
    site: Site

    def do_GET(self) -> None:
        self.site.asked.append((self.path, dict(self.headers.items())))
        page = self.site.pages.get(self.path)
        if page is None:
            self.send_error(404)
        elif page.refusals:
            status, headers = page.refusals.pop(0)
            self._head(status, {**headers, "Content-Length": "0"})
        elif page.leads_to:
            self._head(302, {"Location": page.leads_to, "Content-Length": "0"})
        else:
            self._send(page)

    def _send(self, page: Page) -> None:
        headers = {"Content-Type": page.kind}
        if page.mark:
            headers["ETag"] = page.mark
        if page.encoding:
            headers["Content-Encoding"] = page.encoding
        start = self._start(page)
        if start >= len(page.content) > 0 and start:
            whole = {"Content-Range": f"bytes */{len(page.content)}", "Content-Length": "0"}
            self._head(416, whole)
            return
        body = page.content[start + page.range_shift if start else 0 :]
        length = len(body) if page.length is None else page.length
        if length >= 0:
            headers["Content-Length"] = str(length)
        if start:
            first = start + page.range_shift
            last = len(page.content) - 1
            headers["Content-Range"] = f"bytes {first}-{last}/{len(page.content)}"
        self._head(206 if start else 200, headers)
        self.wfile.write(body[: page.breaks.pop(0)] if page.breaks else body)
        self.close_connection = True
        if page.stalls:
            self.wfile.flush()
            time.sleep(page.stalls.pop(0))

    def _start(self, page: Page) -> int:
        found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        condition = self.headers.get("If-Range", page.mark)
        if not found or not page.has_ranges:
            return 0
        return int(found[1]) if condition == page.mark or page.ignores_if_range else 0

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Silent."""


class Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Some tests disconnect on purpose."""


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "*")
    handler = type("Bound", (Handler,), {})
    with Server(("127.0.0.1", 0), handler) as server:
        handler.site = Site(f"http://127.0.0.1:{server.server_address[1]}")  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield handler.site  # type: ignore[attr-defined]
        server.shutdown()
        thread.join()


@dataclass
class Waits:
    """Records the seconds of each pause instead of waiting."""

    seconds: list[float] = field(default_factory=list)

    @property
    def patience(self) -> Patience:
        return Patience(attempts=3, timeout=5, sleep=self.seconds.append)


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
def zipped() -> Callable[[dict[str, bytes]], bytes]:
    """Makes a zip archive of files."""
    return _zipped


def _zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()
