"""Scenes as records: things with places, from which every relation is computed, never sampled."""

from __future__ import annotations

from dataclasses import dataclass

from unbag.world.words import Size, Texture

RENDERER = 1
"""Version of the drawing rules; part of every scene, so that old records never draw differently."""


@dataclass(frozen=True)
class Thing:
    """One object of a scene."""

    shape: str
    colour: str
    size: Size
    texture: Texture
    x: int
    y: int
    """Centre, in pixels from the top left."""
    rgb: tuple[int, int, int]
    """The colour as drawn, jitter included."""


@dataclass(frozen=True)
class Scene:
    """Everything a picture shows. Things later in the tuple are drawn over earlier ones."""

    things: tuple[Thing, ...]
    noise_seed: int
    world: str = "default"
    renderer: int = RENDERER
