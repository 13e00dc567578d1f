"""What the page on read-outs says of how the decoder learned, and of one token for patches."""

from __future__ import annotations

from itertools import pairwise
from statistics import mean

import pytest

from unbag_lab.pages.curves import PATCHES, TOKEN, Curve, learned_of
from unbag_lab.results import ArmResult

from .readout_page import RELATION, STRICT, SWAP, apart_of, ends, shown, values, with_interval

COUNT, NEGATION = ("world-count", "group"), ("world-negation", "group")
TEXTURE, BINDING = ("world-texture", "group"), ("world-binding", "group")
ORDER, FOUND = ("world-order", "accuracy"), ("world-retrieval", "text_to_image@1")
COLOURLESS = "tiny-8"
"""Where the decoder did not learn colours."""


@pytest.fixture(scope="module")
def curves(results: list[ArmResult]) -> dict[str, Curve]:
    return learned_of(PATCHES, results)


def leap(curve: Curve) -> tuple[int, int]:
    """The looks between which it rose most."""
    return max(pairwise(curve), key=lambda two: curve[two[1]] - curve[two[0]])


def test_who_was_asked_on_the_way(results: list[ArmResult], curves: dict[str, Curve]) -> None:
    every = {one.base for one in results if one.arm == PATCHES}
    assert every - set(curves) == {"tiny-5", "tiny-6"}
    assert set(learned_of(TOKEN, results)) == every
    looks = {tuple(curve) for curve in (*curves.values(), *learned_of(TOKEN, results).values())}
    assert looks == {tuple(range(2_000, 20_001, 2_000))}


def test_the_last_look_is_the_result(results: list[ArmResult], curves: dict[str, Curve]) -> None:
    for one in results:
        if one.arm == PATCHES and one.base in curves:
            asked = curves[one.base][20_000]
            assert asked == pytest.approx(one.numbers["world-relation"]["original"], abs=5e-3)


def test_when_it_leaps(curves: dict[str, Curve], words: str) -> None:
    by: dict[int, list[str]] = {}
    for base, curve in curves.items():
        by.setdefault(leap(curve)[1], []).append(base)
    assert by == {
        8_000: ["tiny-0", "tiny-7", "tiny-10"],
        10_000: ["tiny-9", "tiny-11"],
        12_000: ["tiny-8"],
    }
    assert (
        "by step 8,000 on `tiny-0`, `tiny-7` and `tiny-10`, by 10,000 on `tiny-9` and `tiny-11`, "
        "by 12,000 on `tiny-8`."
    ) in words
    assert {leap(curve)[0] for curve in curves.values()} == {6_000, 8_000, 10_000}
    assert "all at once, after 6,000 to 12,000 steps" in words


def test_how_far_it_leaps_and_what_is_before_and_after(
    curves: dict[str, Curve], words: str
) -> None:
    rises, before, after = [], [], []
    for base, curve in curves.items():
        first, then = leap(curve)
        rises.append(100 * (curve[then] - curve[first]))
        before += [(100 * share, base, step) for step, share in curve.items() if step <= first]
        after.append(100 * (curve[20_000] - curve[then]))
    assert f"Later it gains {shown(max(after))} at most." in words
    reached = [100 * curve[leap(curve)[1]] for curve in curves.values()]
    assert f"rises to {min(reached):.0f} percent or more between two looks at 6,000 to" in words
    assert f"rises by {ends(rises, 0)} points between two looks:" in words
    most = max(before)
    assert most[1:] == ("tiny-0", 6_000)
    rest = ends([share for share, *_ in before if share < most[0]])
    assert (
        f"it has {rest} at every look ({shown(most[0])} on `tiny-0`, just before), after it up to "
        f"{shown(max(after))} more."
    ) in words


def test_one_token_stays_a_coin(results: list[ArmResult], words: str) -> None:
    found = values(results, TOKEN, *RELATION)
    assert f"after as many steps ({ends(found)})" in words
    looks = [100 * one for curve in learned_of(TOKEN, results).values() for one in curve.values()]
    assert f"was between {shown(min(looks))} and {shown(max(looks))} at every look" in words
    above = with_interval(apart_of(results, PATCHES, TOKEN))
    assert f"`decoder-long` is {above} points above `decoder-cls-long`" in words
    against = with_interval(apart_of(results, TOKEN, "base"))
    assert f"which has {shown(mean(found))} ({against} against cosine)" in words


def test_one_token_knows_things_and_binds_nothing(results: list[ArmResult], words: str) -> None:
    assert f"it finds {ends(values(results, TOKEN, *FOUND))} % of texts" in words
    assert f"it binds no colours either ({ends(values(results, TOKEN, *SWAP))})" in words
    lost = with_interval(apart_of(results, TOKEN, PATCHES, SWAP))
    assert f"Colours fall by {lost.removeprefix('-')} without patches" in words


def test_colours_are_learned_apart(results: list[ArmResult], words: str) -> None:
    own = [one for one in results if one.arm == PATCHES and one.base == COLOURLESS]
    rest = [one for one in results if one.arm == PATCHES and one.base != COLOURLESS]

    def both(asked: tuple[str, str]) -> tuple[str, str]:
        return shown(values(own, PATCHES, *asked)[0]), ends(values(rest, PATCHES, *asked))

    assert len(rest) == 7
    lost, kept = both(SWAP)
    assert (
        f"have {kept} on seven bases and {lost} on `tiny-8`, where relations have "
        f"{both(RELATION)[0]}."
    ) in words
    for said, asked in (("`world-binding` (group) has", BINDING), ("`world-order`", ORDER)):
        alone, others = both(asked)
        assert f"{said} {alone} ({others}" in words


def test_decoders_that_count_and_deny_hardly_more(results: list[ArmResult], words: str) -> None:
    assert "Decoders of 6,000 steps, or on one token, have hardly more." in words
    for asked in (COUNT, NEGATION, TEXTURE):
        longer = mean(values(results, PATCHES, *asked))
        assert max(mean(values(results, arm, *asked)) for arm in ("decoder", TOKEN)) < longer + 3


def test_vlm2vec_from_the_longer_decoder(results: list[ArmResult], words: str) -> None:
    (relation,), (strict,), (colours,) = (
        values(results, "vlm2vec-long", *asked) for asked in (RELATION, STRICT, SWAP)
    )
    before = [shown(values(results, "vlm2vec", *asked)[0]) for asked in (RELATION, STRICT)]
    assert (
        f"relations {shown(relation)} ({before[0]} from the shorter decoder), strict pairs "
        f"{shown(strict)} ({before[1]}), exchanged colours {shown(colours)}, though"
    ) in words
    assert values(results, PATCHES, *SWAP)[0] > 99
