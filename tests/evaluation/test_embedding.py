"""Every unique input is encoded once, in batches that a resumed run repeats."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Images
from torch import Tensor

from unbag.errors import UnbagError
from unbag.evaluation.embedding import BatchPlan, Embeddings, embed
from unbag.evaluation.loading import Job
from unbag.evaluation.plan import make_plan
from unbag.evaluation.run import run
from unbag.runs.progress import Silent
from unbag.scorers import Cosine
from unbag.types import Benchmark, Ensemble, Item


def run_embed(
    encoder: Any,
    items: list[Item],
    *,
    cache: Path | None = None,
    batch_plans: dict[str, BatchPlan] | None = None,
    batch_size: int = 4,
    progress: Silent | None = None,
) -> Embeddings:
    return embed(
        encoder,
        make_plan({"toy": items}),
        cache=cache,
        batch_plans={} if batch_plans is None else batch_plans,
        save_batch_plans=lambda: None,
        batch_size=batch_size,
        progress=progress or Silent(),
    )


def test_each_unique_input_is_encoded_once(encoder: Any, items: list[Item]) -> None:
    run_embed(encoder, items)
    unique = {caption for item in items for caption in item.captions}
    assert sorted(encoder.encoded) == sorted(map(str, unique))
    assert (encoder.opened, sum(encoder.batches)) == (6, 6)


def test_captions_run_in_order_of_length(encoder: Any, items: list[Item]) -> None:
    run_embed(encoder, items)
    lengths = encoder.count_tokens(encoder.encoded)
    assert lengths == sorted(lengths)


def test_a_second_run_encodes_nothing(encoder: Any, items: list[Item], tmp_path: Path) -> None:
    first = run_embed(encoder, items, cache=tmp_path / "cache")
    encoder.encoded.clear()
    encoder.batches.clear()
    second = run_embed(encoder, items, cache=tmp_path / "cache")
    assert (encoder.encoded, encoder.batches) == ([], [])
    assert np.array_equal(first.image_ND, second.image_ND)
    assert np.array_equal(first.caption_ND, second.caption_ND)


def test_a_continued_run_does_whole_batches_of_the_old_make_up(
    encoder: Any, items: list[Item], tmp_path: Path
) -> None:
    batch_plans: dict[str, BatchPlan] = {}
    run_embed(encoder, items, cache=tmp_path / "cache", batch_plans=batch_plans)
    planned = [len(batch) for batch in batch_plans["colours-1-cpu/pictures"]]
    assert planned == [4, 2]
    # As if the process had been killed before the second batch of images was kept.
    files = sorted(
        (tmp_path / "cache/colours-1-cpu/pictures").iterdir(), key=lambda p: p.stat().st_size
    )
    files[0].unlink()
    encoder.batches.clear()
    run_embed(encoder, items, cache=tmp_path / "cache", batch_plans=batch_plans)
    assert encoder.batches == [2]


def test_ensembles_are_averaged_from_their_prompts(encoder: Any, items: list[Item]) -> None:
    mixed = Item("e", items[0].images, (Ensemble("x", ("r", "g")), "b"), np.array([[True, False]]))
    vector = run_embed(encoder, [mixed]).caption_ND[0]
    mean = encoder.encode_texts(["r", "g"]).mean(dim=0)
    assert np.allclose(vector, mean / mean.norm(), atol=1e-6)
    assert encoder.encoded.count("r") == 2


def test_a_damaged_image_is_named_and_stops_nobody(
    encoder: Any, items: list[Item], tmp_path: Path
) -> None:
    bad = tmp_path / "pictures" / "3.png"
    bad.write_bytes(b"not an image")
    vectors = run_embed(encoder, items)
    assert list(vectors.damaged) == [str(bad)]
    assert "UnidentifiedImageError" in vectors.damaged[str(bad)]
    assert np.isnan(vectors.image_ND).all(axis=1).sum() == 1


def test_cut_captions_are_counted(encoder: Any, items: list[Item]) -> None:
    long = Item("l", items[0].images, ("r" * 41, "r" * 40), np.array([[True, False]]))
    assert run_embed(encoder, [long]).truncated == 1


def test_a_model_that_returns_the_wrong_number_of_vectors(
    encoder: Any, items: list[Item], monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_few(captions: list[str]) -> Tensor:
        return torch.zeros(len(captions) - 1, 3)

    monkeypatch.setattr(encoder, "encode_texts", too_few)
    with pytest.raises(UnbagError, match=r"returned vectors of shape \(3, 3\) for 4 inputs"):
        run_embed(encoder, items)


def test_vectors_of_two_widths_are_told_after_one_batch_of_images(
    encoder: Any, toy: Benchmark, tmp_path: Path
) -> None:
    plain = encoder.encode_texts
    encoder.encode_texts = lambda captions: torch.nn.functional.pad(plain(captions), (0, 1))
    job = Job([Cosine(encoder)], [toy], tmp_path / "run", batch_size=2, cache=tmp_path / "cache")
    for batches in ([2], [2, 2]):
        # The second time its captions come from the cache.
        with pytest.raises(UnbagError) as caught:
            run(job)
        assert caught.value.message == (
            "model 'colours' gives 3 numbers for an image and 4 for a caption"
        )
        assert "change its fingerprint" in caught.value.hint
        assert encoder.batches == batches


def test_arrays_are_as_good_as_tensors(encoder: Any, items: list[Item]) -> None:
    expected = run_embed(encoder, items)
    for method in ("prepare", "encode_images", "encode_texts"):
        plain = getattr(encoder, method)
        setattr(encoder, method, lambda given, plain=plain: plain(given).numpy())
    vectors = run_embed(encoder, items)
    assert np.array_equal(vectors.image_ND, expected.image_ND)
    assert np.array_equal(vectors.caption_ND, expected.caption_ND)


def test_images_that_make_no_batch_are_told_with_the_model(encoder: Any, items: list[Item]) -> None:
    Images.new("RGB", (9, 8)).save(items[3].images[0].name)
    encoder.prepare = lambda image: torch.from_numpy(np.array(image))
    with pytest.raises(UnbagError) as caught:
        run_embed(encoder, items, batch_size=6)
    assert caught.value.message == (
        "model 'colours' prepared images of different sizes: (8, 8, 3) and (8, 9, 3)"
    )
