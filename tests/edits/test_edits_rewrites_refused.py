"""Prompts that a server never answers cost their caption; a server that is down stops the job."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from unbag.data.captions import Source
from unbag.edits.editor import make_editor
from unbag.edits.generated.rewrites import PROBE, load_writer
from unbag.edits.jobs.run import EditJob, run_edit
from unbag.edits.jobs.workers import InProcess
from unbag.edits.kinds import EditParts
from unbag.errors import UnbagError
from unbag.models.server import CHECK_AFTER, Manners
from unbag.types import Given

from .writing_server import Writing, served

TEXTS = ("a boat on a lake", "A BIG KNIFE ON A TABLE", "a boat in a harbour")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = Manners(concurrency=2, attempts=2, sleep=lambda seconds: None)
    monkeypatch.setattr("unbag.models.server.Manners", lambda concurrency: quick)
    load_writer.cache_clear()


def saying(prompt: str) -> str:
    return prompt.rpartition("\n")[2].replace("boat", "ship")


def refusing(word: str, code: int) -> Callable[[str], int]:
    return lambda prompt: code if word in prompt.lower() else 200


def given(texts: tuple[str, ...] = TEXTS) -> list[Given]:
    return [Given(str(at), text) for at, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("code", "asked", "reason"),
    [
        (400, 1, "the server refused the caption"),
        (422, 1, "the server refused the caption"),
        (500, 2, "no answer from the server"),
    ],
)
def test_a_caption_that_is_never_answered_is_counted(code: int, asked: int, reason: str) -> None:
    with served(Writing(saying, status=refusing("knife", code))) as writing:
        editor = make_editor(
            ["rewrite_replace"], parts=EditParts(rewrite=f"server:x@{writing.url}")
        )
        found, tally = editor(given())
        [alone], _ = editor(given()[1:2])
    assert [[made.text for made in one.edits] for one in found] == [
        ["a ship on a lake"],
        [],
        ["a ship in a harbour"],
    ]
    assert dict(tally.kinds["rewrite_replace"].rejected) == {reason: 1}
    assert alone.edits == ()
    prompts = [body["messages"][0]["content"] for body in writing.bodies]
    assert sum("KNIFE" in prompt for prompt in prompts) == 2 * asked
    assert prompts.count(PROBE) == 2


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (400, "refuses the request: status 400"),
        (401, "refuses the key"),
        (404, "refuses the request: status 404"),
        (429, "no usable answer in 2 attempts: status 429"),
        (500, "no usable answer in 2 attempts: status 500"),
        (503, "no usable answer in 2 attempts: status 503"),
    ],
)
def test_a_server_that_answers_nothing_stops(code: int, said: str) -> None:
    with served(Writing(saying, status=lambda prompt: code)) as writing:
        editor = make_editor(
            ["rewrite_replace"], parts=EditParts(rewrite=f"server:x@{writing.url}")
        )
        with pytest.raises(UnbagError, match=said) as error:
            editor(given())
    assert "vision" not in str(error.value)


def test_many_captions_that_are_all_refused_stop() -> None:
    texts = tuple(f"a knife on {at} plates" for at in range(CHECK_AFTER))
    with served(Writing(saying, status=refusing("knife", 400))) as writing:
        editor = make_editor(
            ["rewrite_replace"], parts=EditParts(rewrite=f"server:x@{writing.url}")
        )
        with pytest.raises(UnbagError, match="refuses the request: status 400"):
            editor(given(texts))
        assert len(editor(given((*texts, TEXTS[0])))[0][-1].edits) == 1


def test_a_dead_server_is_seen_long_before_the_end() -> None:
    texts = tuple(f"a knife on {at} plates" for at in range(20 * CHECK_AFTER))
    with served(Writing(saying, status=lambda prompt: 500)) as writing:
        editor = make_editor(
            ["rewrite_replace"], parts=EditParts(rewrite=f"server:x@{writing.url}")
        )
        with pytest.raises(UnbagError, match="no usable answer"):
            editor(given(texts))
    assert len(writing.bodies) < 2 * 10 * CHECK_AFTER


def test_a_job_goes_on_after_such_a_caption(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    said = [{"image": f"{at}.jpg", "caption": text} for at, text in enumerate(TEXTS)]
    path.write_text("".join(json.dumps(one) + "\n" for one in said))
    with served(Writing(saying, status=refusing("knife", 400))) as writing:
        job = EditJob(
            Source(str(path), "jsonl"),
            tmp_path / "b.jsonl",
            kinds=("rewrite_replace",),
            parts=EditParts(rewrite=f"server:x@{writing.url}"),
            chunk=1,
        )
        summary = run_edit(job, runner=InProcess())
    of = summary.tally.kinds["rewrite_replace"]
    assert (of.edits, dict(of.rejected)) == (2, {"the server refused the caption": 1})
