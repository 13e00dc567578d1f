"""A local HTTP server that answers chat requests in words, and can be told to die."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Writing:
    """What it says to each prompt, and what it was asked."""

    says: Callable[[str], Any]
    """The content of the message; None for a refusal without words."""
    ends: str = "stop"
    lives: int = 1_000_000
    """Requests that it answers before it breaks."""
    nonsense: int = 0
    """Requests that it answers with something else first."""
    status: Callable[[str], int] = lambda prompt: 200
    """Of the answer to each prompt."""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""


@contextmanager
def served(writing: Writing) -> Iterator[Writing]:
    """The same with an address, as long as the block lasts."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                writing.bodies.append(body)
                is_dead = len(writing.bodies) > writing.lives
            prompt = body["messages"][0]["content"]
            said = writing.says(prompt)
            choice = {"message": {"content": said}, "finish_reason": writing.ends}
            is_odd = len(writing.bodies) <= writing.nonsense
            content = json.dumps({"choices": [] if is_odd else [choice]}).encode()
            self.send_response(400 if is_dead else writing.status(prompt))
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    writing.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    yield writing
    server.shutdown()
    server.server_close()
