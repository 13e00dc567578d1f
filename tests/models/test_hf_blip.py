"""BLIP's matching heads against the plain code a researcher would write."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL.Image import Image

from unbag.api import evaluate
from unbag.data import PixelImage
from unbag.errors import UnbagError
from unbag.evaluation.loading import Job
from unbag.evaluation.run import run
from unbag.metrics import Choice, Recall
from unbag.models.huggingface import blip as hf_match
from unbag.models.huggingface.blip import Match, MatchWithEncoders
from unbag.models.huggingface.loading import load
from unbag.models.loading import load_model
from unbag.scorers import make_scorer, make_scorers
from unbag.scorers.cosine import Cosine
from unbag.types import (
    Benchmark,
    DualEncoder,
    EmbeddingScorer,
    Ensemble,
    Generator,
    Item,
    ItemScorer,
    MatrixScorer,
    Query,
    Scorer,
    Sparse,
    TokenEncoder,
)

transformers: Any = pytest.importorskip("transformers")
HfFolder = Callable[[str], Path]
CAPTIONS = ("a red cube", "a dog eats a horse", "a", "a blue ball is left of a red cube")


class Counted(PixelImage):
    """Counts how often it is opened."""

    opened: list[str] = []  # noqa: RUF012

    def open(self) -> Image:
        self.opened.append(self.name)
        return super().open()


def images(count: int = 3) -> list[PixelImage]:
    noise = np.random.default_rng(0)
    return [
        Counted(noise.integers(0, 256, (30, 20 + i, 3), dtype=np.uint8), name=f"image {i}")
        for i in range(count)
    ]


def match(folder: Path) -> Match:
    found = load(str(folder))
    assert isinstance(found, Match)
    assert isinstance(found, Scorer)
    return found


def ask(scorer: Match, shown: Sequence[PixelImage], captions: Sequence[str]) -> torch.Tensor:
    return scorer.score([Query(p, c) for p in shown for c in captions])


def plain_blip(folder: Path, *, has_head: bool) -> torch.Tensor:
    """One pair at a time, as on the model card."""
    model = transformers.BlipForImageTextRetrieval.from_pretrained(folder).eval()
    words = transformers.AutoTokenizer.from_pretrained(folder)
    pixels = transformers.AutoImageProcessor.from_pretrained(folder)
    found = []
    for image in images():
        for caption in CAPTIONS:
            tokens = words(caption, return_tensors="pt", return_token_type_ids=False)
            inputs = pixels(images=image.open(), return_tensors="pt")
            with torch.no_grad():
                score = model(**inputs, **tokens, use_itm_head=has_head).itm_score[0]
            found.append(score.softmax(-1)[1] if has_head else score[0])
    return torch.stack(found)


def test_head_equals_transformers(hf_folder: HfFolder) -> None:
    folder = hf_folder("blip")
    ours = ask(match(folder), images(), CAPTIONS).sigmoid().float()
    torch.testing.assert_close(ours, plain_blip(folder, has_head=True), atol=1e-6, rtol=0)
    assert ours.std() > 0.01


def test_cosine_equals_transformers(hf_folder: HfFolder) -> None:
    folder = hf_folder("blip")
    scorer = make_scorer(load_model(f"hf:{folder}"), "cosine")
    assert isinstance(scorer, Cosine)
    assert scorer.scoring == "cosine"
    assert isinstance(scorer.encoder, TokenEncoder)
    ours = scorer.score_matrix(images(), CAPTIONS).flatten()
    torch.testing.assert_close(ours, plain_blip(folder, has_head=False), atol=1e-6, rtol=0)
    # Two ways to score one model must never share a run folder.
    assert scorer.fingerprint != make_scorer(load_model(f"hf:{folder}")).fingerprint


def test_head_of_blip_2_equals_transformers(hf_folder: HfFolder) -> None:
    folder = hf_folder("blip-2")
    model = transformers.Blip2ForImageTextRetrieval.from_pretrained(folder).eval()
    words = transformers.AutoTokenizer.from_pretrained(folder)
    pixels = transformers.AutoImageProcessor.from_pretrained(folder)
    plain = []
    for image in images():
        for caption in CAPTIONS:
            tokens = words(caption, return_tensors="pt", return_token_type_ids=False)
            inputs = pixels(images=image.open(), return_tensors="pt")
            with torch.no_grad():
                found = model(**inputs, **tokens, use_image_text_matching_head=True)
            plain.append(found.logits_per_image.softmax(-1)[0, 1])
    ours = ask(match(folder), images(), CAPTIONS).sigmoid().float()
    torch.testing.assert_close(ours, torch.stack(plain), atol=1e-6, rtol=0)


def test_scorer_match(hf_folder: HfFolder) -> None:
    scorer = match(hf_folder("blip-2"))
    assert make_scorer(scorer, "match") is scorer
    assert make_scorers(scorer, "match") == [scorer]
    clip = load_model(f"hf:{hf_folder('clip')}")
    for make in (make_scorer, make_scorers):
        with pytest.raises(UnbagError, match="'match' needs a matching head, and 'tiny-clip' has"):
            make(clip, "match")


def test_blip_2_has_no_cosine(hf_folder: HfFolder) -> None:
    with pytest.raises(UnbagError, match="one vector per image and caption, and 'tiny") as error:
        make_scorer(match(hf_folder("blip-2")), "cosine")
    assert "BLIP-2 has several vectors for an image" in str(error.value)


@pytest.mark.parametrize("kind", ["blip", "blip-2"])
def test_protocol_checks_do_not_raise(kind: str, hf_folder: HfFolder) -> None:
    """Python 3.11 asks for a protocol's attributes in the order of a set: `encoder` by chance."""
    scorer = match(hf_folder(kind))
    assert hasattr(scorer, "encoder") == (kind == "blip")
    for shape in (EmbeddingScorer, MatrixScorer, ItemScorer, DualEncoder, Generator):
        assert not isinstance(scorer, shape)
        # Each attribute alone, since which of them comes first is chance.
        for name in dir(shape):
            hasattr(scorer, name)


