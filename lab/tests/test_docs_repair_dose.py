"""How much of each family of edits is about relations is what the repair page says."""

from pathlib import Path

from unbag.readouts.data import RELATION, world_rows

PAGE = Path(__file__).parents[1] / "docs" / "repair-on-the-world.md"


def test_doses_of_families_are_those_of_captions_of_training() -> None:
    words = " ".join(PAGE.read_text(encoding="utf-8").split())
    said = [
        pair
        for rows in world_rows(5_120)
        for pair in zip(rows.captions, rows.negatives, strict=True)
    ]
    swapped = [(caption, edits) for caption, edits in said if edits[0]]
    turned = [1 for caption, edits in swapped if edits[RELATION] and _turns(caption, edits[0])]
    replaced = [place for _, edits in said for place, edit in enumerate(edits) if edit and place]
    assert f"words {100 * len(turned) / len(swapped):.0f} % put the two things of" in words
    share = 100 * replaced.count(RELATION) / len(replaced)
    assert f"another word {share:.0f} % replace a relation (5,120 captions" in words


def _turns(caption: str, edit: str | None) -> bool:
    """Whether what stands before and after some words has changed places."""
    said, found = caption.split(), (edit or "").split()
    ends = [(i, j) for i in range(1, len(said)) for j in range(i + 1, len(said))]
    return any(said[j:] + said[i:j] + said[:i] == found for i, j in ends)
