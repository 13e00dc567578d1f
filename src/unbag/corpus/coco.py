"""JSON files of captions in and out: COCO's, Karpathy's, and lists of records; nothing is lost.

Such a file is one value, so it is read whole; all other forms are streamed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from unbag.corpus.edits_read import Edits, check_wanted, edits_in
from unbag.corpus.entries import Caption, Entry, together
from unbag.corpus.json_lines import PICTURES, entry_of
from unbag.corpus.source import Bad, Source, caption_field, json_value, name_in
from unbag.corpus.written import EDITS, Pair, Pairs, what_came
from unbag.errors import UserError
from unbag.types.json_fields import Fields

Json = dict[str, object]


def read(source: Source, bad: Bad) -> Iterator[Entry]:
    """Captions of one picture are one entry, wherever they stand, unless they are very many."""
    found: dict[object, list[Entry]] = {}
    for at, entry in enumerate(_entries(_document(source), source, bad)):
        found.setdefault(entry.picture or at, []).append(entry)
    yield from together(entry for entries in found.values() for entry in entries)


def write(pairs: Pairs, path: Path) -> None:
    """The whole file, with the field `edits` beside every caption that was read."""
    document = _document(pairs.source)
    places = _places(document)
    for pair in pairs:
        _put(pair, places, pairs.source.caption_column)
    with path.open("w", encoding="utf-8") as file:
        json.dump(document, file, ensure_ascii=False)


def _document(source: Source) -> object:
    with source.opened() as file:
        raw = file.read()
    try:
        return json_value(raw, source.name)
    except UserError as error:
        lines = "if it holds one record a line, say --captions-format jsonl"
        raise UserError(error.found, expected=error.expected, way_out=lines) from error


def _entries(document: object, source: Source, bad: Bad) -> Iterator[Entry]:
    names = _names_of_pictures(document, source)
    for at, said in enumerate(_places(document, source)):
        where = f"{source.name}, {_what(document)} {at}"
        try:
            if not isinstance(said, dict):
                raise UserError(f"{where} is {type(said).__name__}", expected="an object")
            entry = _entry(said, at, where, source, names)
        except UserError as error:
            bad(error)
        else:
            yield replace(entry, rest=(at,) * len(entry.captions))


def _entry(said: Json, at: int, where: str, source: Source, names: Json | None) -> Entry:
    if EDITS in said:
        check_wanted(source, where)
    if names is None:
        if "sentences" not in said:
            return entry_of(said, at, where, source)
        return _karpathy(said, at, where, source)
    text = Fields(said, where).text("caption")
    if "image_id" not in said or str(said["image_id"]) not in names:
        raise UserError(
            f"{where}: image_id is {said.get('image_id')!r}, which is not among the images",
            expected="the id of an image of this file",
        )
    picture = str(names[str(said["image_id"])])
    edits = edits_in(said[EDITS], None, where) if EDITS in said else ()
    caption = Caption(name_in(said, ("id",), where) or str(at), text, where)
    return Entry(picture, (caption,), edits=edits)


def _karpathy(said: Json, at: int, where: str, source: Source) -> Entry:
    sentences = said["sentences"]
    if not isinstance(sentences, list) or not all(isinstance(one, dict) for one in sentences):
        raise UserError(f"{where}: sentences is no list of objects", expected="a list of objects")
    captions = []
    edits: Edits = ()
    for number, one in enumerate(sentences):
        if EDITS in one:
            check_wanted(source, where)
            edits += ((),) * (number - len(edits)) + edits_in(one[EDITS], None, where)
        name = name_in(one, ("sentid",), where) or f"{at}#{number}"
        captions.append(Caption(name, Fields(one, where).text("raw"), where))
    if edits:
        edits += ((),) * (len(captions) - len(edits))
    return Entry(name_in(said, PICTURES, where), tuple(captions), edits=edits)


def _names_of_pictures(document: object, source: Source) -> Json | None:
    """Of COCO's form: id to file name. None in other forms."""
    if not isinstance(document, dict) or "annotations" not in document:
        return None
    images = document.get("images", [])
    if not isinstance(images, list) or not all(isinstance(one, dict) for one in images):
        raise UserError(f"{source.name}: images is no list of objects", expected="COCO's form")
    return {
        str(one.get("id")): one.get("file_name") or one.get("coco_url") or str(one.get("id"))
        for one in images
    }


def _places(document: object, source: Source | None = None) -> list[object]:
    """The objects that captions stand in, in order."""
    if isinstance(document, dict):
        document = document.get("annotations", document.get("images"))
    if not isinstance(document, list):
        name = source.name if source else "the file"
        raise UserError(
            f"{name} is no collection of captions",
            expected='COCO\'s {"images", "annotations"}, Karpathy\'s {"images"} with sentences, '
            'or a list of {"image", "caption"}',
        )
    return document


def _what(document: object) -> str:
    if not isinstance(document, dict):
        return "record"
    return "annotation" if "annotations" in document else "image"


def _put(pair: Pair, places: list[object], column: str) -> None:
    """Edits beside the captions; a list of captions gets a list of lists."""
    by_place: dict[object, list[dict[str, object]]] = {}
    for place, one in pair.rows():
        by_place.setdefault(place, []).append(what_came(one))
    for place, several in by_place.items():
        assert isinstance(place, int)
        said = places[place]
        assert isinstance(said, dict)
        if "sentences" in said:
            for sentence, came in zip(said["sentences"], several, strict=True):
                sentence |= came
        elif isinstance(said.get(caption_field(said, column)), list):
            said[EDITS] = [came[EDITS] for came in several]
            if any("skipped" in came for came in several):
                said["skipped"] = [came.get("skipped", "") for came in several]
        else:
            said |= several[0]
