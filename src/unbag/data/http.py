"""Request a file, or the rest of it from a given byte, over HTTP."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage, HTTPResponse
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from unbag.errors import UnbagError
from unbag.version import __version__

CHUNK = 1 << 18
LONGEST_WAIT = 120.0
_MAY_PASS = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Status codes that are worth a retry."""


@contextmanager
def ask(url: str, *, start: int, mark: str, timeout: float) -> Iterator[HttpAnswer]:
    """Request a file from byte `start` on, if it still has the version `mark`.

    Proxies are taken from the environment (https_proxy, no_proxy ...).
    """
    check_address(url)
    # No compression, so that bytes can be counted and resumed.
    headers = {"User-Agent": f"unbag/{__version__}", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
        if mark:
            headers["If-Range"] = mark
    try:
        response = build_opener(_Redirects).open(Request(url, headers=headers), timeout=timeout)  # noqa: S310
    except HTTPError as error:
        with error:
            raise _refused(url, error) from error
    except (HTTPException, OSError) as error:
        raise _unreachable(url, error) from error
    with response:
        yield _read_head(url, response)


def check_address(url: str) -> None:
    """Accept only http and https: an address in a plug-in must not read local files."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise UnbagError(
            f"{url!r} cannot be downloaded",
            expected="an address that begins with https:// or http://",
            hint="download the file by hand",
        )


@dataclass(frozen=True)
class HttpAnswer:
    """A response whose body is not read yet."""

    response: HTTPResponse
    start: int
    """Position of the first byte it sends."""
    total: int | None
    """Size of the whole file in bytes, if known."""
    mark: str
    """Identifies this version of the file (ETag or date); empty if the server gives none."""

    def chunks(self) -> Iterator[bytes]:
        """Yield the body in pieces; BrokenError if it ends too early."""
        position = self.start
        try:
            while chunk := self.response.read1(CHUNK):
                position += len(chunk)
                yield chunk
        except (HTTPException, OSError) as error:
            raise BrokenError(f"the connection was lost ({_error_text(error)})") from error
        if self.total is not None and position < self.total:
            raise BrokenError(f"the connection ended after {position:,} of {self.total:,} bytes")


class BrokenError(Exception):
    """The connection failed or the server is busy; the request can be retried."""

    def __init__(self, what: str, *, wait: float = 0.0) -> None:
        """Store the reason and the seconds that the server asks to wait."""
        self.what = what
        self.wait = wait
        super().__init__(what)


class BeyondTheEndError(Exception):
    """The requested position lies beyond the end of the file (status 416)."""

    def __init__(self, total: int | None) -> None:
        """Store the size of the whole file, if the server reports it."""
        self.total = total
        super().__init__(total)


class _Redirects(HTTPRedirectHandler):
    """Follow redirects to http and https only, and never from https to http."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        check_address(newurl)
        if req.type == "https" and urlsplit(newurl).scheme != "https":
            raise UnbagError(
                f"{req.full_url} redirects to {newurl}",
                expected="an encrypted address (https)",
                hint="download it by hand if you trust that server",
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _read_head(url: str, response: HTTPResponse) -> HttpAnswer:
    headers = response.headers
    if headers.get("Content-Encoding", "identity") != "identity":
        raise UnbagError(
            f"{url} is sent as {headers['Content-Encoding']}, which was not requested",
            expected="the bytes of the file",
            hint="download it by hand",
        )
    if headers.get_content_type() == "text/html" and not url.endswith((".html", ".htm")):
        raise UnbagError(
            f"{url} answered with a web page",
            expected="the file itself",
            hint="open the address in a browser: it may need a click, or have moved",
        )
    start, total = 0, _length(headers.get("Content-Length"))
    if response.status == 206:
        match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", headers.get("Content-Range", ""))
        if not match:
            raise BrokenError("the server sends a part of the file and does not say which")
        start, total = int(match[1]), _length(match[2])
    # A strong ETag, or the date of the last change; a weak ETag does not promise equal bytes.
    tag: str = headers.get("ETag", "")
    changed: str = headers.get("Last-Modified", "")
    return HttpAnswer(response, start, total, tag if tag.startswith('"') else changed)


def _refused(url: str, error: HTTPError) -> Exception:
    if error.code == 416:
        match = re.fullmatch(r"bytes \*/(\d+)", error.headers.get("Content-Range", ""))
        return BeyondTheEndError(int(match[1]) if match else None)
    if error.code in _MAY_PASS:
        wait = error.headers.get("Retry-After", "")
        seconds = min(float(wait), LONGEST_WAIT) if wait.isdigit() else 0.0
        return BrokenError(f"the server answered {error.code} {error.reason}", wait=seconds)
    return UnbagError(
        f"{url} answered {error.code} {error.reason}",
        expected="the file",
        hint="it may have moved or need an account: see the page of the dataset",
    )


def _unreachable(url: str, error: Exception) -> Exception:
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, ssl.SSLCertVerificationError):
        return UnbagError(
            f"the certificate of {url} is not trusted: {reason.verify_message}",
            expected="a valid certificate",
            hint="check the clock, the certificates and the proxy of this machine",
        )
    return BrokenError(f"the server cannot be reached ({_error_text(reason)})")


def _error_text(error: object) -> str:
    return str(error) or type(error).__name__


def _length(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None
