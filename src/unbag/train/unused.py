"""Towers with all weights open come in; weights that no vector depends on are closed.

Checkpoints carry such weights along: the decoder of CoCa, poolers of BERT that a caption's vector
passes by. They would only be decayed.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from PIL import Image

from unbag.train.trainable import Trainable

CAPTIONS = ("a red cube", "a")


def close_unused(trainable: Trainable, *, device: str, captions: Sequence[str] = CAPTIONS) -> None:
    """Tried on one picture and some captions, in eval mode; the mode is left as it was."""
    was_training = trainable.module.training
    trainable.module.eval()
    picture = trainable.reads.prepare(Image.new("RGB", (40, 30), (90, 120, 150)))
    inputs = {name: one.to(device) for name, one in trainable.reads.tokenize(captions).items()}
    with torch.enable_grad():
        found = trainable.embed_pictures(picture[None].to(device)).sum()
        found = found + trainable.embed_captions(inputs).sum()
        found.backward()  # type: ignore[no-untyped-call]
    temperature = {id(weight) for weight in trainable.temperature}
    for weight in trainable.module.parameters():
        weight.requires_grad_(weight.grad is not None or id(weight) in temperature)
        weight.grad = None
    trainable.module.train(was_training)
