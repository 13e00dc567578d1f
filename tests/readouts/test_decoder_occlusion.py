"""What a decoder loses without each patch: known answers, and maps of words made of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from unbag.api import make_scorer
from unbag.errors import UnbagError
from unbag.metrics.intervals import wilson
from unbag.models.batching import Fitting
from unbag.models.loading import load_model
from unbag.probes.maps import OCCLUSION_COSINES, OCCLUSION_LOGS, WHOLE, decoder_of, occlusion_maps
from unbag.readouts.decoder.model import DecoderNet, PatchDecoder
from unbag.readouts.decoder.occlusion import (
    PROMPT,
    caption_effects,
    cosine_effects,
    occluded,
    word_pieces,
)
from unbag.readouts.vlm2vec.data import WITHOUT, instruction
from unbag.readouts.vlm2vec.model import AdapterSettings, Vlm2Vec, adapt, unit
from unbag.readouts.vlm2vec.readout import AskedCosine
from unbag.scorers.chat import YES
from unbag.scorers.cosine import Cosine
from unbag.types import Query, Question, Scorer
from unbag.world.benchmarks import set_items
from unbag.world.rendering import SceneImage

from .decoder_made import SMALL, decoder, images, language_folder

CAPTION = "a red star left of a blue moon"
IMAGE = images(1)[0]
PATCHES, WIDTH = 4, 16
NOTHING = replace(SMALL, sees="nothing")
WATCHED = 2
"""The one patch that the constructed language model looks at."""
STRENGTH = 6.0


class OnePatch(nn.Module):
    """A language model whose every hidden state is the vector of one patch."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.config = SimpleNamespace(hidden_size=WIDTH, vocab_size=words)
        self.embeddings = nn.Embedding(words, WIDTH)
        self.head = nn.Linear(WIDTH, words, bias=False)

    def base_model(self, inputs_embeds: Tensor, use_cache: bool) -> SimpleNamespace:
        seen = inputs_embeds[:, WATCHED : WATCHED + 1]
        return SimpleNamespace(last_hidden_state=seen.expand_as(inputs_embeds))

    def get_input_embeddings(self) -> nn.Module:
        return self.embeddings

    def get_output_embeddings(self) -> nn.Module:
        return self.head


def constructed() -> PatchDecoder:
    """ "red" has the logit of the first number of patch 2, and all other words have the logit 0."""
    model = decoder()
    words = model.preparer.prompts.tokenizer
    language = OnePatch(words.size)
    with torch.no_grad():
        language.head.weight.zero_()
        language.head.weight[words.plain("red")[0], 0] = 1.0
    patch_LV = torch.zeros(PATCHES, WIDTH)
    patch_LV[:, 1] = 1.0
    patch_LV[WATCHED, 0] = STRENGTH
    net = DecoderNet(
        language, width=WIDTH, look=lambda pixels: patch_LV.expand(len(pixels), -1, -1)
    )
    same = nn.Linear(WIDTH, WIDTH, bias=False)
    nn.init.eye_(same.weight)
    net.connector = nn.Sequential(same)
    return replace(model, runner=replace(model.runner, model=net))


def said_falls(model: PatchDecoder, caption: str = CAPTION) -> Tensor:
    return caption_effects(model, IMAGE, caption).fall_NL


def met_falls(model: PatchDecoder, text: str, captions: Sequence[str]) -> Tensor:
    return cosine_effects(model, IMAGE, text, captions).fall_NL


def drawn(scorer: Scorer, caption: str = CAPTION) -> list[tuple[str, np.ndarray]]:
    found = occlusion_maps(scorer, IMAGE, caption)
    return [(one.word, np.array(one.values)) for one in found.maps]


def test_a_patch_is_replaced_by_the_mean_of_those_that_are_there() -> None:
    patch_LV = torch.tensor([[1.0, 2.0], [3.0, 6.0], [0.0, 0.0]])
    whole, first = occluded(patch_LV, [-1, 0])
    assert torch.equal(whole, patch_LV)
    assert first.tolist() == [[2.0, 4.0], [3.0, 6.0], [0.0, 0.0]]


def test_the_one_patch_that_tells_a_word_is_on_its_map_alone() -> None:
    model = constructed()
    others = model.preparer.prompts.tokenizer.size - 1
    found = dict(drawn(YES(model), "a red star"))

    def log(strength: float) -> float:
        return strength - math.log(math.exp(strength) + others)

    # The mean of four patches has a quarter of the strength.
    by_hand = log(STRENGTH) - log(STRENGTH / PATCHES)
    assert by_hand > 1
    assert found["red"] == pytest.approx(np.array([[0, 0], [by_hand, 0]]), abs=1e-4)
    # What speaks for "red" speaks against all other words.
    assert found["star"].argmin() == WATCHED
    assert found["star"].min() < -0.1
    assert np.count_nonzero(found["star"]) == 1


