"""A public file to its place on disk: resumed where it broke off, checked before it is named."""

from __future__ import annotations

import os
import re
import shutil
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from email.message import Message
from hashlib import sha256
from http.client import HTTPException, HTTPMessage, HTTPResponse
from pathlib import Path
from typing import IO, TypeAlias
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from unbag.errors import UserError
from unbag.types import Download
from unbag.version import __version__

# One HTTP question to the answer: bytes from where on, of how many, of which version.

CHUNK = 1 << 18
LONGEST_WAIT = 120.0
_MAY_PASS = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Answers that may be another one a moment later."""


class BrokenError(Exception):
    """The connection did not hold, or the server is busy: worth another try."""

    def __init__(self, what: str, *, wait: float = 0.0) -> None:
        """Say what happened, and how long the server asks to wait."""
        self.what = what
        self.wait = wait
        super().__init__(what)


class BeyondTheEndError(Exception):
    """The server has nothing from the asked byte on (416)."""

    def __init__(self, total: int | None) -> None:
        """Keep the size of the whole file, if the server names it."""
        self.total = total
        super().__init__(total)


@dataclass(frozen=True)
class Answer:
    """A server's answer, its body not yet read."""

    response: HTTPResponse
    start: int
    """The first byte it sends."""
    total: int | None
    """Bytes of the whole file, if the server says so."""
    mark: str
    """What tells this version of the file from another; empty if the server gives nothing."""

    def chunks(self) -> Iterator[bytes]:
        """The body, piece by piece as it comes; BrokenError where it ends too early."""
        position = self.start
        try:
            while chunk := self.response.read1(CHUNK):
                position += len(chunk)
                yield chunk
        except (HTTPException, OSError) as error:
            raise BrokenError(f"the connection broke ({_short(error)})") from error
        if self.total is not None and position < self.total:
            raise BrokenError(f"the connection ended after {position:,} of {self.total:,} bytes")


class _Redirects(HTTPRedirectHandler):
    """Follows redirects over the web only, and never from https back to http."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        check_address(newurl)
        if req.type == "https" and urlsplit(newurl).scheme != "https":
            raise UserError(
                f"{req.full_url} leads to {newurl}",
                expected="an address that stays encrypted",
                way_out="fetch it by hand if you trust that server",
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def check_address(url: str) -> None:
    """Only the web is asked: an address of a plug-in must not read this machine's files."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise UserError(
            f"{url!r} cannot be fetched",
            expected="an address that begins with https:// or http://",
            way_out="put the file there by hand",
        )


@contextmanager
def ask(url: str, *, start: int, mark: str, timeout: float) -> Iterator[Answer]:
    """Ask for a file from byte `start` on, if it is still the version of `mark`.

    Proxies are those of the environment (https_proxy, no_proxy ...).
    """
    check_address(url)
    # Bytes must be those of the file, so that they can be counted and resumed.
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


def _read_head(url: str, response: HTTPResponse) -> Answer:
    headers = response.headers
    _check_content(url, headers)
    start, total = 0, _whole(headers.get("Content-Length"))
    if response.status == 206:
        found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", headers.get("Content-Range", ""))
        if not found:
            raise BrokenError("the server sends a part and does not say which")
        start, total = int(found[1]), _whole(found[2])
    return Answer(response, start, total, _mark(headers))


def _check_content(url: str, headers: Message) -> None:
    if headers.get("Content-Encoding", "identity") != "identity":
        raise UserError(
            f"{url} is sent as {headers['Content-Encoding']}, which was not asked for",
            expected="the bytes of the file",
            way_out="fetch it by hand",
        )
    if headers.get_content_type() == "text/html" and not url.endswith((".html", ".htm")):
        raise UserError(
            f"{url} answered with a web page",
            expected="the file itself",
            way_out="open the address in a browser: it may want a click, or have moved",
        )


def _mark(headers: Message) -> str:
    """A strong ETag, or the date of the last change; a weak ETag does not promise equal bytes."""
    tag: str = headers.get("ETag", "")
    changed: str = headers.get("Last-Modified", "")
    return tag if tag.startswith('"') else changed


def _refused(url: str, error: HTTPError) -> Exception:
    if error.code == 416:
        found = re.fullmatch(r"bytes \*/(\d+)", error.headers.get("Content-Range", ""))
        return BeyondTheEndError(int(found[1]) if found else None)
    if error.code in _MAY_PASS:
        wait = error.headers.get("Retry-After", "")
        seconds = min(float(wait), LONGEST_WAIT) if wait.isdigit() else 0.0
        return BrokenError(f"the server answered {error.code} {error.reason}", wait=seconds)
    return UserError(
        f"{url} answered {error.code} {error.reason}",
        expected="the file",
        way_out="it may have moved or want an account: see the page of the data set",
    )


