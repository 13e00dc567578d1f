"""A recipe as plain data comes in; what the card of a model says of it goes out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def card_settings(recipe: Mapping[str, Any], *, seed: int, precision: str) -> str:
    """Lines of Markdown; `recipe` is what `described` made of one."""
    terms = recipe["objective"]["terms"]
    locks, lora = recipe["locks"], recipe["lora"]
    lines = [
        f"- source: {recipe['source']}",
        *(f"- loss: {term['weight']:g} x {term['name']}" for term in terms if term["weight"]),
        f"- {recipe['epochs']} epochs, batch {recipe['batch']}, "
        f"learning rate {recipe['learning_rate']:g}, weight decay {recipe['weight_decay']:g}, "
        f"{recipe['warm_up']} steps of warm-up",
        f"- locked: picture tower {locks['picture']}, caption tower {locks['caption']}"
        + (f"; LoRA of rank {lora['rank']}" if lora else ""),
        f"- seed {seed}, {precision}",
    ]
    return "\n".join(lines)
