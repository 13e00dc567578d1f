"""Questions of the world, with numbers of their own for two kinds of relation triples.

Things exchanged (with inverse relations as positives) and relations replaced (with synonyms) are
one benchmark; whether a repair carries over from one kind of edit to the other shows only apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from unbag.lab.questions import Questions, Score, _Asked, _measured

EXCHANGED = "world-relation/exchanged"
REPLACED = "world-relation/replaced"
_WHOLE = "world-relation"
_FAMILIES: Mapping[str, str] = MappingProxyType(
    {EXCHANGED: "relation/", REPLACED: "replace_relation/"}
)
"""How the ids of their items begin."""


class FamilyQuestions(Questions):
    """Every benchmark of the world, and both families of relations by themselves."""

    def measured(self, score: Score) -> dict[str, dict[str, float]]:
        """By benchmark or family, and metric."""
        found = super().measured(score)
        for asked in self._asked:
            if asked.benchmark.name == _WHOLE:
                for name, begins in _FAMILIES.items():
                    found[name] = _measured(_only(asked, begins), score)
        return found


def _only(asked: _Asked, begins: str) -> _Asked:
    at = [n for n, item in enumerate(asked.items) if item.id.startswith(begins)]
    return replace(
        asked,
        items=[asked.items[n] for n in at],
        pictures=[asked.pictures[n] for n in at],
        captions=[asked.captions[n] for n in at],
    )
