"""A local HTTP server that answers chat requests, and can be made to fail."""

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
    """The answers of the server, and the requests that it got."""

    says: Callable[[str], Any]
    """From a prompt to the content of the message; None for an empty answer."""
    ends: str = "stop"
    lives: int = 1_000_000
    """Number of requests that it answers before it fails."""
    nonsense: int = 0
    """Number of requests that it first answers with nonsense."""
    status: Callable[[str], int] = lambda prompt: 200
    """HTTP status of the answer to each prompt."""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""


@contextmanager
def served(writing: Writing) -> Iterator[Writing]:
    """Run the server inside the block."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                writing.bodies.append(body)
                is_dead = len(writing.bodies) > writing.lives
            prompt = body["messages"][0]["content"]
            choice = {"message": {"content": writing.says(prompt)}, "finish_reason": writing.ends}
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