def _unreachable(url: str, error: Exception) -> Exception:
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, ssl.SSLCertVerificationError):
        return UserError(
            f"the certificate of {url} is not trusted: {reason.verify_message}",
            expected="a server that is who it says",
            way_out="check the clock and the certificates of this machine, and its proxy",
        )
    return BrokenError(f"the server cannot be reached ({_short(reason)})")


def _short(error: object) -> str:
    return str(error) or type(error).__name__


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


# A file that is on its way: what has come so far, and of which version it is.


@dataclass(frozen=True)
class Part:
    """NAME.part beside the file to be, and NAME.part.version with the server's mark of it."""

    target: Path
    url: str

    @property
    def path(self) -> Path:
        """The bytes."""
        return self.target.with_name(f"{self.target.name}.part")

    @property
    def _version(self) -> Path:
        return self.target.with_name(f"{self.target.name}.part.version")

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self.path.stat().st_size if self.path.exists() else 0

    @property
    def mark(self) -> str:
        """The mark the server gave with these bytes; empty if it gave none."""
        try:
            url, _, mark = self._version.read_text(encoding="utf-8").partition("\n")
        except (OSError, UnicodeDecodeError):
            return ""
        return mark.strip() if url == self.url else ""

    def begin(self, mark: str) -> None:
        """Forget what there is; the next bytes are those of version `mark`."""
        self.discard()
        self._version.write_text(f"{self.url}\n{mark}\n", encoding="utf-8")

    def discard(self) -> None:
        """Throw the bytes away. The emptied file stays, since the lock hangs on it."""
        if self.path.exists():
            os.truncate(self.path, 0)
        self._version.unlink(missing_ok=True)

    def finish(self) -> None:
        """Give the whole file its name, in one step."""
        with self.path.open("rb+") as file:
            os.fsync(file.fileno())
        self.path.replace(self.target)
        self._version.unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process may fetch a file; the system drops the lock if that process dies."""
        with self.path.open("ab") as file:
            try:
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except ImportError:
                pass  # Not on this system; the checksum still tells a mixed file.
            except OSError as error:
                raise UserError(
                    f"another process is fetching {self.target}",
                    expected="one process for a file",
                    way_out="wait for it, or stop it",
                ) from error
            try:
                yield
            finally:
                if not self.size:
                    self.path.unlink(missing_ok=True)


# What a listener of a long download gives: a bar for so many bytes, and a way to move it on.

Advance: TypeAlias = Callable[[int], None]
Task: TypeAlias = Callable[[str, int], AbstractContextManager[Advance]]
"""The `task` of the engine's `Progress`: what is done, and how many bytes it is; 0 if unknown."""


@contextmanager
def unseen(what: str, total: int) -> Iterator[Advance]:
    """Shows nothing."""
    yield lambda steps: None


def readable(size: int) -> str:
    """A number of bytes as people read it: 815.6 MB, in powers of 1,000 as disks are sold."""
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 999.95:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


@dataclass(frozen=True)
class Patience:
    """How long a server is waited for."""

    attempts: int = 5
    """In a row without a single new byte."""
    timeout: float = 60.0
    """Seconds of silence."""
    pause: float = 1.0
    """Seconds before the second attempt; doubles with each."""
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True)
class Fetched:
    """A file that is there and checked."""

    path: Path
    size: int
    sha256: str
    was_there: bool


PATIENCE = Patience()


class UnreachableError(UserError):
    """A server that did not answer however long it was waited for."""


def fetch(
    download: Download, target: Path, *, task: Task = unseen, patience: Patience = PATIENCE
) -> Fetched:
    """Fetch one file; nothing is asked of the server if the right one is there already.

    Whatever stops it, NAME.part keeps the bytes that came, and the next call goes on from there.
    """
    check_address(download.url)
    if target.exists():
        return _there(download, target, task)
    part = Part(target, download.url)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with part.locked():
            digest = _checked(part, download, task, patience)
            size = part.size
            part.finish()
    except OSError as error:
        # Those of the network became errors of their own where they happened.
        raise _unwritable(target, error) from error
    return Fetched(target, size, digest, was_there=False)


def matches(download: Download, path: Path, *, task: Task = unseen) -> bool:
    """Whether a file has the size and checksum that are known of it."""
    if not path.is_file() or (download.size and path.stat().st_size != download.size):
        return False
    return not download.sha256 or digest_of(path, task) == download.sha256


def digest_of(path: Path, task: Task = unseen) -> str:
    """The sha256 of a file."""
    found = sha256()
    with task(f"check {path.name}", path.stat().st_size) as advance, path.open("rb") as file:
        while chunk := file.read(CHUNK):
            found.update(chunk)
            advance(len(chunk))
    return found.hexdigest()


