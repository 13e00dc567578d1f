"""A seed comes in; sheets of captions to read from go out, in sets of exactly the same words."""

from __future__ import annotations

from collections.abc import Callable

from unbag.probes.extract_sheets import Deal, Label, Sheet, classes, deals
from unbag.world.grammar import And, Ast, Has, Not, Obj, Rel
from unbag.world.realise import Style, realise

# "an anchor but no cup" and its turn differ in their articles, which would give them away.
STYLE = Style(negation="without")


def caption_sheets(*, seed: int, captions: int, is_full: bool) -> tuple[Sheet[str], ...]:
    """Order, binding and negation; with `is_full` also relation, whatever the order of words.

    Each sheet has about as many captions.
    """
    forms: list[tuple[str, Callable[[Deal], tuple[Ast, ...]], tuple[int, ...]]] = [
        ("order", _order, (0, 1)),
        ("binding", _binding, (0, 0, 1, 1)),
        ("negation", _negation, (0, 1)),
    ]
    forms += [("relation", _relation, (0, 0, 1, 1))] if is_full else []
    return tuple(_sheet(name, said, row, captions, seed) for name, said, row in forms)


def _sheet(
    name: str,
    said: Callable[[Deal], tuple[Ast, ...]],
    row: tuple[int, ...],
    captions: int,
    seed: int,
) -> Sheet[str]:
    dealt = deals(captions // len(row), seed=seed, use=f"captions {name}")
    return Sheet(
        tuple(realise(ast, STYLE) for deal in dealt for ast in said(deal)),
        tuple(deal.group for deal in dealt for _ in row),
        (Label(name, classes(row, len(dealt)), 0.5),),
    )


def _things(deal: Deal) -> tuple[Obj, Obj]:
    return Obj(deal.shapes[0], deal.colours[0]), Obj(deal.shapes[1], deal.colours[1])


def _order(deal: Deal) -> tuple[Ast, ...]:
    a, b = _things(deal)
    return Rel(a, "left of", b), Rel(b, "left of", a)


def _relation(deal: Deal) -> tuple[Ast, ...]:
    """Both ways to say each, so that neither order nor the word for the side gives it away."""
    a, b = _things(deal)
    return (
        Rel(a, "left of", b),
        Rel(b, "right of", a),
        Rel(b, "left of", a),
        Rel(a, "right of", b),
    )


def _binding(deal: Deal) -> tuple[Ast, ...]:
    """Both orders of each."""
    a, b = _things(deal)
    u, v = Obj(a.shape, b.colour), Obj(b.shape, a.colour)
    return And(a, b), And(b, a), And(u, v), And(v, u)


def _negation(deal: Deal) -> tuple[Ast, ...]:
    """The denied thing stands last in the grammar of the world, so this is order as well."""
    a, b = _things(deal)
    return Has(a, Not(b)), Has(b, Not(a))
