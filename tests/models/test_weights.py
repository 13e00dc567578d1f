"""Fingerprints, weights with NaN or infinity, and random initialization."""

import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import nn

from unbag.errors import UnbagError
from unbag.models.huggingface.blip import Blip, Match
from unbag.models.huggingface.dual import HfDual
from unbag.models.huggingface.loading import load
from unbag.models.tiny import RANDOM_SEED, Tiny, write
from unbag.models.tiny import load as load_tiny
from unbag.models.weights import check_finite, fingerprint, random_init, seeded
from unbag.types import DualEncoder, LayerEncoder

HfFolder = Callable[[str], Path]
DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
CAPTIONS = ["a red cube", "a dog eats a horse"]


def test_fingerprint_changes_with_every_bit_name_shape_and_text() -> None:
    weight = torch.arange(6.0)
    first = fingerprint("clip", {"a": weight}, "config")
    other = weight.clone()
    other[3] = torch.nextafter(other[3], torch.tensor(9.0))
    different = [
        fingerprint("clip", {"a": other}, "config"),
        fingerprint("clip", {"b": weight}, "config"),
        fingerprint("clip", {"a": weight.reshape(2, 3)}, "config"),
        fingerprint("clip", {"a": weight.bfloat16()}, "config"),
        fingerprint("clip", {"a": weight}, "confi", "g"),
        fingerprint("clip", {"a": weight, "c": torch.zeros(0)}, "config"),
    ]
    assert len({first, *different}) == 7
    assert first == fingerprint("clip", {"a": weight.clone()}, "config")
    assert first.startswith("clip-")


@given(
    st.integers(1, 300),
    st.data(),
    st.sampled_from((math.nan, math.inf, -math.inf)),
    st.sampled_from(DTYPES),
)
def test_one_bad_number_anywhere_is_found(
    size: int, data: st.DataObject, bad: float, dtype: torch.dtype
) -> None:
    tensor = torch.linspace(-3, 3, size).to(dtype)
    check_finite({"fine": tensor}, source="x.pt")
    tensor[data.draw(st.integers(0, size - 1))] = bad
    with pytest.raises(UnbagError, match=r"1 of the 2 tensors of x\.pt hold NaN or infinity: bad"):
        check_finite({"fine": torch.zeros(2), "bad": tensor}, source="x.pt")


def test_other_dtypes_are_fine_and_long_lists_are_shortened() -> None:
    check_finite({"empty": torch.zeros(0), "integers": torch.arange(3)}, source="x.pt")
    check_finite({"eighths": torch.ones(3).to(torch.float8_e4m3fn)}, source="x.pt")
    bad = {f"t{n}": torch.tensor(math.nan) for n in range(5)}
    with pytest.raises(UnbagError, match=r"5 of the 5 .*: t0, t1, t2 and 2 more"):
        check_finite(bad, source="x.pt")


def test_models_with_bad_weights_are_refused(hf_folder: HfFolder, tmp_path: Path) -> None:
    folder = Path(copytree(hf_folder("clip"), tmp_path / "clip"))
    state = load_file(folder / "model.safetensors")
    state["visual_projection.weight"][0, 0] = math.nan
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UnbagError, match=r"hold NaN or infinity: visual_projection\.weight"):
        load(str(folder))
    tiny = load_tiny("random")
    with torch.no_grad():
        tiny.network.log_scale.fill_(math.inf)
    write(tiny.network, tmp_path / "mine.safetensors")
    with pytest.raises(UnbagError, match="hold NaN or infinity: log_scale"):
        load_tiny(str(tmp_path / "mine.safetensors"))


def draw(seed: int) -> torch.Tensor:
    with seeded(seed):
        return nn.Linear(3, 4).weight.detach()


def test_seed_decides_all_draws() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        first = draw(5)
        torch.rand(7)
        assert torch.equal(first, draw(5))
        assert not torch.equal(first, draw(6))
        # The numbers of `torch.manual_seed`, from which shipped weights were trained.
        torch.manual_seed(5)
        assert torch.equal(first, nn.Linear(3, 4).weight)


