"""A local HTTP server that speaks the protocol of chat servers, and answers as it is told."""

import json
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Told = dict[str, float]


@dataclass
class Chat:
    """Answers every request with the probabilities it is told to."""

    tells: Callable[[dict[str, Any]], Told] = lambda body: {"Yes": 0.6, "No": 0.3}
    bodies: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""

    def reply(self, body: dict[str, Any]) -> dict[str, Any]:
        self.bodies.append(body)
        probabilities = self.tells(body)
        listed = [{"token": t, "logprob": math.log(p)} for t, p in probabilities.items()]
        first = max(probabilities, key=lambda token: probabilities[token])
        logprobs = {"content": [{"token": first, "logprob": 0.0, "top_logprobs": listed}]}
        return {"choices": [{"message": {"content": first}, "logprobs": logprobs}]}


@contextmanager
def served(chat: Chat) -> Iterator[Chat]:
    """The same with an address, as long as the block lasts."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            content = json.dumps(chat.reply(body)).encode()
            self.send_response(200 if self.path == "/v1/chat/completions" else 404)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    chat.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    yield chat
    server.shutdown()
    server.server_close()
