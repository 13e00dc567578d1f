"""What `unbag edit` is asked to do, and what makes two jobs the same."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from unbag.captions import pipelines, wordnet
from unbag.captions.filters_named import make_filters
from unbag.captions.kinds import Parts, find_kinds
from unbag.captions.parse import find_parser
from unbag.captions.pipelines import find_installed, is_there
from unbag.corpus.forms import NEGCLIP, check_written
from unbag.corpus.negclip import read_neighbours
from unbag.corpus.runner import Settings
from unbag.corpus.source import Source
from unbag.errors import UserError
from unbag.models.caption_likelihood import find_model
from unbag.models.device import check_device, choose_device
from unbag.registry import names
from unbag.version import __version__

_DECIDING = ("fill", "rewrite", "device")
"""Fields of Parts that decide the output as they are written."""


@dataclass(frozen=True)
class EditJob:
    """A collection to edit, and how."""

    source: Source
    out: Path
    form: str = "jsonl"
    """In which `out` is written; see `unbag.corpus.forms`."""
    kinds: tuple[str, ...] = ("default",)
    parts: Parts = field(default_factory=Parts)
    filters: tuple[str, ...] = ()
    seed: int = 0
    per_kind: int = 1
    workers: int = 1
    """Processes; the output is the same for any number."""
    ray: str = ""
    """Address of a Ray cluster, which does the work instead."""
    leak: str = ""
    """A language model that tries to tell edits from originals; for the summary."""
    neighbours: Path | None = None
    """For NegCLIP's TSV: JSON lines of {"picture", "neighbours"}."""
    chunk: int = 512
    """Captions that are edited and saved together."""

    @property
    def settings(self) -> Settings:
        """What a worker needs to know."""
        return Settings(self.kinds, self.parts, self.filters, self.seed, self.per_kind)

    def check(self) -> None:
        """What can be said before anything is read."""
        if self.chunk < 1 or self.per_kind < 1 or self.workers < 1:
            raise UserError(
                f"chunk {self.chunk}, per_kind {self.per_kind}, workers {self.workers}",
                expected="whole numbers above 0",
            )
        self.source.files()
        check_written(self.source, self.form)
        find_kinds(self.kinds)
        check_device(self.parts.device)
        self._check_models()
        if self.leak:
            # It is asked in this process, when all else is done.
            choose_device(self.parts.device)
        choice = self.parts.pipeline
        place = find_installed() if choice == "auto" else choice
        if place is None or not is_there(place):
            find_parser(choice)
        if self.neighbours and self.form != NEGCLIP:
            raise UserError(
                f"neighbours are given, but the form is {self.form}",
                expected="the form negclip, the only one that holds near pictures",
                way_out="add --format negclip, or leave --neighbours out",
            )
        if self.neighbours:
            read_neighbours(self.neighbours)

    def _check_models(self) -> None:
        """That models which are named are there; they are loaded later."""
        kind, _, place = self.parts.rewrite.partition(":")
        for path in (self.leak, self.parts.fill, place if kind == "hf" else ""):
            if path:
                find_model(path)
        for name in self.filters:
            kind, _, place = name.partition(":")
            if kind in names("filter") and place:
                find_model(place)
            else:
                make_filters([name])

    def asked(self) -> dict[str, Any]:
        """All that decides the output, as plain values: a job that says the same is the same.

        What was found stands for "auto", which may find something else another day.
        """
        source = self.source
        near = Source(str(self.neighbours), "jsonl").fingerprint() if self.neighbours else ""
        return {
            "captions": source.fingerprint(),
            "captions_form": source.form,
            "caption_column": source.caption_column,
            "picture_column": source.picture_column,
            "bad_lines": "skip" if source.skips_bad else "error",
            "limit": source.limit,
            "format": self.form,
            "kinds": [kind.name for kind in find_kinds(self.kinds)],
            "pipeline": pipelines.described(self.parts.pipeline),
            "wordnet": wordnet.described(self.parts.wordnet),
            **{name: asdict(self.parts)[name] for name in _DECIDING},
            "filters": list(self.filters),
            "seed": self.seed,
            "per_kind": self.per_kind,
            "neighbours": near,
            "chunk": self.chunk,
            "version": __version__,
        }
