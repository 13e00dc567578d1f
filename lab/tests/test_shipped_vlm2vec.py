"""The head that ships for tiny:base: found by the encoder's bits, it scores as the lab measured."""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.readouts.decoder_made import begun, encoder, images

from unbag.api import make_scorers
from unbag.errors import UnbagError
from unbag.metrics.intervals import wilson
from unbag.models.huggingface.chat_runner import CausalRunner
from unbag.models.loading import load_model
from unbag.models.shipped import find_shipped
from unbag.models.tiny import write
from unbag.readouts.decoder.model import DecoderParts, PatchDecoder
from unbag.readouts.decoder.saving import (
    DecoderOrigin,
    decoder_fingerprint,
    on_encoder,
    read_decoder,
    save_decoder,
)
from unbag.readouts.reader import shipped_decoder
from unbag.readouts.vlm2vec.readout import VLM2VEC, AskedCosine
from unbag.types import DualEncoder, Item, Scores
from unbag.world.benchmarks import RELATION

FOLDER = cast(Path, find_shipped("tiny-base.vlm2vec"))
DECODER = cast(Path, find_shipped("tiny-base.decoder"))


@pytest.fixture(scope="module")
def scorer() -> AskedCosine:
    (found,) = make_scorers(load_model("tiny:base"), "vlm2vec")
    assert isinstance(found, AskedCosine)
    return found


def relation_items(every: int) -> list[Item]:
    return [item for item in RELATION.load(None) if int(item.id.split("/")[1]) % every == 0]


def test_the_package_holds_it_in_half_precision() -> None:
    weights = FOLDER
    for name in ("config.json", "README.md", "change.safetensors"):
        assert weights.joinpath(name).is_file(), name
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 1.7e6
    change = load_file(FOLDER / "change.safetensors")
    assert {value.dtype for value in change.values()} == {torch.float16}
    thin = [value for name, value in change.items() if not name.endswith(".whole")]
    assert {min(value.shape) for value in thin} == {48}
    made = read_decoder(FOLDER).made
    assert made.embeds
    assert sum(value.numel() for value in made.net.parameters()) == 2_059_584


def test_it_is_a_change_of_the_decoder_that_ships(tmp_path: Path) -> None:
    said = json.loads((FOLDER / "config.json").read_text(encoding="utf-8"))
    assert said["change_of"]["folder"] == "tiny-base.decoder"
    first, second = (read_decoder(folder).made.net.state_dict() for folder in (DECODER, FOLDER))
    assert list(first) == list(second)
    assert not any(torch.equal(second[name], value) for name, value in first.items())
    alone = tmp_path / FOLDER.name
    shutil.copytree(FOLDER, alone)
    with pytest.raises(UnbagError, match=r"tiny-base\.decoder"):
        make_scorers(load_model("tiny:base"), f"vlm2vec@{alone}")
    shutil.copytree(DECODER, tmp_path / "tiny-base.decoder")
    (scorer,) = make_scorers(load_model("tiny:base"), f"vlm2vec@{alone}")
    assert isinstance(scorer, AskedCosine)


def test_it_is_found_for_its_encoder_and_no_other() -> None:
    base, other = load_model("tiny:base"), load_model("tiny:random")
    assert isinstance(base, DualEncoder)
    assert isinstance(other, DualEncoder)
    assert shipped_decoder("vlm2vec", base) == FOLDER
    assert shipped_decoder("vlm2vec", other) is None
    with pytest.raises(UnbagError, match=r"tiny:random \(tiny-\w+\) has none") as error:
        make_scorers(other, "vlm2vec")
    assert "--scorer vlm2vec@FOLDER" in error.value.expected
    assert "unbag train --readout vlm2vec --model decoder:FOLDER" in error.value.hint
    with pytest.raises(UnbagError, match="'vlm2vec_plain' needs a language model"):
        make_scorers(base, "vlm2vec_plain")
    with pytest.raises(UnbagError, match="was trained for tiny:base") as error:
        make_scorers(other, f"vlm2vec@{FOLDER}")
    assert other.fingerprint in error.value.message


def _is_right(scores: Scores) -> bool:
    assert scores.values is not None
    return bool(scores.values[0, 0] > scores.values[0, 1])


def test_it_scores_as_its_card_says_the_lab_measured(scorer: AskedCosine) -> None:
    """The lab asked it with all its weights; what the rank costs is less than this can show."""
    items = relation_items(every=3)
    right = sum(_is_right(s) for s in scorer.score_items(items))
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    (line,) = (one for one in card.splitlines() if one.startswith("| world-relation | original"))
    measured = float(line.strip("| ").rpartition("|")[2]) / 100
    found = wilson(right, len(items))
    assert len(items) == 320
    assert found.low < measured < found.high
    assert found.low > 0.75


