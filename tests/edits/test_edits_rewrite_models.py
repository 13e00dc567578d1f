"""A chat model on disk that writes: batches, templates, cut answers, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from unbag.edits.editor import make_editor
from unbag.edits.generated.rewrites import CUT, TOO_LONG, LocalWriter, load_writer
from unbag.edits.kinds import EditParts
from unbag.errors import UnbagError
from unbag.models.server import CHECK_AFTER
from unbag.types import Given

from .tiny_words import save_causal

pytest.importorskip("transformers")
TEMPLATE = (
    "{% for m in messages %}{{ bos_token }}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
PROMPTS = ("say it", "say something longer than that", "a", "say it", "two words and more")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("writers") / "chat"
    return save_causal(place, template=TEMPLATE, context=2000)


@pytest.fixture
def writer(folder: Path) -> Iterator[LocalWriter]:
    load_writer.cache_clear()
    found = load_writer(EditParts(rewrite=f"hf:{folder}", device="cpu"))
    assert isinstance(found, LocalWriter)
    yield found
    load_writer.cache_clear()


def by_hand(writer: LocalWriter, prompt: str, longest: int) -> str:
    """The likeliest token each time, one forward pass a token and no padding."""
    tokens = writer.tokenizer.encode(f"<s>user: {prompt}\nassistant:", add_special_tokens=False)
    before = len(tokens)
    for _ in range(longest):
        with torch.inference_mode():
            logits = writer.model(input_ids=torch.tensor([tokens])).logits[0, -1]
        token = int(logits.argmax())
        if token == 1:
            return str(writer.tokenizer.decode(tokens[before:])).strip()
        tokens.append(token)
    said = writer.tokenizer.decode(tokens[before:], skip_special_tokens=True)
    return str(said).strip() + CUT


def test_answers_are_those_of_the_model_alone(writer: LocalWriter) -> None:
    assert writer(PROMPTS, longest=6) == [by_hand(writer, prompt, 6) for prompt in PROMPTS]


def test_batch_and_order_change_nothing(
    writer: LocalWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = writer(PROMPTS, longest=6)
    monkeypatch.setattr("unbag.edits.generated.batches.BATCH", 2)
    assert writer(PROMPTS[::-1], longest=6)[::-1] == together
    assert [writer([prompt], longest=6)[0] for prompt in PROMPTS] == together
    assert writer([], longest=6) == []


def test_the_end_is_no_part_of_the_answer(
    writer: LocalWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that says "hi" and ends, whatever it is asked."""
    said = [*writer.tokenizer.encode("hi"), 1, 1]

    def generate(token_NL: torch.Tensor, **options: object) -> torch.Tensor:
        said_NL = torch.tensor([said]).expand(len(token_NL), 4)
        return torch.cat([token_NL, said_NL], dim=1)

    monkeypatch.setattr(writer.model, "generate", generate)
    assert writer(["a", "b c"], longest=4) == ["hi", "hi"]


def test_nonsense_of_a_real_model_is_counted(folder: Path) -> None:
    load_writer.cache_clear()
    parts = EditParts(rewrite=f"hf:{folder}", device="cpu")
    captions = ["a cup and a plate on a table", "A dog runs.", "a man and a woman"]
    editor = make_editor(["rewrites"], parts=parts)
    found, tally = editor([Given(c, c) for c in captions])
    assert all(one.edits == () for one in found)
    assert tally.kinds["rewrite_replace"].rejected.total() == 3
    assert tally.kinds["rewrite_swap"].rejected.total() == 2


def test_a_model_that_reads_too_little_is_said(tmp_path: Path) -> None:
    load_writer.cache_clear()
    short = save_causal(tmp_path / "short", template=TEMPLATE, context=40)
    found = load_writer(EditParts(rewrite=f"hf:{short}", device="cpu"))
    # <s>, "user: ", 30 letters, a new line, "assistant:" and the answer: 1 + 6 + 30 + 1 + 10 + 9.
    answer, long = found(["a", "x" * 30], longest=9)
    assert long == TOO_LONG
    assert [answer] == found(["a"], longest=9)
    with pytest.raises(UnbagError, match="has 57 tokens or more, and the chat model reads 40"):
        found(["x" * 30 + "y" * more for more in range(CHECK_AFTER)], longest=9)


def test_a_model_without_template_is_refused(tmp_path: Path) -> None:
    load_writer.cache_clear()
    bare = save_causal(tmp_path / "bare")
    with pytest.raises(UnbagError, match="bare has no chat template") as error:
        load_writer(EditParts(rewrite=f"hf:{bare}", device="cpu"))
    assert "instruction-tuned" in error.value.hint


def test_a_folder_that_is_none_is_said(tmp_path: Path) -> None:
    load_writer.cache_clear()
    with pytest.raises(UnbagError, match="there is no language model at"):
        load_writer(EditParts(rewrite=f"hf:{tmp_path / 'none'}", device="cpu"))