def test_generator_is_restored_also_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError

    # Generators of GPUs are not restored, and a process that uses one cannot fork.
    monkeypatch.setattr(torch.cuda, "manual_seed_all", fail)
    monkeypatch.setattr(torch, "manual_seed", fail)
    before = torch.get_rng_state()
    draw(5)
    assert torch.equal(torch.get_rng_state(), before)
    with pytest.raises(RuntimeError, match="mat1 and mat2"), seeded(5):
        torch.rand(2, 3) @ torch.rand(2, 3)
    assert torch.equal(torch.get_rng_state(), before)


def test_import_without_torch() -> None:
    code = "import sys, unbag.models.weights; print('torch' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


def dual(folder: Path, **options: Any) -> HfDual:
    encoder = load(str(folder), **options)
    assert isinstance(encoder, HfDual)
    return encoder


def test_random_init_of_tiny_base_is_tiny_random() -> None:
    base = load_tiny("base")
    random_model = random_init(base, seed=RANDOM_SEED)
    assert isinstance(random_model, Tiny)
    assert random_model.name == "tiny:base, random weights"
    assert random_model.fingerprint == load_tiny("random").fingerprint != base.fingerprint
    # It does not depend on the weights, so a model and its repair share one.
    repaired = random_init(load_tiny("hard_negative"), seed=RANDOM_SEED)
    assert repaired is not None
    assert repaired.fingerprint == random_model.fingerprint
    assert random_init(cast(DualEncoder, SimpleNamespace(name="mine"))) is None


@pytest.mark.parametrize(
    "kind", ["clip", "siglip", "siglip2", "align", "altclip", "vision-text-dual-encoder"]
)
def test_random_init_of_transformers(kind: str, hf_folder: HfFolder) -> None:
    encoder = dual(hf_folder(kind))
    before = torch.get_rng_state()
    first, again, other = (random_init(encoder, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert isinstance(first, HfDual)
    assert isinstance(again, HfDual)
    assert isinstance(other, HfDual)
    assert isinstance(first, LayerEncoder)
    assert first.name == f"{encoder.name}, random weights"
    assert first.fingerprint == again.fingerprint
    assert len({first.fingerprint, other.fingerprint, encoder.fingerprint}) == 3
    ours, theirs = encoder.model.state_dict(), first.model.state_dict()
    assert {k: v.shape for k, v in ours.items()} == {k: v.shape for k, v in theirs.items()}
    assert first.count_tokens(CAPTIONS) == encoder.count_tokens(CAPTIONS)
    assert first.context == encoder.context
    image = Image.radial_gradient("L").convert("RGB")
    pixels = encoder.prepare(image)[None]
    assert torch.equal(first.prepare(image)[None], pixels)
    assert torch.equal(first.encode_images(pixels), again.encode_images(pixels))
    assert not torch.allclose(first.encode_texts(CAPTIONS), encoder.encode_texts(CAPTIONS))


def test_random_init_follows_the_library_and_the_precision(hf_folder: HfFolder) -> None:
    random_model = random_init(dual(hf_folder("clip"), dtype="bfloat16"))
    assert isinstance(random_model, HfDual)
    assert random_model.model.dtype == torch.bfloat16
    assert not random_model.model.training
    weight = random_model.model.text_model.embeddings.token_embedding.weight
    # Weights on disk have a deviation of 0.3; token embeddings of CLIP are initialized with 0.02.
    assert weight.float().std() == pytest.approx(0.02, rel=0.1)
    assert not weight.requires_grad


def test_random_init_of_blip(hf_folder: HfFolder) -> None:
    scorer = load(str(hf_folder("blip")))
    assert isinstance(scorer, Match)
    assert isinstance(scorer.reader, Blip)
    random_model = random_init(scorer.reader)
    assert isinstance(random_model, Blip)
    assert random_model.encode_texts(CAPTIONS).shape == (2, 12)
    assert random_model.fingerprint != scorer.reader.fingerprint
