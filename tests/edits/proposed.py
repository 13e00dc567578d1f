"""What a rule or a kind proposes for one caption, as finished captions."""

from __future__ import annotations

from unbag.edits.kinds import ByRule, EditParts, Rule, apply, find_kinds, finished
from unbag.edits.parsing import Parser


def by_rule(parser: Parser, rule: Rule, caption: str) -> list[str]:
    [parsed] = parser([caption])
    return [apply(caption, finished(parsed, changes)) for changes in rule(parsed)]


def by_kind(parser: Parser, kind: str, caption: str) -> list[str]:
    """Of a registered kind that works by a rule."""
    [found] = find_kinds([kind])
    editor = found.editor(EditParts())
    assert isinstance(editor, ByRule)
    return by_rule(parser, editor.rule, caption)
