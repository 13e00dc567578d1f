"""A decoder as a chat model: its numbers are the language model's, whatever stands beside them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from unbag.api import make_scorers
from unbag.data import FileImage
from unbag.errors import UnbagError
from unbag.models.huggingface.chat import Ask, BatchGenerator, ContrastiveGenerator, HiddenGenerator
from unbag.readouts.decoder.lessons import DecoderSettings
from unbag.readouts.decoder.model import DecoderNet, PatchDecoder, image_tokens, view_of
from unbag.types import Generator, ImageSource, Item, ItemScorer, Query

from .core_encoder import Broken, rows, small
from .decoder_made import SMALL, decoder, encoder, images
from .reader_batches import Bare

if TYPE_CHECKING:
    pass

PROMPTS = (
    'Does this figure show "a red star"? Please answer yes or no.',
    "Describe the picture in one sentence.",
    "a",
)
ANSWERS = ("Yes", "No", "a red star left of a blue moon")


def net_of(model: PatchDecoder) -> DecoderNet:
    found = model.runner.model
    assert isinstance(found, DecoderNet)
    return found


def by_hand(
    model: PatchDecoder, image: ImageSource | None, prompt: str, answer: str, *, ends: bool
) -> list[float]:
    """One sequence, no padding, no cache, the whole language model of transformers."""
    net, words = net_of(model), model.preparer.prompts.processor
    tokens = words.answer(prompt, answer) + ([words.end] if ends else [])
    text = torch.tensor([words.ask(prompt) + tokens])
    inputs = [net.language.get_input_embeddings()(text)]
    if image is not None:
        own = encoder()
        parts = view_of(SMALL).encode_images(own, own.prepare(image.open())[None])
        seen = image_tokens(parts, SMALL)
        assert seen is not None
        inputs.insert(0, net.connector(seen))
    with torch.no_grad():
        logit_V = net.language(inputs_embeds=torch.cat(inputs, dim=1)).logits[0]
    log_LV = logit_V[-len(tokens) - 1 : -1].log_softmax(dim=-1)
    return [float(log_LV[k, token]) for k, token in enumerate(tokens)]


def flat(found: Sequence[Sequence[Sequence[float]]]) -> list[float]:
    return [number for one in found for tokens in one for number in tokens]


def test_logprobs_are_those_of_one_plain_sequence() -> None:
    model = decoder()
    asks = [
        Ask(image, prompt, ANSWERS, n == 1)
        for image in (*images(3), None)
        for n, prompt in enumerate(PROMPTS)
    ]
    wanted = [
        number
        for ask in asks
        for answer in ask.continuations
        for number in by_hand(model, ask.image, ask.prompt, answer, ends=ask.ends)
    ]
    together = flat(model.logprobs_of(asks))
    assert together == pytest.approx(wanted, abs=1e-5)
    alone = flat([model.logprobs_of([ask])[0] for ask in asks])
    assert alone == pytest.approx(together, abs=1e-5)
    assert flat([model.logprobs(asks[0].image, PROMPTS[0], ANSWERS)]) == pytest.approx(
        together[: len(flat([model.logprobs_of(asks[:1])[0]]))], abs=1e-5
    )


def test_the_image_matters_and_none_is_the_language_prior() -> None:
    model = decoder()
    first, second = images(2)
    found = [model.logprobs(p, PROMPTS[0], ["Yes"])[0][0] for p in (first, second, None)]
    assert len(set(found)) == 3


@pytest.mark.parametrize("left", [True, False])
def test_the_last_hidden_state_knows_no_batch_mates(left: bool) -> None:
    model = decoder()
    first, second = images(2)
    asks = [(first, "a red star"), (second, "a"), (None, "a blue moon left of a star"), (None, "a")]
    whole_NW = model.last_hidden(asks)
    assert whole_NW.shape == (4, SMALL.width)
    assert whole_NW.dtype == torch.float32
    alone_NW = torch.cat([model.last_hidden([one]) for one in asks])
    assert torch.allclose(whole_NW, alone_NW, atol=1e-5)
    rows = model.hidden_rows(asks[:2])
    side_NW = model._causal().hidden(rows, left=left)
    assert torch.allclose(side_NW, whole_NW[:2], atol=1e-5)


def test_the_last_hidden_state_is_behind_the_text_as_it_is() -> None:
    model, net = decoder(), net_of(decoder())
    token_BT = torch.tensor([model.preparer.prompts.processor.plain("a red star")])
    with torch.no_grad():
        wanted_W = net.hidden(None, token_BT)[0, -1]
    assert torch.allclose(model.last_hidden([(None, "a red star")])[0], wanted_W, atol=1e-6)
    with pytest.raises(UnbagError, match="an empty text to embed"):
        model.last_hidden([(None, " ")])


def test_every_protocol_of_chat_models_can_ask_it() -> None:
    model = decoder()
    for kind in (Generator, BatchGenerator, ContrastiveGenerator, HiddenGenerator):
        assert isinstance(model, kind)
    one, other = images(2)
    captions = ("a red star left of a moon", "a red star right of a moon")
    item = Item("i", (one, other), captions, np.eye(2, dtype=np.bool_))
    for name in ("yes", "yes-normalised", "yes-contrast", "letters", "perplexity", "likelihood",
                 "answer", "m3id"):  # fmt: skip
        for scorer in make_scorers(model, name):
            if isinstance(scorer, ItemScorer):
                (scores,) = scorer.score_items([item])
                assert scores.values is not None
                assert np.isfinite(scores.values).all()
            else:
                found = scorer.score([Query(p, c) for p in item.images for c in captions])
                assert len(np.unique(np.asarray(found).round(9))) == 4


def test_each_image_is_encoded_once_whatever_is_asked_about_it() -> None:
    counting = small()
    model = decoder(of=counting)
    model.logprobs_of([Ask(row.image, prompt, ANSWERS) for row in rows()[:3] for prompt in PROMPTS])
    assert counting.images_seen == 3


def test_one_token_stands_for_an_image_that_is_pooled() -> None:
    model = decoder(replace(SMALL, sees="cls"))
    (row,) = model.hidden_rows([(images(1)[0], "a")])
    assert len(row.tokens) == 2
    first, second = (model.logprobs(p, PROMPTS[0], ["Yes"])[0][0] for p in images(2))
    assert first != second


def test_a_decoder_that_sees_nothing_opens_no_image() -> None:
    model = decoder(replace(SMALL, sees="nothing"))
    prior = model.logprobs(None, PROMPTS[0], ["Yes", "No"])
    assert model.logprobs(Broken(), PROMPTS[0], ["Yes", "No"]) == prior


def test_a_damaged_image_is_told_as_the_evaluation_expects_it(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(b"no image")
    with pytest.raises(OSError, match="in a format unknown to Pillow"):
        decoder().logprobs(FileImage(tmp_path / "x.png"), PROMPTS[0], ["Yes"])


def test_without_the_question_only_the_caption_counts() -> None:
    model = decoder(replace(SMALL, asks=False))
    image = images(1)[0]
    first, second = (model.logprobs(image, prompt, [ANSWERS[2]]) for prompt in PROMPTS[:2])
    assert first == second


def test_a_prompt_beyond_the_context() -> None:
    with pytest.raises(UnbagError, match=r"the prompt 'a a a.*has 87 tokens") as error:
        decoder().logprobs(images(1)[0], "a " * 81, ["Yes"])
    # Four patches and 64 tokens of text.
    assert error.value.expected == "at most 68"
    with pytest.raises(UnbagError, match="tokens with its image and answer"):
        decoder().answer(images(1)[0], PROMPTS[0], longest=60)


def test_a_model_without_patches() -> None:
    with pytest.raises(UnbagError, match="bare returns one vector for an image and no patches"):
        view_of(SMALL).encode_images(Bare(), torch.zeros(1, 3))


def test_layers_are_those_before_the_projection() -> None:
    own = encoder()
    pixels = torch.stack([own.prepare(p.open()) for p in images(2)])
    layers = own.image_layers(pixels)
    # Two blocks: what enters, after the first, after the second, after the norm.
    assert len(layers.vector_NLW) == 4
    second = view_of(DecoderSettings()).encode_images(own, pixels)
    last = view_of(DecoderSettings(layer="last")).encode_images(own, pixels)
    assert torch.equal(second.vector_NLW, layers.vector_NLW[1])
    assert torch.equal(last.vector_NLW, layers.vector_NLW[3])
    pooled_NW = layers.pooled_NW[1]
    assert pooled_NW is not None
    assert torch.equal(second.pooled, pooled_NW)


def test_half_precision_must_hold_the_features() -> None:
    own = encoder()
    parts = view_of(SMALL).encode_images(own, own.prepare(images(1)[0].open())[None])
    large = replace(parts, vector_NLW=parts.vector_NLW * 1e6)
    half = replace(SMALL, keeps="float16")
    found = image_tokens(parts, half)
    assert found is not None
    assert found.dtype == torch.float16
    with pytest.raises(UnbagError, match="do not fit into float16") as error:
        image_tokens(large, half)
    assert error.value.hint == "--set keeps=float32"