def test_no_score_depends_on_the_others_of_a_batch(scorer: AskedCosine) -> None:
    items = relation_items(every=60)[:6]
    # Fresh ones: the first keeps the vectors it has made.
    together = AskedCosine(scorer.model).score_items(items)
    alone = [AskedCosine(scorer.model).score_items([item])[0] for item in items[::-1]][::-1]
    np.testing.assert_allclose(
        np.stack([np.asarray(s.values) for s in together]),
        np.stack([np.asarray(s.values) for s in alone]),
        atol=2e-6,
    )


def test_no_score_depends_on_the_side_of_the_padding(scorer: AskedCosine) -> None:
    model = scorer.model
    assert isinstance(model, PatchDecoder)
    assert isinstance(model.runner, CausalRunner)
    image = relation_items(every=60)[0].images[0]
    rows = model.hidden_rows([(image, "a star"), (image, "Is the star on or under the cup?")])
    with torch.inference_mode():
        left, right = (model.runner.hidden(rows, left=side) for side in (True, False))
    torch.testing.assert_close(left, right, atol=1e-4, rtol=1e-4)
    # In the form of a question, which it was trained with: mark, words, mark.
    assert [len(row.prompt) - 64 for row in rows] == [2 + 2, 9 + 2]


def test_it_needs_no_transformers_and_has_the_same_bits_of_identity(scorer: AskedCosine) -> None:
    code = (
        "import sys; from unbag.models.loading import load_model; "
        "from unbag.api import make_scorers; "
        "from unbag.world.benchmarks import set_items; "
        "(s,) = make_scorers(load_model('tiny:base'), 'vlm2vec'); "
        "s.score_items(set_items('a', n=1)); "
        "assert 'transformers' not in sys.modules; print(s.fingerprint)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == scorer.fingerprint
    kept = read_decoder(FOLDER)
    base = load_model("tiny:base")
    assert isinstance(base, DualEncoder)
    theirs = on_encoder(kept, base, FOLDER, name="tiny:base")
    assert theirs.fingerprint == scorer.model.fingerprint
    items = relation_items(every=60)[:4]
    found, wanted = (
        np.stack([np.asarray(s.values) for s in AskedCosine(one).score_items(items)])
        for one in (scorer.model, theirs)
    )
    np.testing.assert_allclose(found, wanted, atol=2e-5)


def small_folder(folder: Path, *, embeds: bool) -> Path:
    own, made = encoder(), begun().made
    kept = DecoderParts(made.net, made.words, made.settings, made.places, made.context, embeds)
    save_decoder(folder, kept, DecoderOrigin("small", own.name, own.fingerprint))
    return folder


def test_the_folder_of_an_arm_becomes_one_that_ships(tmp_path: Path) -> None:
    from unbag_lab.experiments.readouts import ship_head

    write(encoder().network, tmp_path / "small.safetensors", dtype=torch.float32)
    arm, spec = (
        small_folder(tmp_path / "vlm2vec", embeds=False),
        f"tiny:{tmp_path}/small.safetensors",
    )
    ship_head(arm, spec, tmp_path / "out")
    assert json.loads((tmp_path / "out/config.json").read_text())["origin"]["spec"] == spec
    made = read_decoder(tmp_path / "out").made
    assert (made.embeds, made.context) == (True, made.places + made.settings.context)
    assert load_file(tmp_path / "out/connector.safetensors")["0.weight"].dtype == torch.float16
    with pytest.raises(UnbagError, match=r"small.safetensors|small") as error:
        ship_head(arm, "tiny:random", tmp_path / "other")
    assert "was trained for small" in error.value.message
    assert not (tmp_path / "other").exists()


def test_a_decoder_that_was_taught_to_answer_is_refused(tmp_path: Path) -> None:
    folder = small_folder(tmp_path / "decoder", embeds=False)
    with pytest.raises(UnbagError, match="was trained to answer, not to embed") as error:
        VLM2VEC.scorers(encoder(), folder)
    assert f"--scorer decoder@{folder}" in error.value.hint
    with pytest.raises(UnbagError, match="was trained to embed, not to answer") as error:
        make_scorers(encoder(), f"decoder@{small_folder(tmp_path / 'embeds', embeds=True)}")
    assert f"--scorer vlm2vec@{tmp_path / 'embeds'}" in error.value.hint


def test_vectors_of_both_forms_are_kept_apart(tmp_path: Path) -> None:
    texts: Sequence[str] = ["a red star"]
    found = []
    for embeds in (False, True):
        made = read_decoder(small_folder(tmp_path / str(embeds), embeds=embeds)).made
        assert made.embeds is embeds
        found.append(decoder_fingerprint(made, encoder()))
    assert found[0] != found[1]
    (asked,) = VLM2VEC.scorers(encoder(), tmp_path / "True")
    assert isinstance(asked, AskedCosine)
    assert found[1] in asked.fingerprint
    matrix_PC = asked.score_matrix(images(2), texts)
    assert matrix_PC.shape == (2, 1)
