"""Plants, animals and a ghost."""

from unbag.world.shapes_region import Region, box, disc, ellipse, mirrored, polygon, stroke

_TREE = (
    polygon((0.0, -1.1), (0.72, -0.02), (-0.72, -0.02))
    | polygon((0.0, -0.55), (1.02, 0.64), (-1.02, 0.64))
    | box(-0.18, 0.6, 0.18, 1.0)
)
_FISH = (
    ellipse(-0.25, 0.0, 0.75, 0.6) | polygon((0.25, 0.0), (1.0, -0.64), (0.82, 0.0), (1.0, 0.64))
) - disc(-0.55, -0.14, 0.11)
_MUSHROOM = (
    (ellipse(0.0, 0.05, 1.0, 1.05) & box(-1.0, -1.0, 1.0, 0.08))
    | box(-0.3, 0.0, 0.3, 0.7)
    | ellipse(0.0, 0.7, 0.4, 0.3)
) - (disc(-0.48, -0.3, 0.16) | disc(0.1, -0.62, 0.16) | disc(0.52, -0.22, 0.16))
_SNAKE = (
    stroke(
        (-0.55, 0.84),
        (0.3, 0.84),
        (0.62, 0.68),
        (0.68, 0.42),
        (0.5, 0.18),
        (-0.35, 0.0),
        (-0.66, -0.2),
        (-0.7, -0.46),
        (-0.5, -0.7),
        (0.1, -0.72),
        width=0.3,
    )
    | polygon((-1.05, 0.62), (-0.5, 0.7), (-0.5, 0.98))
    | ellipse(0.36, -0.68, 0.46, 0.32)
    | stroke((0.7, -0.62), (1.0, -0.36), width=0.14)
    | stroke((0.7, -0.66), (1.0, -0.66), width=0.12)
) - disc(0.4, -0.79, 0.1)
_WINGS = mirrored(
    ellipse(0.62, -0.4, 0.4, 0.48)
    | ellipse(0.52, 0.48, 0.34, 0.42)
    | box(0.0, -0.15, 0.4, 0.22)
    | stroke((0.05, -0.6), (0.2, -0.95), width=0.13)
)
_BUTTERFLY = _WINGS | box(-0.09, -0.68, 0.09, 0.85)
_HEAD = (
    disc(0.0, -0.76, 0.27)
    | mirrored(disc(0.5, -0.42, 0.28))
    | mirrored(disc(0.3, 0.08, 0.28))
    | disc(0.0, -0.3, 0.4)
) - disc(0.0, -0.3, 0.2)
_FLOWER = (
    _HEAD | box(-0.1, 0.1, 0.1, 1.0) | mirrored(stroke((0.05, 0.92), (0.45, 0.68), width=0.24))
)
_LEAF = (
    (disc(-0.35, -0.35, 1.14) & disc(0.35, 0.35, 1.14))
    | stroke((-0.5, 0.5), (-0.9, 0.9), width=0.2)
) - stroke((-0.5, 0.5), (0.4, -0.4), width=0.12)
_GHOST = (
    (disc(0.0, -0.22, 0.78) | box(-0.78, -0.22, 0.78, 1.0))
    - mirrored(box(0.15, -0.46, 0.42, -0.08))
    - mirrored(polygon((0.27, 0.6), (0.5, 1.06), (0.04, 1.06)))
)
LIVING: dict[str, Region] = {
    "tree": _TREE,
    "fish": _FISH,
    "mushroom": _MUSHROOM,
    "snake": _SNAKE,
    "butterfly": _BUTTERFLY,
    "flower": _FLOWER,
    "leaf": _LEAF,
    "ghost": _GHOST,
}
