"""Diagnosis of a decoder and VLM2Vec: their maps stand beside those of the encoder they read."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from unbag.models.loading import Model
from unbag.probes.diagnosis.diagnose import Diagnosis, DiagnosisConfig, examine
from unbag.probes.diagnosis.page import render_diagnosis
from unbag.readouts.decoder.model import PatchDecoder
from unbag.readouts.vlm2vec.model import Vlm2Vec
from unbag.readouts.vlm2vec.readout import AskedCosine
from unbag.scorers.chat import YES
from unbag.scorers.cosine import Cosine
from unbag.types import Scorer

from ...readouts.decoder_made import SMALL, decoder  # noqa: TID252
from .small_probes import OPTIONS, small_material

NOTE = "no map of words over patches"


def asked(model: Model, scorer: Scorer | None = None) -> Diagnosis:
    return examine(
        DiagnosisConfig(
            model, scorer=scorer, material=small_material(), probes=(), options=OPTIONS,
            has_random_init=False,
        )
    )  # fmt: skip


def test_a_decoder_stands_beside_the_encoder_it_sees_through() -> None:
    found = asked(decoder())
    assert [one.title for one in found.maps] == ["small"] * 3 + ["decoder"] * 3
    assert [one.when for one in found.maps] == ["before training"] * 3 + ["after training"] * 3
    before, after = found.maps[0], found.maps[3]
    assert (before.caption, before.image) == (after.caption, after.image)
    assert [one.word for one in after.maps] == after.caption.split()
    assert (before.is_signed, after.is_signed) == (False, True)
    page = render_diagnosis(found)
    assert "small, before training</p>" in page
    assert "decoder, after training</p>" in page
    assert page.count("asked: “Describe the picture in one sentence.”") == 3
    # Two colours are told apart over a grey image; those of one over the image as it is.
    assert [page.count(f'<ul class="tiles{kind}">') for kind in ("", " signed")] == [3, 3]
    assert not found.notes[1:]


def of_yes(model: PatchDecoder) -> Scorer:
    return YES(model)


def of_vectors(model: PatchDecoder) -> Scorer:
    return Cosine(Vlm2Vec(model))


@pytest.mark.parametrize("make", [of_yes, of_vectors, AskedCosine])
def test_a_read_out_of_an_encoder_stands_beside_the_encoder(
    make: type[AskedCosine],
) -> None:
    model = decoder()
    scorer = make(model)
    found = asked(model.image_encoder, scorer)
    assert [one.title for one in found.maps] == ["small"] * 3 + [scorer.name] * 3
    assert [one.when for one in found.maps] == ["before training"] * 3 + ["after training"] * 3


@pytest.mark.parametrize(("sees", "what"), [("cls", "one vector"), ("nothing", "nothing")])
def test_a_decoder_without_patches_has_no_map_and_says_so(
    sees: Literal["cls", "nothing"], what: str
) -> None:
    model = decoder(replace(SMALL, sees=sees))
    said = f"{NOTE}: decoder sees {what} of an image, and no patches that could be removed"
    alone = asked(model)
    assert (alone.maps, alone.notes[1:]) == ((), (said,))
    beside = asked(model.image_encoder, YES(model))
    assert [one.title for one in beside.maps] == ["small"] * 3
    assert beside.notes[-1] == said


def test_a_model_without_read_out_is_neither_before_nor_after() -> None:
    found = asked(decoder().image_encoder)
    assert [one.when for one in found.maps] == [""] * 3
    assert "before training" not in render_diagnosis(found)
