"""Chat models: tokenizers and templates of other kinds, scoring runs, and errors."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from unbag.data import PixelImage
from unbag.errors import UnbagError
from unbag.evaluation.loading import Job
from unbag.evaluation.run import run
from unbag.metrics.choice import Choice
from unbag.models.huggingface.chat import Ask, load_chat, logprobs_of
from unbag.models.loading import load_model
from unbag.scorers import make_scorers
from unbag.types import Benchmark, Item, Query

from .tiny_chat import CHATML, VICUNA, llava, save

tf: Any = pytest.importorskip("transformers")
ChatFolder = Callable[[str], Path]


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Path]:
    def make(template: str | None = VICUNA, **tokens: Any) -> Path:
        torch.manual_seed(0)
        return save(llava(template, **tokens), tmp_path / "model")

    return make


def test_logprobs_of_several_tokens(made: Callable[..., Path], images: list[PixelImage]) -> None:
    model = load_chat(str(made(vocabulary=275)))
    prompts = model.preparer.prompts
    rendered = prompts.render("Is it?", sees=True)
    tokens = prompts.answer_tokens(rendered, "Yes")
    assert len(tokens) == 4
    (found,) = model.logprobs(images[0], "Is it?", ["Yes"])
    rows, _ = model._rows([Ask(images[0], "Is it?")], answers=False)
    for step, token in enumerate(tokens):
        longer = type(rows[0])(rows[0].seen, rows[0].prompt, tuple(tokens[:step]))
        log_V = model.runner.logits([longer], 1)[0, -1].log_softmax(dim=-1)
        assert found[step] == pytest.approx(float(log_V[token]), abs=1e-5)


def test_tokens_around_an_answer(chat_folder: ChatFolder) -> None:
    for family, lead, end in (("llava", " ", "</s>"), ("qwen2_vl", "", "<|im_end|>"),
                              ("idefics3", " ", "<end_of_utterance>")):  # fmt: skip
        prompts = load_chat(str(chat_folder(family))).preparer.prompts
        rendered = prompts.render("Is it?", sees=False)
        words = prompts.tokenizer.convert_ids_to_tokens(
            prompts.answer_tokens(rendered, "Yes", ends=True)
        )
        assert words == [f"{lead}Yes".replace(" ", "Ġ"), end]


def test_family_without_a_template(made: Callable[..., Path], images: list[PixelImage]) -> None:
    bare = load_chat(str(made(None)))
    assert bare.preparer.prompts.render("Is {prompt} it?", sees=True).text == (
        "USER: <image>\nIs {prompt} it? ASSISTANT:"
    )
    assert bare.preparer.prompts.render("Is it?", sees=False).text == "USER: Is it? ASSISTANT:"
    ((found,),) = bare.logprobs(images[0], "Is it?", ["Yes"])
    assert found < 0


def rewrite(path: Path, **changes: Any) -> None:
    """A setting on disk, as a user might change it."""
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def without_template(chat_folder: ChatFolder, folder: Path) -> Path:
    """An InternVL, whose prompt format is unknown."""
    processor = tf.AutoProcessor.from_pretrained(chat_folder("internvl"))
    processor.chat_template = processor.tokenizer.chat_template = None
    model = tf.AutoModelForImageTextToText.from_pretrained(chat_folder("internvl"))
    return save((model, processor), folder)


REASONING = CHATML.replace("assistant\n{% endif %}", "assistant\n<think>{% endif %}")
JOINING = VICUNA.replace("ASSISTANT:{% endif %}", "ASSISTANT: Y{% endif %}").replace(
    "ASSISTANT: {{", "ASSISTANT: Y{{"
)
FAILING = VICUNA + "{{ raise_exception('no') if messages | length > 1 else '' }}"


@pytest.mark.parametrize(
    ("template", "answer", "message"),
    [
        (
            VICUNA.replace("<image>", "here"),
            "Yes",
            "cannot prepare any image|has no place for the image",
        ),
        (REASONING, "Yes", "does not place an answer after the prompt"),
        (FAILING, "Yes", r"the chat template of [^ /]+/model fails: no"),
        (JOINING, "es", "does not keep the answer 'es' apart from the prompt"),
    ],
    ids=["no image", "reasoning", "failing", "joined tokens"],
)
def test_bad_templates(
    made: Callable[..., Path],
    images: list[PixelImage],
    template: str,
    answer: str,
    message: str,
) -> None:
    folder = made(template, bos=template is not REASONING)
    with pytest.raises(UnbagError, match=message):
        load_chat(str(folder)).logprobs(images[0], "Is it?", [answer])


def test_unknown_prompt_format(
    chat_folder: ChatFolder, images: list[PixelImage], tmp_path: Path
) -> None:
    model = load_chat(str(without_template(chat_folder, tmp_path / "bare")))
    with pytest.raises(UnbagError, match=r"has no chat template, .* unknown \(internvl\)"):
        model.logprobs(images[0], "Is it?", ["Yes"])


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("a <image> dog", r"contains '<image>'\n(.*\n)*.*remove the token from the caption"),
        (
            "a dog " * 300,
            r"has \d+ tokens with its image and answer\n.*at most 512\n.*a shorter prompt",
        ),
    ],
    ids=["image token", "too long"],
)
def test_bad_prompts(
    chat_folder: ChatFolder, images: list[PixelImage], prompt: str, message: str
) -> None:
    with pytest.raises(UnbagError, match=message):
        load_chat(str(chat_folder("llava"))).logprobs(images[0], prompt, ["Yes"])


def test_answer_that_exceeds_the_context(chat_folder: ChatFolder, images: list[PixelImage]) -> None:
    model = load_chat(str(chat_folder("llava")))
    ask = Ask(images[0], "Is it?")
    (seeing,), _ = model._rows([ask], answers=False)
    (blind,), _ = model._rows([Ask(None, "Is it?")], answers=False)
    tight = replace(model, context=len(seeing.prompt) + 4)
    assert len(tight.answers_of([ask], longest=4)) == 1
    for answers in (tight.answers_of, tight.answers_of_m3id):
        with pytest.raises(UnbagError, match=f"has {len(seeing.prompt) + 5} tokens"):
            answers([ask], longest=5)
    # Without an image, all that M3ID reads is words.
    tight = replace(model, context=len(blind.prompt) + 4)
    with pytest.raises(UnbagError, match=f"has {len(blind.prompt) + 5} tokens"):
        tight.answers_of_m3id([Ask(None, "Is it?")], longest=5)


def test_tokenizer_without_an_end_token(
    made: Callable[..., Path], images: list[PixelImage]
) -> None:
    folder = made()
    rewrite(folder / "tokenizer_config.json", eos_token=None)
    rewrite(folder / "generation_config.json", eos_token_id=None)
    for text in ("config.json", "generation_config.json"):
        found = (folder / text).read_text().replace('"eos_token_id": 1', '"eos_token_id": null')
        (folder / text).write_text(found)
    model = load_chat(str(folder))
    assert not model.scores_ends
    ((found_,),) = model.logprobs(images[0], "Is it?", ["Yes"])
    assert found_ < 0
    (letters,) = make_scorers(model, "letters", "published")
    assert letters.scoring.endswith(", without end")
    for needs in (lambda: model.logprobs_of([Ask(None, "?", ("Yes",), True)]),
                  lambda: model.answer(None, "?")):  # fmt: skip
        with pytest.raises(UnbagError, match="has no end token"):
            needs()


def test_processor_of_another_model(made: Callable[..., Path], images: list[PixelImage]) -> None:
    folder = made()
    rewrite(folder / "processor_config.json", patch_size=12)
    model = load_chat(str(folder))
    message = "model cannot read what its processor prepared: .*\n.*belongs to this model"
    with pytest.raises(UnbagError, match=message):
        model.logprobs(images[0], "Is it?", ["Yes"])
    with pytest.raises(UnbagError, match=message):
        model.answer(images[0], "Is it?")


def test_damaged_image_is_counted(
    chat_folder: ChatFolder, images: list[PixelImage], tmp_path: Path
) -> None:
    bad = PixelImage(np.zeros((2, 2), dtype=np.uint8), name="flat")
    items = [
        Item(f"i{n}", (image,), ('a "dog"', "a cat"), np.array([[True, False]]))
        for n, image in enumerate([*images, bad, *images])
    ]
    benchmark = Benchmark("toy", "a toy", lambda root: items, (Choice(),), "accuracy")
    model = load_model(f"hf:{chat_folder('llava')}")
    scorers = make_scorers(model, None, "all")
    contents = run(Job(scorers, [benchmark], tmp_path / "run", allow_invalid=True)).contents
    assert len(contents.results) == 4
    assert contents.results[0].scorer == "llava"
    assert contents.results[0].overall["accuracy"].invalid == 1
    assert contents.record.damaged == ("flat",)
    letters = make_scorers(model, "letters", "published")
    found = run(Job(letters, [benchmark], tmp_path / "letters", allow_invalid=True)).contents
    assert found.results[0].overall["order_flip"].n == 6


def test_out_of_memory_halves_the_batch(chat_folder: ChatFolder, images: list[PixelImage]) -> None:
    model = load_chat(str(chat_folder("llava")), rows=8)
    sizes: list[int] = []

    class Small:
        def logits(self, rows: Sequence[Any], keep: int) -> Any:
            sizes.append(len(rows))
            if len(rows) > 2:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return model.runner.logits(rows, keep)

    tight = replace(model, runner=Small())  # type: ignore[arg-type]
    asks = [Ask(p, q, ("Yes",)) for p in images[:2] for q in ("a?", "b?", "c?")]
    with pytest.warns(UserWarning, match="out of memory with") as said:
        found = tight.logprobs_of(asks)
    assert np.allclose(found, model.logprobs_of(asks), atol=1e-5)
    assert sizes == [6, 3, 1, 1, 1, 1, 1, 1]
    assert str(said[0].message) == ("llava: out of memory with 6 inputs at once, going on with 3")


def test_fingerprint_depends_on_template_and_precision(
    made: Callable[..., Path], chat_folder: ChatFolder
) -> None:
    folder = made()
    first = load_chat(str(folder)).fingerprint
    assert first == load_chat(str(folder)).fingerprint
    assert first != load_chat(str(folder), dtype="bfloat16").fingerprint
    template = folder / "chat_template.jinja"
    template.write_text(template.read_text().replace("USER: ", "USER:  "))
    assert first != load_chat(str(folder)).fingerprint


def test_fingerprint_depends_on_end_tokens(made: Callable[..., Path]) -> None:
    folder = made()
    first = load_chat(str(folder)).fingerprint
    rewrite(folder / "config.json", transformers_version="4.0.0")
    assert first == load_chat(str(folder)).fingerprint
    rewrite(folder / "generation_config.json", eos_token_id=[1, 6])
    second = load_chat(str(folder)).fingerprint
    rewrite(folder / "tokenizer_config.json", eos_token="<|im_end|>")
    third = load_chat(str(folder)).fingerprint
    rewrite(folder / "processor_config.json", num_additional_image_tokens=2)
    assert len({first, second, third, load_chat(str(folder)).fingerprint}) == 4


def test_bfloat16(chat_folder: ChatFolder, images: list[PixelImage]) -> None:
    asks = [Ask(images[0], "Is it?", ("Yes", "No"))]
    full = load_chat(str(chat_folder("llava"))).logprobs_of(asks)
    half = load_chat(str(chat_folder("llava")), dtype="bfloat16").logprobs_of(asks)
    assert np.allclose(full, half, atol=0.5)
    assert not np.array_equal(full, half)


def test_folder_without_a_processor(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llava"}))
    with pytest.raises(UnbagError, match="its processor cannot be read"):
        load_chat(str(tmp_path))


class Alone:
    """A user-defined chat model without batches and end tokens."""

    name, fingerprint = "alone", "1"

    def logprobs(self, image: Any, prompt: str, continuations: Sequence[str]) -> Any:
        return [[-1.0] for _ in continuations]

    def answer(self, image: Any, prompt: str, *, longest: int = 32) -> str:
        return "Yes"


def test_user_defined_generator(images: list[PixelImage]) -> None:
    assert logprobs_of(Alone(), [Ask(None, "?", ("a", "b"))]) == [[[-1.0], [-1.0]]]
    with pytest.raises(UnbagError, match="alone cannot score the end of an answer"):
        logprobs_of(Alone(), [Ask(None, "?", ("a",), True)])
    (scorer,) = make_scorers(Alone(), "yes", "published")
    assert np.allclose(np.asarray(scorer.score([Query(images[0], "a dog")])), np.exp(-1))
