"""What the page on read-outs says of rows that were learned by heart, and what follows from it."""

from __future__ import annotations

from pathlib import Path
from statistics import mean

import pytest

from unbag.readouts.data import RELATION, world_rows
from unbag_lab.claims import LEAST_FIT
from unbag_lab.experiments.readers import READERS, ReadoutSettings
from unbag_lab.results import RESULTS, ArmResult, read_results

from .readout_page import DOCS, ends, values, words_of


@pytest.fixture(scope="module")
def relations(results: list[ArmResult]) -> dict[str, float]:
    """By base, the share of the rows learned by heart that state a relation."""
    settings, found = ReadoutSettings(), {}
    for base in {one.base for one in results}:
        rows = world_rows(settings.fit_rows, seed=settings.seed_of(Path(base)))
        judged = [own for some in rows for own in some.negatives if any(own)]
        found[base] = mean(own[RELATION] is not None for own in judged)
    return found


def test_the_bar_is_just_above_a_reader_without_relations(
    relations: dict[str, float], words: str
) -> None:
    low, high = min(relations.values()), max(relations.values())
    assert f"a third ({100 * low:.0f} to {100 * high:.0f} %) state one" in words
    without = (1 - high / 2, 1 - low / 2)
    assert without[1] < LEAST_FIT
    assert "has at most {:.0f} to {:.0f} %.".format(*(100 * one for one in without)) in words


def test_of_rows_with_a_relation_so_many_were_learned(results: list[ArmResult], words: str) -> None:
    """By arms that were run after this was first asked, of rows that are taught with others."""
    found: dict[str, list[float]] = {}
    for one in results:
        share = one.numbers.get("fit", {}).get("few relation")
        if share is not None:
            found.setdefault(_kind(one.arm), []).append(100 * share)
    assert set(found) == {"pooled", "dcsm", "cls_eos", "pacl", "text", "sparc"}
    ends = {kind: f"{min(own):.0f} to {max(own):.0f}" for kind, own in found.items()}
    assert {*found["pooled"], *found["text"]} == {100}
    assert (
        f"the pooled reader has 100 % of them, DCSM {ends['dcsm']} %, PACL {ends['pacl']} % (100 % "
        f"with MiniLM) and SPARC {ends['sparc']} %."
    ) in words
    assert f"DCSM with `cls_eos` has {ends['cls_eos']} %: it hardly can." in words


def test_with_the_row_and_the_column_alone_it_is_below_the_bar(
    results: list[ArmResult], words: str
) -> None:
    assert "below the bar on both of its bases, so a null of it says little." in words
    few = values(results, "dcsm_fixed-cls_eos-long", "fit", "few")
    assert len(few) == 2
    assert max(few) < 100 * LEAST_FIT
    known = ends(values(results, "dcsm_fixed-cls_eos-long", "fit", "learned relation"), 0)
    assert f"it knows {known} % of the relations that it was taught with." in words


def test_readers_know_taught_rows_hardly_better_than_others(
    results: list[ArmResult], words: str
) -> None:
    apart: dict[str, list[float]] = {}
    for one in results:
        arm = READERS.get(one.arm)
        if arm is not None and not arm.is_random and not arm.is_long:
            fit = one.numbers["fit"]
            apart.setdefault(one.arm, []).append(100 * (fit["learned"] - fit["held"]))
    most = max(mean(found) for found in apart.values())
    assert f"better than others by more than {most:.1f} points" in words


def test_what_the_page_of_decoders_says_of_the_world(results: list[ArmResult]) -> None:
    page = words_of(DOCS / "decoder.md")

    def of(arm: str, bench: str, metric: str) -> str:
        return f"{100 * mean(x.numbers[bench][metric] for x in results if x.arm == arm):.1f}"

    assert f"about relations ({of('decoder', 'world-relation', 'original')}, five bases)" in page
    by_base = ends(values(results, "decoder-long", "world-relation", "original"))
    assert f"after 20,000 it told {by_base} % of them (eight bases)" in page
    one_token = ends(values(results, "decoder-cls-long", "world-relation", "original"))
    assert f"with the pooled vector in place of patches {one_token}" in page
    words, colours = ("world-replace", "original"), ("world-swap", "original")
    bound = values(results, "decoder-long", *colours)
    lost = bound.pop(4)
    assert (
        f"replaced words ({of('decoder-long', *words)}) stayed as cosine has them, exchanged "
        f"colours on seven bases of eight ({ends(bound)}; {lost:.1f} on `tiny-8`)"
    ) in page
    counts, denials = ("world-count", "group"), ("world-negation", "group")
    assert f"counting has {of('decoder-long', *counts)} and denial" in page
    assert f"denial {of('decoder-long', *denials)} of groups" in page
    alone = [one for one in read_results(RESULTS / "priors.json") if one.arm == "even"]
    right = 100 * mean(one.numbers["world-pairs-a"]["individual"] for one in alone)
    assert f"it had {right:.1f} % of single images right" in page


def _kind(arm: str) -> str:
    if READERS[arm].text:
        return "text"
    if "cls_eos" in arm:
        return "cls_eos"
    return READERS[arm].readout.partition("_")[0]