def _there(download: Download, target: Path, task: Task) -> Fetched:
    """The user's own file is never replaced: it may be another release, kept on purpose."""
    if not matches(download, target, task=task):
        found = f"sha256 {digest_of(target)}" if target.is_file() else "it is no file"
        raise UserError(
            f"{target} is there and is not the file at {download.url}: {found}",
            expected=_expected(download),
            way_out="move it away if it is not meant to be another release, then run this again",
        )
    size = target.stat().st_size
    return Fetched(target, size, download.sha256 or digest_of(target, task), was_there=True)


def _checked(part: Part, download: Download, task: Task, patience: Patience) -> str:
    """Complete the part; its sha256 if it is right, else an error and no part."""
    while True:
        is_pieced = _complete(part, download, task, patience)
        digest, size = digest_of(part.path, task), part.size
        wrong_size = bool(download.size) and size != download.size
        if not wrong_size and digest == (download.sha256 or digest):
            return digest
        part.discard()
        # Pieces of two calls may be of two versions: the whole at once is the fair test.
        if not is_pieced:
            raise UserError(
                f"{download.url} gave a wrong file of {size:,} bytes: sha256 {digest}",
                expected=_expected(download),
                way_out="it was removed; try again, and if it stays so the authors changed the "
                "file: see their page, and put the release you want there by hand",
            )


def _complete(part: Part, download: Download, task: Task, patience: Patience) -> bool:
    """Ask until everything has come; whether it came in more than one piece."""
    is_pieced = part.size > 0
    failures = 0
    while not (download.size and part.size == download.size):
        before = part.size
        try:
            _receive(part, download, task, patience.timeout)
            return is_pieced
        except BrokenError as error:
            is_pieced |= part.size > 0
            failures = 0 if part.size > before else failures + 1
            if failures >= patience.attempts:
                raise UnreachableError(
                    f"{download.url}: {error.what}, {failures} times",
                    expected="a server that answers",
                    way_out=f"run this again later{_kept(part)}",
                ) from error
            patience.sleep(max(error.wait, patience.pause * 2 ** max(failures - 1, 0)))
    return is_pieced


def _kept(part: Part) -> str:
    return f"; {readable(part.size)} are kept in {part.path}" if part.size else ""


def _receive(part: Part, download: Download, task: Task, timeout: float) -> None:
    """One connection: add what comes to the part."""
    if download.size and part.size > download.size:
        part.discard()
    # Without a mark or a checksum nothing would tell that the file changed in between.
    start = part.size if part.mark or download.sha256 else 0
    try:
        with ask(download.url, start=start, mark=part.mark, timeout=timeout) as answer:
            _check_size(part, download, answer)
            _place(part, answer, start)
            _check_space(part, answer)
            _append(part, download, answer, task)
    except BeyondTheEndError as end:
        if end.total != part.size:
            part.discard()
            raise BrokenError("the server has less of the file than was fetched") from end


def _place(part: Part, answer: Answer, start: int) -> None:
    """Make the part end where the answer begins."""
    is_same = not (answer.mark and part.mark) or answer.mark == part.mark
    if answer.start == 0:
        part.begin(answer.mark)
    elif answer.start != start or not is_same:
        part.discard()
        raise BrokenError("the file changed on the server")


def _append(part: Part, download: Download, answer: Answer, task: Task) -> None:
    total = answer.total or download.size
    with task(part.target.name, total) as advance, part.path.open("ab") as file:
        advance(answer.start)
        position = answer.start
        for chunk in answer.chunks():
            file.write(chunk)
            position += len(chunk)
            advance(len(chunk))
            if download.size and position > download.size:
                return  # Too much already; the check of the size says so.


def _check_size(part: Part, download: Download, answer: Answer) -> None:
    if download.size and answer.total not in (None, download.size):
        part.discard()
        raise UserError(
            f"{download.url} has {answer.total:,} bytes now",
            expected=_expected(download),
            way_out="the authors changed the file: see their page, and put it there by hand",
        )


def _check_space(part: Part, answer: Answer) -> None:
    check_space(part.path.parent, (answer.total or 0) - answer.start, what=part.target.name)


def check_space(folder: Path, needed: int, *, what: str) -> None:
    """An error before anything is written, not after hours."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise UserError(
            f"{what} needs {readable(needed)} more, and {folder} has {readable(free)} free",
            expected="enough room on the disk",
            way_out="free some, or choose another disk with --data",
        )


def _unwritable(path: Path, error: OSError) -> UserError:
    return UserError(
        f"cannot write {path}: {error.strerror or error}",
        expected="a folder that can be written, with room",
        way_out="free some room or mend the rights, then run this again: it goes on from there",
    )


def _expected(download: Download) -> str:
    known = []
    if download.size:
        known.append(f"{download.size:,} bytes")
    if download.sha256:
        known.append(f"sha256 {download.sha256}")
    return ", ".join(known) or "a file"
