"""Joined models on what is kept of their locked parts, and on tables of features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from unbag.data.pairs import Pairs
from unbag.errors import UnbagError
from unbag.models.joined import JoinedEncoder, load
from unbag.models.text_encoders import write_table
from unbag.runs.progress import Silent
from unbag.training.encoders.base import Trainable
from unbag.training.encoders.cached_features import CachedEncoders, cache_frozen
from unbag.training.export.export import export
from unbag.training.recipes import Freeze
from unbag.training.repair import repair

from .joined_runs import (
    CAPTIONS,
    CARD,
    PART,
    is_same,
    part,
    recipe,
    save_eyes,
    save_pairs,
    trainable_of,
    trained,
)
from .small_runs import weights
from .small_world import SWAP

pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("joined")


@pytest.fixture(scope="module")
def image(folder: Path) -> str:
    return save_eyes(folder)


@pytest.fixture(scope="module")
def joined(image: str, text_folder: Callable[[str], Path]) -> JoinedEncoder:
    return load(f"{image}+{text_folder('llama')}")


@pytest.fixture(scope="module")
def pairs(folder: Path) -> Pairs:
    return save_pairs(folder)


def test_training_on_kept_features_is_training(
    joined: JoinedEncoder, pairs: Pairs, tmp_path: Path
) -> None:
    asked = recipe("hard_negative", epsilon=1e-4)
    plain = trained(joined, tmp_path / "plain", pairs, asked)
    kept = trained(joined, tmp_path / "kept", pairs, asked, keeps=True)
    assert isinstance(kept, CachedEncoders)
    one, other = weights(tmp_path / "plain"), weights(tmp_path / "kept")
    assert one.keys() == other.keys()
    # Passes of another size round in another way; nothing else differs.
    assert all(torch.allclose(one[k], other[k], atol=1e-4) for k in one)
    assert is_same(part(other, "text."), joined.text.module.state_dict())
    vectors = [t.encoder("x").encode_texts(CAPTIONS) for t in (plain, kept)]
    assert torch.allclose(vectors[0], vectors[1], atol=1e-3)
    assert not torch.allclose(vectors[0], joined.encode_texts(CAPTIONS), atol=0.05)


def test_what_is_kept(joined: JoinedEncoder, pairs: Pairs) -> None:
    network = trainable_of(joined)

    def kept(freeze: Freeze, name: str = "clip_ft") -> Trainable:
        asked = recipe(name, freeze)
        return cache_frozen(joined, network, pairs, asked, cache=None, progress=Silent())

    assert kept(Freeze()) is network
    # A head of the image encoder that learns needs its pixels.
    assert kept(Freeze("part")) is network
    seen = kept(Freeze("all"))
    assert isinstance(seen, CachedEncoders)
    assert "input_ids" in seen.reads.tokenize(CAPTIONS)
    assert torch.allclose(
        seen.embed_images(torch.tensor([3])),
        joined.encode_images(joined.prepare(pairs[3].image.open())[None]), atol=1e-6,
    )  # fmt: skip
    read = kept(Freeze(0, "part"), "hard_negative")
    assert set(read.reads.tokenize([pairs[0].captions[0]])) == {"place_N"}
    start = recipe("clip_ft", PART)
    assert isinstance(kept(start.freeze), CachedEncoders)


def test_a_table_of_features(
    joined: JoinedEncoder, image: str, pairs: Pairs, tmp_path: Path
) -> None:
    texts = [text for at in range(8) for text in pairs[at].captions]
    texts += [edit.text for at in range(8) for edits in pairs[at].edits for edit in edits]
    write_table(tmp_path / "t.safetensors", texts, joined.text_features(texts))
    table = load(f"{image}+features:{tmp_path / 't.safetensors'}")
    asked = recipe("hard_negative", Freeze("all", 0), epsilon=1e-4)
    found = trained(table, tmp_path / "table", pairs, asked, keeps=True)
    wanted = trained(joined, tmp_path / "plain", pairs, replace(asked, freeze=PART))
    one, other = (t.encoder("x").encode_texts(texts[:4]) for t in (found, wanted))
    assert torch.allclose(one, other, atol=1e-3)
    export(found.encoder("x"), tmp_path / "out", card=CARD)
    assert torch.equal(load(str(tmp_path / "out")).encode_texts(texts[:4]), one)


def test_benchmarks_that_a_table_does_not_know(
    joined: JoinedEncoder, image: str, tmp_path: Path
) -> None:
    """Before the first step, not after the last."""
    write_table(tmp_path / "t.safetensors", CAPTIONS, joined.text_features(CAPTIONS))
    table = load(f"{image}+features:{tmp_path / 't.safetensors'}")
    with pytest.raises(
        UnbagError, match="small-swap cannot be measured before and after"
    ) as caught:
        repair(table, "world", recipe(), tmp_path / "run", benchmarks=(SWAP,))
    assert "has no vector of the caption" in caught.value.message
    assert caught.value.hint.endswith("name benchmarks that it knows with --bench")
    assert not (tmp_path / "run").exists()


def test_reads_can_be_sent_to_a_worker(joined: JoinedEncoder) -> None:
    import pickle

    reads = trainable_of(joined).reads
    wanted = reads.tokenize(CAPTIONS)
    again = pickle.loads(pickle.dumps(reads))
    assert again.count_tokens(CAPTIONS) == [3, 6]
    assert again.count_tokens([]) == []
    assert is_same(again.tokenize(CAPTIONS), wanted)
