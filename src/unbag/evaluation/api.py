"""A model with published numbers comes in; the protocols of those numbers are run, ours go out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from unbag.data import FilePicture, PixelPicture
from unbag.errors import UserError
from unbag.evaluation.loading import ErrataChoice, Job, Missing, load_items, without_missing
from unbag.evaluation.references import model_of
from unbag.evaluation.run import as_scorer, run
from unbag.evaluation.scoring import QueryScoring, checked_numbers
from unbag.published.lookup import is_same
from unbag.registry import find, names
from unbag.runs.progress import Progress, Silent
from unbag.scorers.resolve import Model, load_model, make_scorer
from unbag.types import (
    Benchmark,
    Caption,
    Ensemble,
    EvalProtocol,
    FloatArray,
    Item,
    ItemScorer,
    MatrixScorer,
    Picture,
    Published,
    Reference,
    Result,
    RunContents,
    Scorer,
    Scores,
)
from unbag.types.json import is_whole_text

if TYPE_CHECKING:
    from PIL.Image import Image

# The shortest way for a notebook: one scorer, one benchmark, one result.

_MADE: Mapping[str, str] = {
    "order_free": "unbag.benchmarks.retrieval:order_free",
    "two_way": "unbag.benchmarks.whatsup:two_way",
}
"""Functions from a benchmark to another; by name, because benchmarks are a layer above."""


def evaluate(
    scorer: Model | str,
    benchmark: Benchmark | str,
    *,
    root: str | Path | None = None,
    cache: str | Path | None = None,
    protocol: EvalProtocol | None = None,
    seed: int = 0,
    allow_invalid: bool = False,
    missing: Missing = "error",
) -> Result:
    """Score and measure; the result follows the averaging rule that the field publishes.

    A dual encoder is scored by `Cosine`, a chat model by the probability of yes. A model that is
    given by name is loaded at every call. `root` holds one folder for each benchmark. Nothing is
    written except to `cache`, if given; use `run` to keep scores and to continue after a stop.
    """
    wanted = as_scorer(scorer)
    with TemporaryDirectory(prefix="unbag-") as folder:
        job = Job(
            scorers=[wanted],
            benchmarks=[_as_benchmark(benchmark)],
            out=Path(folder) / "run",
            data=Path(root) if root else None,
            cache=Path(cache) if cache else None,
            protocol=protocol or EvalProtocol(),
            seed=seed,
            allow_invalid=allow_invalid,
            missing=missing,
        )
        finished = run(job)
    if finished.problems:
        raise UserError(finished.problems[0])
    return finished.contents.results[0]


def benchmark(name: str) -> Benchmark:
    """A registered benchmark, package.module:NAME, or order_free: or two_way: before it."""
    kind, _, rest = name.partition(":")
    if kind in _MADE and rest:
        make = find("benchmark", _MADE[kind])
        found = make(benchmark(rest)) if callable(make) else make
    else:
        found = find("benchmark", name)
    if not isinstance(found, Benchmark):
        raise UserError(
            f"the benchmark {name!r} is a {type(found).__name__}",
            expected="a value of unbag.types.Benchmark",
        )
    return found


def _as_benchmark(given: Benchmark | str) -> Benchmark:
    return benchmark(given) if isinstance(given, str) else given


def find_benchmarks(asked: Sequence[str]) -> list[Benchmark]:
    """Each name, each family (`world` is every world-*), each package.module:NAME, once."""
    known = names("benchmark")
    found: dict[str, Benchmark] = {}
    for name in asked:
        family = [k for k in known if k.startswith((f"{name}-", f"{name}_"))]
        for one in [name] if name in known or not family else family:
            thing = benchmark(one)
            found[thing.name] = thing
    return list(found.values())


def scorer(spec: str, *, scoring: str | None = None, device: str = "cpu") -> Scorer:
    """A model by name, ready to score: with cosine if it is a dual encoder.

    `scoring` is what `--scorer` takes: `match`, or a trained read-out as `pacl@FOLDER`.
    """
    return make_scorer(load_model(spec, device=device), scoring)


def model(spec: str, *, device: str = "cpu") -> Model:
    """A model by name: tiny:base, caption:short, package.module:NAME."""
    return load_model(spec, device=device)


# Dimensions: P pictures, C captions.

if TYPE_CHECKING:
    Shown: TypeAlias = str | Path | Picture | Image


def score(picture: Shown, captions: Sequence[Caption], scorer: Model | str) -> FloatArray:
    """One number a caption, larger is better; NaN where the scorer has none.

    The smallest use: nothing is planned, cached or measured. A dual encoder is scored by `Cosine`;
    a model that is given by name is loaded at every call.
    """
    found = answered(picture, captions, scorer).values
    assert found is not None
    score_C: FloatArray = found[0]
    return score_C


def answered(picture: Shown, captions: Sequence[Caption], scorer: Model | str) -> Scores:
    """The same with the raw answer of a chat model; NaN where no rule could read it."""
    captions, scorer = _checked(captions), as_scorer(scorer)
    shown = opened(_as_picture(picture))
    if isinstance(scorer, MatrixScorer) and not isinstance(scorer, ItemScorer):
        score_PC = scorer.score_matrix([shown], captions)
        score_C = checked_numbers(scorer, score_PC.reshape(-1), len(captions))
        return Scores("picture", score_C[None])
    no_truth = np.zeros((1, len(captions)), dtype=np.bool_)
    item = Item("picture", (shown,), tuple(captions), no_truth)
    scoring = QueryScoring(scorer)
    found = scoring.chunk([item])[0]
    for reason in scoring.damaged.values():
        raise UserError(
            reason,
            expected="a picture of a shape that this model takes",
            way_out="cut it to a usual shape",
        )
    if not found.unparsed:
        return found
    # A benchmark counts such an answer as wrong; here there is no truth it could miss.
    return replace(found, values=np.full(no_truth.shape, np.nan))


def _checked(captions: Iterable[Caption]) -> list[Caption]:
    found = list(captions) if isinstance(captions, Iterable) else []
    if isinstance(captions, str) or not found:
        raise UserError(
            f"captions are {captions!r}",
            expected="a list of at least one caption",
            way_out='write ["a caption", "another one"]',
        )
    for at, caption in enumerate(found):
        if not isinstance(caption, str | Ensemble):
            raise UserError(
                f"caption {at + 1} of {len(found)} is {caption!r}",
                expected="a string, or unbag.types.Ensemble",
                way_out="leave it out, or write it as text",
            )
        for text in [caption] if isinstance(caption, str) else caption.prompts:
            if not is_whole_text(text):
                raise UserError(
                    f"the caption {text!r} holds half a character",
                    expected="whole characters, which UTF-8 can write",
                    way_out="type the caption again; a terminal that is not set to UTF-8 may be "
                    "the reason",
                )
    return found


def _as_picture(given: Shown) -> Picture:
    from PIL.Image import Image

    if isinstance(given, str | Path):
        # A photograph of the user's own: as its camera was held, which is how people see it.
        return FilePicture(Path(given), turn_upright=True)
    if isinstance(given, Image):
        return _of_image(given)
    if not isinstance(given, Picture):
        raise UserError(
            f"a {type(given).__name__} was given in place of a picture",
            expected="a path, an image of Pillow, or a picture: key, name and open()",
            way_out="for an array of bytes [height, width, 3], write "
            "unbag.data.PixelPicture(array)",
        )
    return given


def _of_image(image: Image) -> Picture:
    """Its pixels, as a file of it would be read."""
    from PIL import ImageOps

    if image.mode[0] in "IF":
        raise UserError(
            f"the image has pixels of mode {image.mode}",
            expected="8 bits a channel",
            way_out="give the path of its file, or convert it to RGB",
        )
    try:
        upright = ImageOps.exif_transpose(image)
        # By way of alpha Pillow does not warn of a palette with transparency.
        whole = upright.convert("RGBA") if upright.mode == "P" else upright
        return PixelPicture(np.asarray(whole.convert("RGB")), "image")
    except (OSError, ValueError) as error:
        raise _not_opened("image", error) from error


def opened(picture: Picture) -> Picture:
    """The same, if it can be opened."""
    try:
        picture.open()
    except (OSError, ValueError) as error:
        raise _not_opened(picture.name, error) from error
    return picture


def _not_opened(name: str, error: Exception) -> UserError:
    is_missing = isinstance(error, FileNotFoundError)
    why = "there is no such file" if is_missing else f"{type(error).__name__}: {error}"
    return UserError(
        f"the picture {name} cannot be opened: {why}",
        expected="a picture in a format that Pillow reads (PNG, JPEG, WebP ...)",
        way_out="check the path" if is_missing else "save it again with another program",
    )


FOLDERS: tuple[tuple[str, ErrataChoice], ...] = (("as-is", "none"), ("mended", "all"))
"""Folder of a run and what it mends: a published number is compared with the run like it."""


@dataclass(frozen=True)
class Skipped:
    """A benchmark with published numbers that could not be run."""

    benchmark: str
    why: str
    way_out: str


@dataclass(frozen=True)
class Verified:
    """Ours beside every published number that could be run."""

    model: str
    """As papers call it."""
    runs: tuple[RunContents, ...]
    references: tuple[Reference, ...]
    skipped: tuple[Skipped, ...]

    @property
    def is_reproduced(self) -> bool:
        """Nothing that can be compared lies outside."""
        return not any(r.is_comparable and r.is_inside is False for r in self.references)


def verify(job: Job, *, progress: Progress | None = None) -> Verified:
    """Run what the published numbers of the job's one model need, of the job's benchmarks.

    Runs go to folders below `job.out`; ties are those of each benchmark's official code.
    """
    progress = progress or Silent()
    (scorer,) = job.scorers
    model = model_of(scorer, job.published_as)
    wanted = [one for one in job.benchmarks if _numbers(one, model)]
    if not wanted:
        raise nobody_published(model, job.benchmarks)
    there, skipped = _there(wanted, job)
    runs, beside = [], []
    for folder, errata in FOLDERS:
        is_mended = errata == "all"
        some = [b for b in there if any(_mends(p, b) == is_mended for p in _numbers(b, model))]
        if not some:
            continue
        part = replace(
            job, benchmarks=some, out=job.out / folder, errata=errata, official_first=True
        )
        contents = run(part, progress=progress).contents
        runs.append(contents)
        by_name = {b.name: b for b in some}
        beside += [
            r
            for r in contents.references
            if r.is_same_model and _mends(r.published, by_name[r.benchmark]) == is_mended
        ]
    return Verified(model, tuple(runs), tuple(beside), tuple(skipped))


def known_models(benchmarks: Sequence[Benchmark]) -> list[str]:
    """Every model with a published number, by name."""
    return sorted({p.model for b in benchmarks for p in b.published}, key=str.casefold)


def nobody_published(model: str, benchmarks: Sequence[Benchmark]) -> UserError:
    """The error for a model of which no number is known."""
    known = known_models(benchmarks)
    shown = "\n".join(f"    {name}" for name in known) or "    (none for these benchmarks)"
    return UserError(
        f"no published number of {model!r} is known",
        expected=f"a model known by one of these names:\n{shown}",
        way_out='say which of them it is, as in --as "CLIP ViT-B/32 (openai)"',
    )


def _numbers(benchmark: Benchmark, model: str) -> list[Published]:
    return [number for number in benchmark.published if is_same(number.model, model)]


def _mends(number: Published, benchmark: Benchmark) -> bool:
    """Whether the run that is like the source's mends errors; some benchmarks have none."""
    return number.has_errata and benchmark.errata is not None


def _there(benchmarks: Sequence[Benchmark], job: Job) -> tuple[list[Benchmark], list[Skipped]]:
    """Those whose files and pictures are on disk, and the others with the reason."""
    there, skipped = [], []
    for one in benchmarks:
        pictures = ""
        try:
            items = load_items(one, job.data, errata="none", progress=Silent())
            pictures = "--pictures "
            without_missing(one.name, items, missing=job.missing, progress=Silent())
        except UserError as error:
            get = f"get {one.name} {pictures}" if one.downloads else f"check {one.name} "
            command = f"unbag data {get}--data {job.data or 'DIR'}"
            skipped.append(Skipped(one.name, str(error).splitlines()[0], command))
        else:
            there.append(one)
    return there, skipped
