"""Readers: the contrastive loss worked by hand, accuracy, and the file of a trained reader."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from unbag.errors import UnbagError
from unbag.models.features import JOINT
from unbag.readouts.pooled import Pooled, PooledSettings
from unbag.readouts.reader import (
    FILE,
    Reader,
    ReaderBatch,
    ReaderHeader,
    Sizes,
    accuracies,
    contrast,
    load_reader,
    read_head,
    reader_fingerprint,
    save_head,
)
from unbag.runs.checkpoint import LAST
from unbag.types import TokenFeatures

from .core_encoder import small
from .reader_batches import SIZES, captions, images


class Product(Reader):
    """Numbers times numbers."""

    name, view = "product", JOINT

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.settings, self.scale = None, scale

    def compare(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        return (image.pooled * caption.pooled).sum(dim=-1)


def parts(*numbers: float) -> TokenFeatures:
    vector_N1 = torch.tensor(numbers, dtype=torch.float32)[:, None]
    return TokenFeatures(vector_N1[:, None], torch.ones((len(numbers), 1)).bool(), vector_N1)


def batch(
    also: list[list[bool]] | None = None, *, mask: list[list[bool]] | None = None
) -> ReaderBatch:
    """Scores are [[1, 2], [2, 4]]; negatives score 3 for the first image, -2 for the second."""
    return ReaderBatch(
        image=parts(1, 2),
        caption=parts(1, 2),
        negative=parts(3, -1),
        negative_mask_BK=torch.tensor(mask or [[True], [True]]),
        also_true_BB=torch.tensor(also or [[False, False], [False, False]]),
    )


def lost(own: float, *others: float) -> float:
    """Cross-entropy of the first among all."""
    return math.log(math.exp(own) + sum(map(math.exp, others))) - own


def test_two_by_two_with_a_negative_each() -> None:
    rows = (lost(1, 2, 3) + lost(4, 2, -2)) / 2
    columns = (lost(1, 2) + lost(4, 2)) / 2
    assert float(contrast(Product(), batch(), contrast_size=2)) == pytest.approx(
        (rows + columns) / 2
    )


def test_a_scale_multiplies_every_score() -> None:
    rows = (lost(0.5, 1, 1.5) + lost(2, 1, -1)) / 2
    columns = (lost(0.5, 1) + lost(2, 1)) / 2
    found = contrast(Product(0.5), batch(), contrast_size=2)
    assert float(found) == pytest.approx((rows + columns) / 2)


def test_captions_that_fit_too_and_missing_negatives_are_left_out() -> None:
    # Caption 1 also fits image 0, and image 1 has no negative.
    given = batch([[False, True], [False, False]], mask=[[True], [False]])
    rows = (lost(1, 3) + lost(4, 2)) / 2
    columns = (lost(1, 2) + lost(4)) / 2
    assert float(contrast(Product(), given, contrast_size=2)) == pytest.approx((rows + columns) / 2)


def test_crowds_of_one_are_told_from_their_negatives_alone() -> None:
    rows = (lost(1, 3) + lost(4, -2)) / 2
    assert float(contrast(Product(), batch(), contrast_size=1)) == pytest.approx(rows / 2)


def test_blocks_of_a_matrix_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unbag.readouts.reader.PAIRS_AT_ONCE", 4)
    found = Product().compare_all(parts(1, 2, 3), parts(1, 10, 100))
    assert found.tolist() == [[1, 10, 100], [2, 20, 200], [3, 30, 300]]


def test_told_apart_means_above_all_negatives_and_a_tie_is_a_miss() -> None:
    assert accuracies(Product(), batch()).tolist() == [False, True]
    tie = ReaderBatch(
        image=parts(1),
        caption=parts(1),
        negative=parts(0, 1),
        negative_mask_BK=torch.tensor([[True, True]]),
        also_true_BB=torch.zeros((1, 1)).bool(),
    )
    assert accuracies(Product(), tie).tolist() == [False]


SETTINGS = PooledSettings(width=8, steps=7)


def reader() -> Pooled:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Pooled(SETTINGS, SIZES)


def written(folder: Path, given: Reader | None = None, *, name: str = "pooled") -> Path:
    encoder = small()
    head = ReaderHeader(name, asdict(SETTINGS), SIZES, encoder.name, encoder.fingerprint)
    save_head(given or reader(), folder / FILE, head)
    return folder


def loaded(folder: Path, *, seed: int = 0) -> tuple[Reader, ReaderHeader]:
    return load_reader(folder, small(seed), readout="pooled", settings=PooledSettings, build=Pooled)


def test_what_is_read_is_what_was_written_in_half_precision(tmp_path: Path) -> None:
    first = reader()
    again, head = loaded(written(tmp_path, first))
    assert head.sizes == SIZES
    assert again.settings == SETTINGS
    assert not again.training
    for key, value in first.state_dict().items():
        found = again.state_dict()[key]
        assert found.dtype == torch.float32
        assert torch.equal(found, value.half().float())
    difference = again.compare(images(3), captions(3)) - first.compare(images(3), captions(3))
    assert difference.abs().max() < 1e-3
    file, _ = loaded(tmp_path / FILE)
    assert reader_fingerprint(file, small()) == reader_fingerprint(again, small())


def test_a_fingerprint_is_of_weights_settings_and_encoder() -> None:
    one = reader()
    found = {reader_fingerprint(one, small()), reader_fingerprint(one, small(seed=1))}
    with torch.no_grad():
        one.picture[1].bias += 1  # type: ignore[index]
    found.add(reader_fingerprint(one, small()))
    one.settings = PooledSettings(width=8, steps=8)
    found.add(reader_fingerprint(one, small()))
    assert len(found) == 4


def test_a_reader_of_another_encoder_is_refused_with_both_fingerprints(tmp_path: Path) -> None:
    with pytest.raises(UnbagError) as caught:
        loaded(written(tmp_path), seed=1)
    assert small().fingerprint in caught.value.message
    assert small(seed=1).fingerprint in caught.value.message
    assert caught.value.hint == "--model tiny:small0, or train a reader for this model"


def test_a_file_of_another_read_out_says_its_own_name(tmp_path: Path) -> None:
    with pytest.raises(UnbagError) as caught:
        loaded(written(tmp_path, name="pacl"))
    assert caught.value.message == f"{tmp_path / FILE} holds the read-out 'pacl'"
    assert caught.value.hint == f"--scorer pacl@{tmp_path}"


def test_a_torn_a_foreign_and_a_missing_file_are_no_readers(tmp_path: Path) -> None:
    path = written(tmp_path) / FILE
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"{}"):
        path.write_bytes(content)
        with pytest.raises(UnbagError, match="is not a reader"):
            loaded(tmp_path)
    save_file({"a": torch.zeros(1)}, path)
    with pytest.raises(UnbagError) as caught:
        loaded(tmp_path)
    assert caught.value.expected == (
        "a folder that `unbag train --readout ...` wrote, with reader.safetensors"
    )
    with pytest.raises(UnbagError, match="is not a reader"):
        loaded(tmp_path / "nowhere")
    path.unlink()
    (tmp_path / LAST).touch()
    with pytest.raises(UnbagError, match="holds an unfinished training run") as caught:
        loaded(tmp_path)
    assert caught.value.hint == "run the same `unbag train` command again to resume it"


def test_weights_that_are_no_numbers_are_neither_written_nor_read(tmp_path: Path) -> None:
    bad = reader()
    with torch.no_grad():
        bad.picture[1].bias[0] = torch.nan  # type: ignore[index]
    with pytest.raises(
        UnbagError, match=r"the reader pooled hold NaN or infinity: picture\.1\.bias"
    ):
        written(tmp_path, bad)
    with torch.no_grad():
        # Beyond half precision.
        bad.picture[1].bias[0] = 1e6  # type: ignore[index]
    with pytest.raises(UnbagError, match="hold NaN or infinity"):
        written(tmp_path, bad)
    assert not list(tmp_path.iterdir())
    path = written(tmp_path) / FILE
    head, state = read_head(path)
    assert head.readout == "pooled"
    state["picture.1.bias"][0] = torch.nan
    with safe_open(path, framework="pt") as file:
        header = file.metadata()
    save_file(state, path, metadata=header)
    with pytest.raises(UnbagError, match="hold NaN or infinity"):
        loaded(tmp_path)


def test_settings_that_build_no_reader_ask_for_training_again(tmp_path: Path) -> None:
    encoder = small()
    settings = asdict(SETTINGS) | {"width": "wide"}
    head = ReaderHeader("pooled", settings, SIZES, encoder.name, encoder.fingerprint)
    save_head(reader(), tmp_path / FILE, head)
    with pytest.raises(UnbagError, match="does not fit the read-out 'pooled'") as caught:
        loaded(tmp_path)
    assert caught.value.hint == "train it again with this version"


def test_weights_of_another_shape_ask_for_training_again(tmp_path: Path) -> None:
    written(tmp_path)

    def wider(settings: PooledSettings, sizes: Sizes) -> Pooled:
        return Pooled(PooledSettings(width=9), sizes)

    with pytest.raises(UnbagError) as caught:
        load_reader(tmp_path, small(), readout="pooled", settings=PooledSettings, build=wider)
    assert "does not fit the read-out 'pooled'" in caught.value.message
    assert caught.value.hint == "train it again with this version"