def test_an_embedding_of_one_patch_has_that_patch_on_its_map_alone() -> None:
    model = constructed()
    patch_LV = model.patches(IMAGE)
    mean_V = patch_LV.mean(dim=0)
    caption_V = torch.nn.functional.normalize(torch.randn(WIDTH, generator=_seeded()), dim=0)

    class Known(PatchDecoder):
        def last_hidden(self, asks: object) -> Tensor:
            return caption_V[None]

    known = Known(**{name: getattr(model, name) for name in model.__dataclass_fields__})
    (fall_L,) = met_falls(known, WITHOUT, ["a star"])
    expected = (unit(patch_LV[WATCHED]) - unit(mean_V)) @ caption_V
    assert fall_L[WATCHED] == pytest.approx(float(expected), abs=1e-6)
    assert [float(fall_L[at]) for at in (0, 1, 3)] == [0, 0, 0]


def _seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_nothing_taken_away_is_what_the_protocols_score() -> None:
    model = decoder()
    (whole,) = model.logprobs(IMAGE, PROMPT, [CAPTION])
    gone: list[list[float]] = []
    patch_LV = model.patches(IMAGE)
    for at in range(PATCHES):
        model.net.look = _shown(occluded(patch_LV, [at]))
        gone.append(model.logprobs(IMAGE, PROMPT, [CAPTION])[0])
    model.net.look = _shown(patch_LV[None])
    fall_AL = said_falls(model)
    assert fall_AL.shape == (len(CAPTION.split()), PATCHES)
    assert np.allclose(fall_AL.numpy(), np.array(whole)[:, None] - np.array(gone).T, atol=1e-5)


