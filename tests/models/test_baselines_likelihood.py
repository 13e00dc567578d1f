"""Caption likelihood under a real GPT-2 of random weights, written and read by transformers."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from unbag.data import PixelImage
from unbag.errors import UnbagError
from unbag.models.baselines import Likelihood, load, load_likelihood
from unbag.models.huggingface import loading
from unbag.models.huggingface.loading import HfSource, find_language_model
from unbag.types import Query, Question

transformers = pytest.importorskip("transformers")
WORDS = ("a", "red", "blue", "cube", "ball", "is", "it", "?", "yes", "no")
IMAGE = PixelImage(np.zeros((2, 2, 3), dtype=np.uint8))


def write_model(folder: Path, *, has_start: bool = True, seed: int = 0) -> Path:
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = {word: i for i, word in enumerate(["<s>", "<unk>", *WORDS])}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"bos_token": "<s>"} if has_start else {}
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="<unk>", **special
    ).save_pretrained(folder)
    torch.manual_seed(seed)
    config = transformers.GPT2Config(
        vocab_size=len(vocabulary), n_positions=12, n_embd=16, n_layer=2, n_head=2,
        bos_token_id=0, eos_token_id=None, initializer_range=1.0,
    )  # fmt: skip
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "small")


def likelihood(folder: Path, kind: str = "likelihood") -> Likelihood:
    found = load(f"{kind}:{folder}")
    assert isinstance(found, Likelihood)
    return found


def by_hand(scorer: Likelihood, words: str, *, skip: int = 0) -> list[float]:
    """Log-probability of each word after the first `skip`, one forward pass a word."""
    found = []
    ids = [0, *scorer.tokenizer.convert_tokens_to_ids(words.split())]
    for at in range(1 + skip, len(ids)):
        with torch.inference_mode():
            logits = scorer.model(input_ids=torch.tensor([ids[:at]])).logits[0, -1]
        found.append(float(logits.double().log_softmax(-1)[ids[at]]))
    return found


def ask(scorer: Likelihood, captions: Sequence[str], question: str = "") -> list[float]:
    asked = Question(question) if question else None
    return scorer.score([Query(IMAGE, caption, asked) for caption in captions])


CAPTIONS = ("a red cube", "a blue ball", "a", "a red ball a blue cube a red cube")


def test_total_is_the_sum_over_words(folder: Path) -> None:
    scorer = likelihood(folder)
    expected = [sum(by_hand(scorer, caption)) for caption in CAPTIONS]
    assert ask(scorer, CAPTIONS) == pytest.approx(expected, abs=1e-5)
    assert scorer.name == "caption:likelihood:small"


def test_mean_over_words(folder: Path) -> None:
    scorer = likelihood(folder, "mean-likelihood")
    expected = [float(np.mean(by_hand(scorer, caption))) for caption in CAPTIONS]
    assert ask(scorer, CAPTIONS) == pytest.approx(expected, abs=1e-5)
    assert scorer.name == "caption:mean-likelihood:small"
    assert scorer.fingerprint != likelihood(folder).fingerprint


def test_answer_is_scored_after_its_question(folder: Path) -> None:
    scorer = likelihood(folder)
    found = ask(scorer, ["yes", "no"], "is it red ?")
    expected = [sum(by_hand(scorer, f"is it red ? {word}", skip=4)) for word in ("yes", "no")]
    assert found == pytest.approx(expected, abs=1e-5)
    assert found != pytest.approx(ask(scorer, ["yes", "no"]))


def test_each_caption_is_computed_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = likelihood(folder)
    rows: list[int] = []
    forward = scorer.model.forward

    def counted(*, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> object:
        rows.append(len(input_ids))
        return forward(input_ids=input_ids, attention_mask=attention_mask)

    monkeypatch.setattr(scorer.model, "forward", counted)
    first = ask(scorer, [*CAPTIONS, *CAPTIONS])
    matrix = scorer.score_matrix([IMAGE, IMAGE], CAPTIONS)
    assert rows == [len(CAPTIONS)]
    assert first[:4] == first[4:] == matrix[0].tolist() == matrix[1].tolist()


def test_fingerprint_of_the_weights(folder: Path, tmp_path: Path) -> None:
    other = write_model(tmp_path / "small", seed=1)
    assert likelihood(folder).fingerprint == likelihood(folder).fingerprint
    assert likelihood(folder).fingerprint != likelihood(other).fingerprint


def test_captions_and_tokenizers_that_cannot_be_scored(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match="has 12 tokens") as error:
        ask(likelihood(folder), ["a " * 12])
    assert "between 1 and 11" in str(error.value)
    with pytest.raises(UnbagError, match="has no first token"):
        likelihood(write_model(tmp_path / "bare", has_start=False))


def test_captions_alone(folder: Path) -> None:
    scorer = likelihood(folder)
    found = scorer.of([*CAPTIONS, "", "a " * 12, "a red cube"])
    assert found[:4] == ask(scorer, CAPTIONS)
    assert np.isnan(found[4:6]).all()
    assert found[6] == found[0]
    assert scorer.of([]) == []


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("none", "there is no language model at"),
        ("empty", r"empty has no config\.json"),
        ("cut.gguf", r"cut\.gguf cannot be read as a language model"),
        ("words.txt", r"no language model at .*words\.txt': it is a file"),
    ],
)
def test_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, message: str
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "empty").mkdir()
    (tmp_path / "cut.gguf").write_bytes(b"GGUF")
    (tmp_path / "words.txt").touch()
    with pytest.raises(UnbagError, match=message):
        likelihood(tmp_path / file)
    with pytest.raises(UnbagError, match="there is no language model at '~no-such-user/gpt'"):
        find_language_model("~no-such-user/gpt")


def test_missing_folder_that_looks_like_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models").mkdir()
    monkeypatch.chdir(tmp_path)

    def connected(source: object, kind: object) -> None:
        raise AssertionError

    monkeypatch.setattr(loading, "read_weights", connected)
    with pytest.raises(UnbagError, match="at 'models/gpt': the folder models has no gpt") as error:
        load_likelihood("models/gpt")
    assert error.value.hint == (
        "check the path; to use a model of the hub, download it first: hf download models/gpt"
    )
    assert find_language_model("owner/gpt") == HfSource("owner/gpt")
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *a, **k: "config.json")
    assert find_language_model("models/gpt@v1") == HfSource("models/gpt", "v1")


def test_model_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "clip"}')
    with pytest.raises(UnbagError, match="CLIPConfig") as error:
        load_likelihood(str(tmp_path))
    assert len(error.value.message) < 400
    assert error.value.hint == (
        "its config.json is of another kind of model; use a model of the required kind"
    )


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (ImportError("Please install gguf"), "pip install gguf accelerate"),
        (ValueError("cut short"), "copy or download the file again"),
    ],
)
def test_hints_for_unreadable_gguf_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, hint: str
) -> None:
    def fails(*path: str, **where: object) -> None:
        raise error

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", fails)
    (tmp_path / "small.gguf").write_bytes(b"GGUF")
    with pytest.raises(UnbagError, match=f"as a language model: {error}") as found:
        likelihood(tmp_path / "small.gguf")
    assert hint in str(found.value)


def test_missing_weights(tmp_path: Path) -> None:
    """transformers would fill them with random numbers."""
    from safetensors.torch import load_file, save_file

    folder = write_model(tmp_path / "small")
    weights = load_file(folder / "model.safetensors")
    del weights["transformer.h.0.mlp.c_fc.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UnbagError, match=r"1 missing \(transformer\.h\.0\.mlp\.c_fc\.weight\)"):
        likelihood(folder)
