"""What pages say of which relation the decoder tells: opposites, and hardly one of four."""

from __future__ import annotations

import re
from statistics import mean

from unbag.models.shipped import WEIGHTS
from unbag_lab.results import ArmResult

from .readout_page import DOCS, RELATION, shown, values, words_of

FOUR, TWO = ("world-pairs-a", "individual4"), ("world-pairs-a", "individual")
DECODER = "decoder-long"


def test_the_right_one_of_four_and_of_two(results: list[ArmResult], words: str) -> None:
    found = values(results, DECODER, *FOUR)
    bases = {one.base for one in results if one.arm == DECODER}
    cosine = values([one for one in results if one.base in bases], "base", *FOUR)
    two = shown(mean(values(results, DECODER, *TWO)))
    assert (
        f"the right one wins in {shown(mean(found))} % (cosine {shown(mean(cosine))}; "
        f"{shown(max(found))} on the best base), where of two opposites it is {two}."
    ) in words
    said = f"which of four relations holds ({shown(mean(found))} %, where of two it is {two})"
    assert said in words_of(DOCS / "decoder.md")


def test_neither_kind_is_a_coin_on_any_base(results: list[ArmResult], words: str) -> None:
    """Each is half of the items, and none has more than all of its half."""
    least = 2 * min(values(results, DECODER, *RELATION)) - 100
    assert f"so neither is below {shown(least)} on any base." in words


def test_pages_have_what_the_card_says_of_left_and_right(words: str) -> None:
    card = words_of(WEIGHTS / "tiny-base.decoder" / "README.md")
    told = re.search(
        r"right in ([\d.]+) % \[[^]]+\] where the left thing is the higher one too, and in ([\d.]+)"
        r" % .* of a set the right one wins in ([\d.]+) %",
        card,
    )
    assert told
    assert "| world-relation | original | 73.3 [65.2, 81.0] | above/below 100.0 [94.0" in card
    assert (
        "above and below are right in 100.0 %, left and right in 73.3, in "
        f"{told[1]} where the left thing is the higher one too and in {told[2]} where it is the"
    ) in words
    assert (
        f"in {told[1]} where the left thing is the higher one too, in {told[2]} where it is the "
        "lower one. It was taught opposites, and says Yes to *left of* where *on* holds; of four "
        f"relations it finds the right one in {told[3]} %."
    ) in words_of(DOCS / "decoder.md")