def _shown(seen_NLV: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda pixels: seen_NLV


def test_the_map_of_a_caption_is_the_fall_of_the_score() -> None:
    scorer = AskedCosine(decoder())
    model = scorer.model
    assert isinstance(model, PatchDecoder)
    patch_LV = model.patches(IMAGE)
    (whole,) = AskedCosine(model).score([Query(IMAGE, CAPTION)]).tolist()
    fall_L = met_falls(model, WITHOUT, [CAPTION])[0]
    for at in range(PATCHES):
        model.net.look = _shown(occluded(patch_LV, [at]))
        (gone,) = AskedCosine(model).score([Query(IMAGE, CAPTION)]).tolist()
        assert float(fall_L[at]) == pytest.approx(whole - gone, abs=1e-5)


@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_no_number_depends_on_the_rows_beside_it(at_once: int) -> None:
    model = decoder()
    few = replace(model, fitting=Fitting("few", print, most=at_once))
    texts = [CAPTION, "a moon"]
    assert torch.allclose(said_falls(model), said_falls(few), atol=1e-6)
    assert torch.allclose(
        met_falls(model, WITHOUT, texts),
        met_falls(few, WITHOUT, texts),
        atol=1e-6,
    )


def test_places_without_a_patch_stay_where_they_are_and_are_not_drawn() -> None:
    model = decoder()
    patch_LV = model.patches(IMAGE)
    patch_LV[1] = 0
    model.net.look = _shown(patch_LV[None])
    assert said_falls(model).shape == (8, 3)
    with pytest.raises(UnbagError, match="decoder has 3 patches in"):
        occlusion_maps(YES(model), IMAGE, CAPTION)


def test_words_of_a_decoder_that_says_them() -> None:
    found = occlusion_maps(YES(decoder()), IMAGE, "a red star, left")
    assert (found.title, found.asked, found.about, found.is_signed) == (
        "decoder", PROMPT, OCCLUSION_LOGS, True,
    )  # fmt: skip
    # The mark is a piece of its own, and its logarithm is added to that of its word.
    assert [one.word for one in found.maps] == ["a", "red", "star,", "left"]
    fall_AL = said_falls(decoder(), "a red star, left")
    assert np.allclose(np.ravel(found.maps[2].values), fall_AL[2:4].sum(dim=0).numpy(), atol=1e-4)
    (log_A,) = decoder().logprobs(IMAGE, PROMPT, ["a red star, left"])
    assert found.maps[2].whole == f"log p {log_A[2] + log_A[3]:.2f}"
    assert np.shape(found.maps[0].values) == (2, 2)
    assert not occlusion_maps(YES(decoder(replace(SMALL, asks=False))), IMAGE, "a star").asked


def test_words_of_a_caption_that_is_one_vector() -> None:
    model = decoder()
    asked, plain = AskedCosine(model), Cosine(Vlm2Vec(model))
    text = "a star left of a moon"
    question = "Is the star to the left of or to the right of the moon?"
    found = occlusion_maps(asked, IMAGE, text)
    assert (found.asked, found.about) == (instruction(question), OCCLUSION_COSINES)
    assert occlusion_maps(plain, IMAGE, text).asked == WITHOUT
    (score,) = asked.score([Query(IMAGE, text, Question(question))]).tolist()
    assert [one.whole for one in found.maps[:2]] == [f"cosine {score:.3f}", ""]
    maps = drawn(asked, text)
    assert [word for word, _ in maps] == [WHOLE, *text.split()]
    less = met_falls(model, instruction(question), [text, "a left of a moon"])
    star = (less[0] - less[1]).numpy().reshape(2, 2)
    assert np.allclose(maps[2][1], star, atol=1e-4)
    # There is no caption without its only word.
    assert [word for word, _ in drawn(asked, "star")] == [WHOLE]


def test_a_decoder_that_was_trained_to_embed_has_maps_of_its_own() -> None:
    adapted = adapt(decoder(), AdapterSettings(lora=0))
    (before,) = met_falls(decoder(), WITHOUT, [CAPTION])
    assert isinstance(adapted.model, PatchDecoder)
    assert torch.equal(met_falls(adapted.model, WITHOUT, [CAPTION])[0], before)
    with torch.no_grad():
        for weight in adapted.weights.values():
            weight.add_(0.1)
    assert not torch.allclose(met_falls(adapted.model, WITHOUT, [CAPTION])[0], before)


def test_pieces_of_a_real_tokenizer_are_put_together(tmp_path: Path) -> None:
    language = str(language_folder(tmp_path / "language"))
    model = decoder(replace(SMALL, language=language, letters=0.0))
    found = word_pieces(model, "a purple star")
    assert [one.word for one in found] == ["a", "purple", "star"]
    assert found[1].stop - found[1].start > 1
    assert found[-1].stop == len(said_falls(model, "a purple star"))


def test_pieces_that_go_across_words_are_numbered(monkeypatch: pytest.MonkeyPatch) -> None:
    model = decoder()
    words = type(model.preparer.prompts.tokenizer)
    monkeypatch.setattr(words, "answer", lambda self, prompt, answer: [len(answer), 5])
    assert [one.word for one in word_pieces(model, "a star")] == ["piece 1", "piece 2"]


def test_what_cannot_be_mapped_says_why() -> None:
    seen = "sees one vector of an image, and no patches that could be removed"
    blind = "sees nothing of an image, and no patches that could be removed"
    for settings, why in ((replace(SMALL, sees="cls"), seen), (NOTHING, blind)):
        model = decoder(settings)
        for scorer in (YES(model), AskedCosine(model)):
            with pytest.raises(UnbagError, match=why) as error:
                occlusion_maps(scorer, IMAGE, CAPTION)
            assert error.value.expected == "a decoder that was trained with sees=patches"
    with pytest.raises(UnbagError, match="was trained to embed, not to describe images"):
        occlusion_maps(YES(replace(decoder(), embeds=True)), IMAGE, CAPTION)
    silent = replace(SMALL, describe=0.0)
    with pytest.raises(UnbagError, match=r"was trained on questions only \(describe=0\)"):
        occlusion_maps(YES(replace(decoder(), settings=silent)), IMAGE, CAPTION)
    with pytest.raises(UnbagError, match="image and caption have 304 tokens") as error:
        occlusion_maps(YES(decoder()), IMAGE, "star " * 292)
    assert "at most" in error.value.expected
    assert decoder_of(Cosine(decoder().image_encoder)) is None
    with pytest.raises(UnbagError, match="small has no decoder on patches"):
        occlusion_maps(Cosine(decoder().image_encoder), IMAGE, CAPTION)


@pytest.mark.parametrize("name", ["vlm2vec", "decoder"])
def test_words_of_heads_that_ship_point_to_what_they_name(name: str) -> None:
    scorer = make_scorer(load_model("tiny:base"), name)
    is_near: list[bool] = []
    for item in set_items("a", n=10):
        image = item.images[0]
        assert isinstance(image, SceneImage)
        things = sorted(image.scene.things, key=lambda thing: thing.x)
        first, second = (thing.shape for thing in things)
        found = occlusion_maps(scorer, image, f"a {first} left of a {second}")
        column = {one.word: int(np.argmax(np.array(one.values))) % 8 for one in found.maps}
        for own, other in (things, things[::-1]):
            x = (column[own.shape] + 0.5) * image.open().width / 8
            is_near.append(abs(x - own.x) < abs(x - other.x))
    # Nearer to what it names than to the other thing; by chance half of the words are.
    assert wilson(sum(is_near), len(is_near)).low > 0.5
