"""Results and what belongs to them, written as JSON objects and read back strictly.

JSON has no NaN: a number that could not be measured is written as null. A missing field or a
wrong type is a `UserError` that names the field; `Fields` reads any other JSON file so, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar, get_args

from unbag.errors import UserError
from unbag.types.benchmarks import Published
from unbag.types.items import Edit
from unbag.types.results import Comparison, EvalProtocol, Failure, Reference, Result, RunRecord
from unbag.types.scores import Estimate, TieRule

T = TypeVar("T")
JsonObject = dict[str, object]
"""An object as the json module writes and reads it."""


def result_to_json(result: Result) -> JsonObject:
    """A result without its run record, which is written once a run and not once a result."""
    return {
        "benchmark": result.benchmark,
        "scorer": result.scorer,
        "protocol": protocol_to_json(result.protocol),
        "aggregate": result.aggregate,
        "headline": result.headline,
        "about": result.about,
        "is_blind": result.is_blind,
        "overall": _estimates_to_json(result.overall),
        "by_tag": {tag: _estimates_to_json(found) for tag, found in result.by_tag.items()},
    }


def result_from_json(
    value: object, *, run: RunRecord | None = None, where: str = "result"
) -> Result:
    """The result that `result_to_json` wrote, with the record of its run if one is given."""
    fields = Fields.of(value, where)
    return Result(
        benchmark=fields.text("benchmark"),
        scorer=fields.text("scorer"),
        protocol=fields.read("protocol", lambda v, w: protocol_from_json(v, where=w)),
        aggregate=fields.text("aggregate"),
        headline=fields.text("headline"),
        overall=fields.read("overall", _estimates_from_json),
        by_tag=fields.mapping("by_tag", _estimates_from_json),
        is_blind=fields.truth("is_blind"),
        about=fields.text("about"),
        run=run,
    )


def protocol_to_json(protocol: EvalProtocol) -> JsonObject:
    """Every field of a protocol."""
    return {
        "ties": protocol.ties,
        "tie_eps": protocol.tie_eps,
        "scoring": protocol.scoring,
        "prompt": protocol.prompt,
        "errata": protocol.errata,
        "confidence": protocol.confidence,
        "resamples": protocol.resamples,
    }


def protocol_from_json(value: object, *, where: str = "protocol") -> EvalProtocol:
    """The protocol that `protocol_to_json` wrote."""
    fields = Fields.of(value, where)
    return EvalProtocol(
        ties=fields.read("ties", _tie_rule),
        tie_eps=fields.number("tie_eps"),
        scoring=fields.text("scoring"),
        prompt=fields.text("prompt"),
        errata=fields.text("errata"),
        confidence=fields.number("confidence"),
        resamples=fields.whole("resamples"),
    )


def _tie_rule(value: object, where: str) -> TieRule:
    for rule in get_args(TieRule):
        if value == rule:
            known: TieRule = rule
            return known
    raise wrong(where, found=value, expected=f"one of {', '.join(get_args(TieRule))}")


def _estimates_to_json(estimates: Mapping[str, Estimate]) -> JsonObject:
    return {metric: estimate_to_json(estimate) for metric, estimate in estimates.items()}


def _estimates_from_json(value: object, where: str) -> dict[str, Estimate]:
    return as_mapping(value, where, of=estimate_from_json)


def estimate_to_json(estimate: Estimate) -> JsonObject:
    """Every field of an estimate, as fractions."""
    return {
        "value": _plain(estimate.value),
        "low": _plain(estimate.low),
        "high": _plain(estimate.high),
        "n": estimate.n,
        "ties": estimate.ties,
        "invalid": estimate.invalid,
        "unparsed": estimate.unparsed,
        "chance": _maybe(estimate.chance),
        "chance_independent": _maybe(estimate.chance_independent),
        "interval": estimate.interval,
        "is_rate": estimate.is_rate,
    }


def estimate_from_json(value: object, where: str = "estimate") -> Estimate:
    """The estimate that `estimate_to_json` wrote."""
    fields = Fields.of(value, where)
    return Estimate(
        value=fields.number("value"),
        low=fields.number("low"),
        high=fields.number("high"),
        n=fields.whole("n"),
        ties=fields.whole("ties"),
        invalid=fields.whole("invalid"),
        unparsed=fields.whole("unparsed"),
        chance=fields.maybe("chance"),
        chance_independent=fields.maybe("chance_independent"),
        interval=fields.text("interval"),
        is_rate=fields.truth("is_rate"),
    )


def record_to_json(record: RunRecord) -> JsonObject:
    """Every field of a run record."""
    return {
        "command": record.command,
        "started": record.started,
        "seed": record.seed,
        "device": record.device,
        "versions": dict(record.versions),
        "fingerprints": dict(record.fingerprints),
        "damaged": list(record.damaged),
        "truncated": dict(record.truncated),
        "left_out": dict(record.left_out),
        "notes": {name: list(found) for name, found in record.notes.items()},
        "incomplete": {name: list(found) for name, found in record.incomplete.items()},
        "trained_on": {name: list(found) for name, found in record.trained_on.items()},
    }


def record_from_json(value: object, *, where: str = "record") -> RunRecord:
    """The record that `record_to_json` wrote."""
    fields = Fields.of(value, where)
    return RunRecord(
        command=fields.text("command"),
        started=fields.text("started"),
        seed=fields.whole("seed"),
        device=fields.text("device"),
        versions=fields.mapping("versions", as_text),
        fingerprints=fields.mapping("fingerprints", as_text),
        damaged=fields.texts("damaged"),
        truncated=fields.mapping("truncated", as_whole),
        left_out=fields.mapping("left_out", as_whole),
        notes=fields.mapping("notes", _texts),
        incomplete=fields.mapping("incomplete", _texts),
        trained_on=fields.mapping("trained_on", _texts),
    )


def _texts(value: object, where: str) -> tuple[str, ...]:
    return as_tuple(value, where, of=as_text)


def comparison_to_json(comparison: Comparison) -> JsonObject:
    """Every field of a comparison."""
    return {
        "benchmark": comparison.benchmark,
        "metric": comparison.metric,
        "first": comparison.first,
        "second": comparison.second,
        "difference": _plain(comparison.difference),
        "low": _plain(comparison.low),
        "high": _plain(comparison.high),
        "n": comparison.n,
        "p_value": _maybe(comparison.p_value),
        "p_holm": _maybe(comparison.p_holm),
        "test": comparison.test,
        "aggregate": comparison.aggregate,
    }


def comparison_from_json(value: object, *, where: str = "comparison") -> Comparison:
    """The comparison that `comparison_to_json` wrote."""
    fields = Fields.of(value, where)
    return Comparison(
        benchmark=fields.text("benchmark"),
        metric=fields.text("metric"),
        first=fields.text("first"),
        second=fields.text("second"),
        difference=fields.number("difference"),
        low=fields.number("low"),
        high=fields.number("high"),
        n=fields.whole("n"),
        p_value=fields.maybe("p_value"),
        p_holm=fields.maybe("p_holm"),
        test=fields.text("test"),
        aggregate=fields.text("aggregate"),
    )


def reference_to_json(reference: Reference) -> JsonObject:
    """Every field of a reference, and what follows from them for other programs."""
    return {
        "benchmark": reference.benchmark,
        "scorer": reference.scorer,
        "published": published_to_json(reference.published),
        "ours": estimate_to_json(reference.ours),
        "is_same_model": reference.is_same_model,
        "is_comparable": reference.is_comparable,
        "is_inside": reference.is_inside,
        "doubts": list(reference.doubts),
    }


def reference_from_json(value: object, *, where: str = "reference") -> Reference:
    """The reference that `reference_to_json` wrote; what follows from it is computed again."""
    fields = Fields.of(value, where)
    return Reference(
        benchmark=fields.text("benchmark"),
        scorer=fields.text("scorer"),
        published=fields.read("published", published_from_json),
        ours=fields.read("ours", estimate_from_json),
        is_same_model=fields.truth("is_same_model"),
        is_comparable=fields.truth("is_comparable"),
        doubts=fields.texts("doubts"),
    )


def published_to_json(published: Published) -> JsonObject:
    """Every field of a published number, as a fraction."""
    return {
        "model": published.model,
        "metric": published.metric,
        "value": published.value,
        "source": published.source,
        "aggregate": published.aggregate,
        "scoring": published.scoring,
        "has_errata": published.has_errata,
        "digits": published.digits,
        "note": published.note,
    }


def published_from_json(value: object, where: str = "published") -> Published:
    """The published number that `published_to_json` wrote."""
    fields = Fields.of(value, where)
    return Published(
        model=fields.text("model"),
        metric=fields.text("metric"),
        value=fields.number("value"),
        source=fields.text("source"),
        aggregate=fields.text("aggregate"),
        scoring=fields.text("scoring"),
        has_errata=fields.truth("has_errata"),
        digits=fields.whole("digits"),
        note=fields.text("note"),
    )


def failure_to_json(failure: Failure) -> JsonObject:
    """Every field of a failure; a score that is no finite number is null."""
    return {
        "benchmark": failure.benchmark,
        "scorer": failure.scorer,
        "item": failure.item,
        "metric": failure.metric,
        "pictures": list(failure.pictures),
        "captions": list(failure.captions),
        "kinds": list(failure.kinds),
        "truth": [list(row) for row in failure.truth],
        "scores": [[_plain(score) for score in row] for row in failure.scores],
        "tags": dict(failure.tags),
    }


def failure_from_json(value: object, *, where: str = "failure") -> Failure:
    """The failure that `failure_to_json` wrote; its matrices must fit pictures and captions."""
    fields = Fields.of(value, where)
    failure = Failure(
        benchmark=fields.text("benchmark"),
        scorer=fields.text("scorer"),
        item=fields.text("item"),
        metric=fields.text("metric"),
        pictures=fields.texts("pictures"),
        captions=fields.texts("captions"),
        kinds=fields.texts("kinds"),
        truth=fields.many("truth", _truth_row),
        scores=fields.many("scores", _score_row),
        tags=fields.mapping("tags", as_text),
    )
    for name, matrix in (("truth", failure.truth), ("scores", failure.scores)):
        if [len(row) for row in matrix] != [len(failure.captions)] * len(failure.pictures):
            raise UserError(
                f"field {fields.path(name)} has rows of {[len(row) for row in matrix]} entries",
                expected=f"pictures x captions = {len(failure.pictures)} rows of "
                f"{len(failure.captions)}",
                way_out="the file was changed; run again to write it anew",
            )
    return failure


def _truth_row(value: object, where: str) -> tuple[bool, ...]:
    return as_tuple(value, where, of=as_truth)


def _score_row(value: object, where: str) -> tuple[float, ...]:
    return as_tuple(value, where, of=as_number)


def edit_to_json(edit: Edit) -> dict[str, object]:
    """An edit as it is written into every form of collection."""
    return {
        "text": edit.text,
        "kind": edit.kind,
        "keeps_meaning": edit.keeps_meaning,
        "changes": [list(change) for change in edit.changes],
    }


def _plain(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None


def _maybe(number: float | None) -> float | None:
    return None if number is None else _plain(number)


class Fields(NamedTuple):
    """An object being read, and the path to it for messages."""

    values: Mapping[str, object]
    where: str

    @classmethod
    def of(cls, value: object, where: str) -> Fields:
        """Open an object; anything else is refused."""
        if not isinstance(value, dict):
            raise wrong(where, found=value, expected="an object")
        return cls(value, where)

    def path(self, name: str) -> str:
        """What a message calls this field."""
        return f"{self.where}.{name}"

    def read(self, name: str, read: Callable[[object, str], T]) -> T:
        """Read one field with a function such as `as_text`."""
        if name not in self.values:
            raise UserError(
                f"field {self.path(name)} is missing",
                expected=f"an object with the field {name!r}",
                way_out="check the file: it was cut short, changed, or written by another version",
            )
        return read(self.values[name], self.path(name))

    def text(self, name: str) -> str:
        """A string field."""
        # Files have millions of them: the path is put together only for a message.
        value = self.values.get(name)
        if isinstance(value, str) and value.isascii():
            return value
        return self.read(name, as_text)

    def whole(self, name: str) -> int:
        """An integer field."""
        return self.read(name, as_whole)

    def truth(self, name: str) -> bool:
        """A true-or-false field."""
        return self.read(name, as_truth)

    def number(self, name: str) -> float:
        """A number field; null is NaN."""
        return self.read(name, as_number)

    def maybe(self, name: str) -> float | None:
        """A number field; null is None."""
        return self.read(name, as_maybe)

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings."""
        value = self.values.get(name)
        if isinstance(value, list) and all(
            isinstance(entry, str) and entry.isascii() for entry in value
        ):
            return tuple(value)
        return self.many(name, as_text)

    def many(self, name: str, of: Callable[[object, str], T]) -> tuple[T, ...]:
        """A list field, each entry read by `of`."""
        return self.read(name, lambda value, where: as_tuple(value, where, of=of))

    def mapping(self, name: str, of: Callable[[object, str], T]) -> dict[str, T]:
        """An object field, each value read by `of`."""
        return self.read(name, lambda value, where: as_mapping(value, where, of=of))


