"""The client of servers against a local HTTP server that fails, limits and sends nonsense."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from unbag.errors import UnbagError
from unbag.models.server import GarbageError, Manners, Reply, ReplyCache, ServerClient

Answer = tuple[int, bytes, dict[str, str]]


def good(body: dict[str, Any]) -> Answer:
    return 200, json.dumps({"echo": body["n"]}).encode(), {}


@dataclass
class Behaviour:
    """What the server does with each request, in the order they come; then it behaves."""

    answers: list[Callable[[dict[str, Any]], Answer] | None] = field(default_factory=list)
    """None: the connection is closed without an answer."""
    seen: list[int] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


@pytest.fixture
def server() -> Iterator[tuple[str, Behaviour]]:
    behaviour = Behaviour()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with behaviour.lock:
                behaviour.seen.append(body["n"])
                behaviour.keys.append(self.headers.get("Authorization"))
                answer = behaviour.answers.pop(0) if behaviour.answers else good
            if answer is None:
                self.close_connection = True
                return
            status, content, headers = answer(body)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    found = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=found.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{found.server_address[1]}/v1", behaviour
    found.shutdown()
    found.server_close()
    thread.join()


def status(code: int, text: str = "", **headers: str) -> Callable[[dict[str, Any]], Answer]:
    return lambda body: (code, text.encode(), headers)


@dataclass
class Slept:
    """Counts pauses instead of making them."""

    pauses: list[float] = field(default_factory=list)

    def __call__(self, seconds: float) -> None:
        self.pauses.append(seconds)


def client(url: str, **options: Any) -> ServerClient:
    options.setdefault("manners", Manners(concurrency=4, attempts=4, timeout=5, sleep=Slept()))
    return ServerClient(url, **options)


def test_replies_in_order_of_requests(server: tuple[str, Behaviour]) -> None:
    url, behaviour = server
    asked = [{"n": n} for n in [3, 1, 2, 1, 3]]
    assert [reply["echo"] for reply in client(url).ask_all(asked)] == [3, 1, 2, 1, 3]
    assert sorted(behaviour.seen) == [1, 2, 3]


def test_retries_and_pauses(server: tuple[str, Behaviour]) -> None:
    url, behaviour = server
    nonsense = [status(200, "<html>busy</html>"), status(200, "[1, 2]"), status(503), None]
    packed = status(200, "not packed", **{"Content-Encoding": "gzip"})
    deep = status(200, "[" * 100_000)
    behaviour.answers = [*nonsense, status(429, **{"Retry-After": "7"}), packed, deep]
    slept = Slept()
    found = client(url, manners=Manners(1, attempts=9, timeout=5, sleep=slept))
    assert found.ask_all([{"n": 1}]) == [{"echo": 1}]
    assert slept.pauses == [1.0, 2.0, 4.0, 8.0, 7.0, 32.0, 60.0]


def test_incomplete_reply_is_requested_again(server: tuple[str, Behaviour]) -> None:
    url, behaviour = server
    behaviour.answers = [status(200, '{"other": 1}')]

    def check(reply: Reply) -> None:
        if "echo" not in reply:
            raise GarbageError("no echo")

    assert client(url).ask_all([{"n": 5}], check=check) == [{"echo": 5}]
    assert behaviour.seen == [5, 5]


def test_replies_are_cached_when_the_server_fails(
    server: tuple[str, Behaviour], tmp_path: Path
) -> None:
    url, behaviour = server
    path = tmp_path / "cache" / "replies.sqlite"
    behaviour.answers = [good, good, *[status(500)] * 4]
    one = Manners(1, attempts=4, timeout=5, sleep=Slept())
    asked = [{"n": n} for n in range(4)]
    with pytest.raises(UnbagError, match="no usable answer in 4 attempts: status 500") as error:
        client(url, manners=one, cache=ReplyCache(path)).ask_all(asked)
    assert "answers so far are cached" in error.value.hint
    before = len(behaviour.seen)
    again = client(url, manners=one, cache=ReplyCache(path))
    assert [reply["echo"] for reply in again.ask_all(asked)] == [0, 1, 2, 3]
    assert set(behaviour.seen[before:]) <= {2, 3}
    assert again.spent == len(behaviour.seen) - before


def test_budget(server: tuple[str, Behaviour], tmp_path: Path) -> None:
    url, behaviour = server
    path = tmp_path / "replies.sqlite"
    asked = [{"n": n} for n in range(5)]
    with pytest.raises(UnbagError, match="the budget of 3 requests is spent"):
        client(url, budget=3, cache=ReplyCache(path)).ask_all(asked)
    assert len(behaviour.seen) == 3
    rest = client(url, budget=2, cache=ReplyCache(path))
    assert len(rest.ask_all(asked)) == 5
    assert rest.spent == 2


@pytest.mark.parametrize(
    ("code", "content", "message", "hint"),
    [
        (401, "model 'x'\n does not exist", "refuses the key: .*x' does not", "UNBAG_SERVER_KEY"),
        (404, "model 'x'\n does not exist", "model 'x' does not exist", "the name of the model"),
        (
            400,
            '{"error": {"message": "logprobs of 20 > 5"}}',
            "gives no logprobs: status 400, logprobs of 20 > 5",
            "--scorer answer",
        ),
        (
            200,
            '{"error": {"message": "image input is\\n not supported", "code": 400}}',
            "refuses the request: .*image input is ",
            "",
        ),
        (200, '{"error": "no such model"}', "refuses the request: .*no such model", ""),
        (200, '{"error": {"type": "odd"}}', "refuses the request: .*odd", ""),
    ],
)
def test_refused_request_is_not_repeated(
    server: tuple[str, Behaviour], code: int, content: str, message: str, hint: str
) -> None:
    url, behaviour = server
    behaviour.answers = [status(code, content)]
    with pytest.raises(UnbagError, match=message) as error:
        client(url, key="secret").ask_all([{"n": 1}])
    assert hint in error.value.hint
    assert len(behaviour.seen) == 1
    assert behaviour.keys == ["Bearer secret"]
    assert "secret" not in str(error.value)


def test_temporary_error_with_status_200_is_retried(server: tuple[str, Behaviour]) -> None:
    url, behaviour = server
    busy = status(200, '{"error": {"message": "busy", "code": 429}}')
    behaviour.answers = [busy]
    assert client(url).ask_all([{"n": 1}]) == [{"echo": 1}]
    behaviour.answers = [busy] * 4
    with pytest.raises(UnbagError, match="in 4 attempts: busy"):
        client(url).ask_all([{"n": 2}])


def test_message_of_a_server_that_stays_broken(server: tuple[str, Behaviour]) -> None:
    url, behaviour = server
    behaviour.answers = [status(500, '{"error": {"message": "out of memory"}}')] * 4
    with pytest.raises(UnbagError, match="in 4 attempts: status 500, out of memory"):
        client(url).ask_all([{"n": 1}])


def test_server_that_is_not_there() -> None:
    with pytest.raises(UnbagError, match="ConnectError"):
        client("http://127.0.0.1:9/v1").ask_all([{"n": 1}])


def test_damaged_cache(tmp_path: Path) -> None:
    (tmp_path / "x.sqlite").write_text("not a data base, and long enough to be read as one" * 50)
    with pytest.raises(UnbagError, match="cannot be used"):
        ReplyCache(tmp_path / "x.sqlite")
