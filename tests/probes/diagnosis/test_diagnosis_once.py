"""Over all probes that there are, each image and each caption goes through an encoder once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from unbag.models.tiny import Tiny, untrained
from unbag.models.tiny import load as load_tiny
from unbag.probes.diagnosis.diagnose import DiagnosisConfig, examine, registered_probes

from .small_probes import OPTIONS, small_material

READERS = ("extract", "extract_text")
"""They read layers, which are too large to be remembered; and training readers takes long."""


class Remembering(Tiny):
    """A small encoder that counts how often it was given the same input."""

    def __init__(self) -> None:
        small = replace(
            load_tiny("base").config, pixels=32, patch=16, picture_width=8, picture_depth=1,
            caption_width=8, caption_depth=1, joint=8, heads=2,
        )  # fmt: skip
        super().__init__(untrained(small, seed=0), name="small", device="cpu")
        self.seen: Counter[bytes | str] = Counter()

    def encode_images(self, pixels: Tensor) -> Tensor:
        self.seen.update(one.numpy().tobytes() for one in pixels)
        return super().encode_images(pixels)

    def encode_texts(self, captions: Sequence[str]) -> Tensor:
        self.seen.update(captions)
        return super().encode_texts(captions)


def test_nothing_is_encoded_twice() -> None:
    model = Remembering()
    probes = tuple(one for one in registered_probes() if one.name not in READERS)
    found = examine(
        DiagnosisConfig(
            model,
            material=small_material(rows=40),
            probes=probes,
            options=replace(OPTIONS, resamples=50),
            has_random_init=False,
        )
    )
    assert {one.probe for one in found.answered} >= {"order", "agreement", "conditions"}
    assert set(model.seen.values()) == {1}
    assert len(model.seen) > 1_000
