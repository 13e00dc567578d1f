"""A chat run ended by SIGKILL goes on: nothing finished is asked again, and the numbers agree."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest

from unbag.cli import main
from unbag.evaluation.loading import Job
from unbag.evaluation.scoring import QueryScoring
from unbag.types import Item, Scores

from .local_chat import Chat, Told, served

CHUNK = 64
FORK = get_context("fork")
"""A process of its own that need not read torch from disk again."""


@dataclass(frozen=True, eq=False)
class Child:
    """The command line in another process, which says when it begins a chunk of items."""

    process: Any
    said: Connection

    def rest(self) -> list[int]:
        """Sizes of the chunks it begins until it ends by itself."""
        found = []
        try:
            while self.said.poll(120):
                found.append(self.said.recv())
        except EOFError:
            self.process.join(120)
        assert self.process.exitcode == 0
        return found

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.join(30)
        assert self.process.exitcode == -signal.SIGKILL


def start(arguments: Sequence[str], *, stalls: int = -1) -> Child:
    ours, theirs = FORK.Pipe(duplex=False)
    process = FORK.Process(target=carry_out, args=(arguments, stalls, theirs))
    process.start()
    theirs.close()
    return Child(process, ours)


def carry_out(arguments: Sequence[str], stalls: int, to: Connection) -> None:
    """Stalls at that chunk, counted from 0; -1 is none."""
    whole, number = QueryScoring.chunk, count()

    def chunk(self: QueryScoring, items: Sequence[Item]) -> list[Scores]:
        to.send(len(items))
        time.sleep(60 if next(number) == stalls else 0)
        return whole(self, items)

    # Every chunk is on disk before the next begins, as it is after five seconds of a real run.
    often = partial(Job, save_seconds=0.0)
    with patch.object(QueryScoring, "chunk", chunk), patch("unbag.evaluation.loading.Job", often):
        sys.exit(main(arguments))


def arguments(model: str, folder: Path, name: str) -> list[str]:
    """A hundred items of two images and two captions: two chunks."""
    return [
        "run", "--model", model, "--scorer", "yes", "--prompts", "published", "--blind", "none",
        "--bench", "world-binding", "--out", str(folder / name),
        "--cache", str(folder / f"cache-{name}"), "--concurrency", "4",
    ]  # fmt: skip


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return sorted(
        pq.read_table(folder / "scores.parquet").to_pylist(), key=lambda r: str(r["item"])
    )


def check_alike(killed: Path, whole: Path) -> None:
    assert len(rows_of(whole)) == 100
    assert rows_of(killed) == rows_of(whole)
    for name in ("warnings.json", "failures.json"):
        assert (killed / name).read_text() == (whole / name).read_text()
    one, other = (json.loads((path / "results.json").read_text()) for path in (killed, whole))
    assert [{**r, "run": 0} for r in one] == [{**r, "run": 0} for r in other]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_local_model(chat_folder: Callable[[str], Path], tmp_path: Path) -> None:
    model = f"hf:{chat_folder('llava')}"
    assert main(arguments(model, tmp_path, "whole")) == 0
    child = start(arguments(model, tmp_path, "killed"), stalls=1)
    assert [child.said.recv() for _ in range(2)] == [CHUNK, 36]
    child.kill()
    before = rows_of(tmp_path / "killed")
    assert len(before) == CHUNK
    assert not (tmp_path / "killed/results.json").exists()
    assert start(arguments(model, tmp_path, "killed")).rest() == [36]
    kept = {row["item"]: row for row in rows_of(tmp_path / "killed")}
    assert [kept[row["item"]] for row in before] == before
    check_alike(tmp_path / "killed", tmp_path / "whole")


@dataclass
class Stalling(Chat):
    """Answers so many requests; those that come later wait until they are let through."""

    most: int = 10**9
    answered: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    lock: Any = field(default_factory=threading.Lock)
    may_go: threading.Event = field(default_factory=threading.Event)

    def reply(self, body: dict[str, Any]) -> dict[str, Any]:
        key = json.dumps(body["messages"], sort_keys=True)
        with self.lock:
            self.asked.append(key)
            is_late = len(self.asked) > self.most
        if is_late:
            self.may_go.wait(120)
        else:
            self.answered.append(key)
        return super().reply(body)


def odd(body: dict[str, Any]) -> Told:
    """A probability of its own for each prompt; for some the server lists no Yes."""
    text = body["messages"][0]["content"][-1]["text"]
    share = (1 + sum(text.encode()) % 97) / 100
    return {"No": 0.9, "Maybe": 0.05} if "red" in text else {"Yes": share, "No": 1 - share}


@pytest.mark.filterwarnings("ignore:.*most likely tokens")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_server(tmp_path: Path) -> None:
    """256 of 400 requests are of the first chunk; the server stalls within the second."""
    most, concurrency = 300, 4
    with served(Stalling(odd)) as chat:
        assert isinstance(chat, Stalling)
        model = f"server:llava@{chat.url}"
        assert main(arguments(model, tmp_path, "whole")) == 0
        assert len(chat.asked) == 400
        chat.asked, chat.answered, chat.most = [], [], most
        child = start(arguments(model, tmp_path, "killed"))
        end = time.monotonic() + 120
        while len(chat.asked) < most + concurrency and time.monotonic() < end:
            time.sleep(0.02)
        child.kill()
        chat.may_go.set()
        assert len(rows_of(tmp_path / "killed")) == CHUNK
        first, chat.asked, chat.most = len(chat.asked), [], 10**9
        assert first == most + concurrency
        assert start(arguments(model, tmp_path, "killed")).rest() == [36]
        # Only what was never answered, each once.
        assert set(chat.asked).isdisjoint(chat.answered[:most])
        assert len(chat.asked) == len(set(chat.asked)) == 400 - most
    check_alike(tmp_path / "killed", tmp_path / "whole")
    (said,) = json.loads((tmp_path / "killed/warnings.json").read_text())
    assert said.startswith("world-binding: llava: ")
