"""The sentence encoder as a blind baseline: a real BERT of random weights, saved to disk."""

import json
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest
import torch

import unbag as ub
from unbag.data import PixelImage
from unbag.errors import UnbagError
from unbag.metrics import Choice
from unbag.models.baselines import Sentence, load
from unbag.types import Benchmark, Ensemble, Item, ItemScorer, Query, Sparse

transformers: Any = pytest.importorskip("transformers")
HfFolder = Callable[[str], Path]
IMAGE = PixelImage(np.zeros((2, 2, 3), dtype=np.uint8))
CAPTIONS = ("a red cube", "a dog eats a horse", "a blue ball is left of a red cube", "a")


@pytest.fixture
def folder(hf_folder: HfFolder, tmp_path: Path) -> Path:
    """A model that a test may change."""
    return Path(copytree(hf_folder("sentence"), tmp_path / "sentence"))


def sentence(folder: Path) -> Sentence:
    found = load(f"sentence:{folder}")
    assert isinstance(found, Sentence)
    assert isinstance(found, ItemScorer)
    return found


def item(*captions: str | Ensemble, images: int = 1) -> Item:
    truth = np.zeros((images, len(captions)), dtype=np.bool_)
    truth[:, 0] = True
    return Item("item", (IMAGE,) * images, captions, truth)


def by_hand(folder: Path, texts: tuple[str, ...], *, pooling: str = "mean") -> torch.Tensor:
    """One text at a time, so that there is no padding to go wrong."""
    model = transformers.AutoModel.from_pretrained(folder).eval()
    words = transformers.AutoTokenizer.from_pretrained(folder)
    found = []
    for text in texts:
        with torch.no_grad():
            hidden = model(**words(text, return_tensors="pt")).last_hidden_state[0].double()
        rows = {"mean": hidden.mean(0), "cls": hidden[0], "lasttoken": hidden[-1]}
        found.append(rows[pooling] / rows[pooling].norm())
    return torch.stack(found)


@pytest.mark.parametrize("pooling", ["mean", "cls", "lasttoken"])
def test_score_is_the_mean_cosine_with_the_others(pooling: str, folder: Path) -> None:
    modes = {"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": False}
    names = {"mean": "mean_tokens", "cls": "cls_token", "lasttoken": "lasttoken"}
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps(modes | {"word_embedding_dimension": 16, f"pooling_mode_{names[pooling]}": True})
    )
    (scores,) = sentence(folder).score_items([item(*CAPTIONS, images=2)])
    vector_CD = by_hand(folder, CAPTIONS, pooling=pooling)
    cosine_CC = (vector_CD @ vector_CD.T).numpy()
    expected = [np.delete(row, i).mean() for i, row in enumerate(cosine_CC)]
    assert scores.values is not None
    np.testing.assert_allclose(scores.values, [expected, expected], atol=1e-6)
    assert scores.caption_CC is not None
    np.testing.assert_allclose(scores.caption_CC, cosine_CC, atol=1e-6)


def test_two_captions_tie_and_one_has_no_score(folder: Path) -> None:
    scorer = sentence(folder)
    for pair in (CAPTIONS[:2], CAPTIONS[1:3], CAPTIONS[2:]):
        values = scorer.score_items([item(*pair)])[0].values
        assert values is not None
        assert values[0, 0] == values[0, 1]
    alone = scorer.score_items([item("a")])[0].values
    assert alone is not None
    assert np.isnan(alone).all()


def test_odd_one_out_is_last(folder: Path) -> None:
    captions = ("a red cube", "a red cube.", "a red cube ", "a dog eats a horse and a horse eats")
    values = sentence(folder).score_items([item(*captions)])[0].values
    assert values is not None
    assert int(values[0].argmin()) == 3


def test_ensemble_is_the_mean_of_its_prompts(folder: Path) -> None:
    found = sentence(folder).score_items([item(Ensemble("both", CAPTIONS[:2]), *CAPTIONS[2:])])[0]
    vector_CD = by_hand(folder, CAPTIONS)
    mean_D = vector_CD[:2].mean(0)
    expected = (vector_CD[2:] @ (mean_D / mean_D.norm())).mean()
    assert found.values is not None
    assert found.values[0, 0] == pytest.approx(float(expected), abs=1e-6)


def test_evaluation(folder: Path) -> None:
    items = [Item(f"item-{i}", (IMAGE,), CAPTIONS[:3], np.array([[j == i for j in range(3)]]))
             for i in range(3)]  # fmt: skip
    one = Benchmark(
        name="three", about="", load=lambda root: items, metrics=(Choice(),), headline="accuracy"
    )
    result = ub.evaluate(ub.load_scorer(f"caption:sentence:{folder}"), one)[0]
    # Whichever caption is nearest the others, it is the true one of exactly one item.
    assert result.overall["accuracy"].value == pytest.approx(1 / 3)
    assert result.scorer == "caption:sentence:sentence"


def test_single_captions_and_galleries(folder: Path) -> None:
    with pytest.raises(UnbagError, match="compares the captions of an item with each other"):
        sentence(folder).score([Query(IMAGE, "a")])
    gallery = Item("gallery", (IMAGE,), ("a",), Sparse((1, 1), np.zeros(1, int), np.zeros(1, int)))
    with pytest.raises(UnbagError, match="cannot rank the gallery 'gallery'"):
        sentence(folder).score_items([gallery])


def test_context_of_training(folder: Path) -> None:
    assert sentence(folder).captions.context == 40
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 5}')
    scorer = sentence(folder)
    assert scorer.captions.context == 5
    vectors = scorer.score_items([item("a red cube a", "a red cube dog", "a")])[0].caption_CC
    assert vectors is not None
    assert vectors[0, 1] == pytest.approx(1.0)


def test_missing_pooler_has_no_effect(folder: Path, hf_folder: HfFolder) -> None:
    words = transformers.AutoTokenizer.from_pretrained(folder)
    transformers.BertModel.from_pretrained(folder, add_pooling_layer=False).save_pretrained(folder)
    words.save_pretrained(folder)
    assert sentence(folder).fingerprint == sentence(hf_folder("sentence")).fingerprint


@pytest.mark.parametrize(
    ("file", "content", "pooling"),
    [
        ("modules.json", [{"type": f"models.{m}"} for m in ("Pooling", "Dense")], "mean and Dense"),
        ("1_Pooling/config.json", {"pooling_mode_max_tokens": True}, "max"),
    ],
)
def test_unsupported_pooling(folder: Path, file: str, content: object, pooling: str) -> None:
    (folder / "1_Pooling").mkdir()
    (folder / file).write_text(json.dumps(content))
    with pytest.raises(UnbagError, match=f"pools tokens by {pooling}"):
        sentence(folder)


def test_model_of_images(hf_folder: HfFolder) -> None:
    with pytest.raises(UnbagError, match="is a 'clip'"):
        load(f"sentence:{hf_folder('clip')}")