@pytest.mark.parametrize("kind", ["blip", "blip-2"])
def test_batches_and_order_have_no_effect(
    kind: str, hf_folder: HfFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer, shown = match(hf_folder(kind)), images()
    together = ask(scorer, shown, CAPTIONS).reshape(3, 4)
    backwards = ask(scorer, shown[::-1], CAPTIONS[::-1]).reshape(3, 4).flip(0, 1)
    torch.testing.assert_close(backwards, together, atol=1e-5, rtol=0)
    monkeypatch.setattr(hf_match, "WINDOW", 2)
    monkeypatch.setattr(hf_match, "BATCH", 3)
    torch.testing.assert_close(
        ask(scorer, shown, CAPTIONS).reshape(3, 4), together, atol=1e-5, rtol=0
    )


def test_each_image_is_opened_once(hf_folder: HfFolder) -> None:
    scorer, shown = match(hf_folder("blip")), images()
    Counted.opened.clear()
    ask(scorer, shown, CAPTIONS)
    assert sorted(Counted.opened) == ["image 0", "image 1", "image 2"]


def test_ensemble_is_the_mean_of_its_prompts(hf_folder: HfFolder) -> None:
    scorer, image = match(hf_folder("blip")), images(1)[0]
    each = ask(scorer, [image], CAPTIONS[:2])
    found = scorer.score([Query(image, Ensemble("both", CAPTIONS[:2])), Query(image, "a")])
    assert float(found[0]) == pytest.approx(float(each.mean()), abs=1e-6)


def test_damaged_image(hf_folder: HfFolder) -> None:
    broken = PixelImage(np.zeros((2, 2), dtype=np.uint8))
    with pytest.raises(ValueError, match="expected \\[height, width, 3\\]"):
        match(hf_folder("blip")).score([Query(broken, "a")])


def test_patches_and_tokens(hf_folder: HfFolder) -> None:
    scorer = match(hf_folder("blip"))
    assert isinstance(scorer, MatchWithEncoders)
    blip = scorer.encoder
    assert isinstance(blip, TokenEncoder)
    tokens = blip.encode_tokens(CAPTIONS)
    torch.testing.assert_close(tokens.vector_NLW[:, 0], blip.encode_texts(CAPTIONS))
    assert tokens.mask_NL.sum(dim=1).tolist() == blip.count_tokens(CAPTIONS)
    pixels = torch.stack([blip.prepare(image.open()) for image in images()])
    assert blip.encode_patches(pixels).vector_NLW.shape == (3, 16, 12)


def benchmark(items: Sequence[Item], metric: Choice | Recall, headline: str) -> Benchmark:
    return Benchmark(
        name="small", about="", load=lambda root: items, metrics=(metric,), headline=headline
    )


def test_evaluation(hf_folder: HfFolder) -> None:
    scorer, truth = match(hf_folder("blip")), np.array([[True, False, False, False]])
    items = [Item(p.name, (p,), CAPTIONS, truth) for p in images()]
    result = evaluate(scorer, benchmark(items, Choice(), "accuracy"))[0]
    assert result.protocol.scoring == "match"
    best_P = ask(scorer, images(), CAPTIONS).reshape(3, 4).argmax(dim=1)
    assert result.overall["accuracy"].value == pytest.approx(float((best_P == 0).float().mean()))


def test_truncated_captions_are_counted(hf_folder: HfFolder, tmp_path: Path) -> None:
    scorer, truth = match(hf_folder("blip")), np.array([[True, False, False]])
    captions = ("a red cube", "a red cube " * 200, "a blue ball " * 200)
    items = [Item(p.name, (p,), captions, truth) for p in images()]
    found = run(Job([scorer], [benchmark(items, Choice(), "accuracy")], tmp_path / "run"))
    assert found.contents.record.truncated == {"tiny-blip": 2}


def test_retrieval(hf_folder: HfFolder) -> None:
    scorer, shown, at = match(hf_folder("blip")), images(), np.arange(3)
    assert not isinstance(scorer, MatrixScorer | DualEncoder)
    item = Item("gallery", tuple(shown), CAPTIONS[:3], Sparse((3, 3), at, at))
    result = evaluate(scorer, benchmark([item], Recall(), "text_to_image@1"))[0]
    best_C = ask(scorer, shown, CAPTIONS[:3]).reshape(3, 3).argmax(dim=0)
    expected = float((best_C == torch.arange(3)).float().mean())
    assert result.overall["text_to_image@1"].value == pytest.approx(expected)


def test_half_precision(hf_folder: HfFolder) -> None:
    folder = hf_folder("blip")
    half = load(str(folder), dtype="bfloat16")
    assert isinstance(half, Match)
    assert half.fingerprint != match(folder).fingerprint
    rounded, whole = (ask(scorer, images(), CAPTIONS).sigmoid() for scorer in (half, match(folder)))
    assert (rounded - whole).abs().max() < 0.1