def as_text(value: object, where: str) -> str:
    """A string and nothing else."""
    if not isinstance(value, str):
        raise wrong(where, found=value, expected="a text")
    if not is_whole_text(value):
        raise wrong(where, found=value, expected="whole characters: this holds half of one")
    return value


def as_whole(value: object, where: str) -> int:
    """An integer; true and false are none."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong(where, found=value, expected="a whole number")
    return value


def as_truth(value: object, where: str) -> bool:
    """True or false, never 0 or 1."""
    if not isinstance(value, bool):
        raise wrong(where, found=value, expected="true or false")
    return value


def as_number(value: object, where: str) -> float:
    """A number; null stands for NaN, which JSON does not have."""
    if value is None:
        return float("nan")
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise wrong(where, found=value, expected="a number or null")
    return float(value)


def as_maybe(value: object, where: str) -> float | None:
    """A number, or None where there is no such number."""
    return None if value is None else as_number(value, where)


def as_tuple(value: object, where: str, *, of: Callable[[object, str], T]) -> tuple[T, ...]:
    """A list whose entries are all read by `of`."""
    if not isinstance(value, list):
        raise wrong(where, found=value, expected="a list")
    return tuple(of(entry, f"{where}[{at}]") for at, entry in enumerate(value))


def as_mapping(value: object, where: str, *, of: Callable[[object, str], T]) -> dict[str, T]:
    """An object whose values are all read by `of`."""
    if not isinstance(value, dict):
        raise wrong(where, found=value, expected="an object")
    return {str(key): of(entry, f"{where}.{key}") for key, entry in value.items()}


def is_whole_text(text: str) -> bool:
    """Whether UTF-8 can write it: an escape in JSON may name half of a surrogate pair."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def wrong(where: str, *, found: object, expected: str) -> UserError:
    """The error for a value that does not fit, naming the field it stands in."""
    shown = _KINDS.get(type(found)) or repr(found)
    return UserError(
        f"field {where} is {shown}",
        expected=expected,
        way_out="check the file: it was cut short, changed, or written by another version",
    )


_KINDS = {dict: "an object", list: "a list", type(None): "null"}
