"""A model comes in; whether order, binding and negation can be read from its captions goes out."""

from __future__ import annotations

from unbag.engine.progress import Progress
from unbag.probes.extract_captions import caption_sheets
from unbag.probes.extract_places import caption_places
from unbag.probes.extract_probe import NO_VECTORS
from unbag.probes.extract_readings import CAPTION_SIDE, read_label, read_twin
from unbag.probes.extract_said import say_of
from unbag.probes.finding import Finding, Options, Quantity
from unbag.probes.material import Material
from unbag.probes.plots import Plot
from unbag.probes.probe import Probe, Subject, Verdict

NAME = "extract_text"
CAPTIONS, ALL_CAPTIONS = 384, 1_152
"""Of each label, by default and in full."""
SAID = ("order", "binding", "negation")
NO_WORDS = "the captions are those of the world: diagnose on the world's pictures as well"
ABOUT = """\
Is order in the text vector, and in its words? (methods.md 4.3, on the side of text.) Captions come
in sets of exactly the same words, so a bag of words is at chance: "a red star left of a blue cup"
and "a blue cup left of a red star" (order: is the shape of the first hand of cards named first);
colours exchanged or not, named in both orders (binding); "a red star without a blue cup" and its
turn (negation: which one is denied; the world denies what stands last, so this is order too); in
full also "left of" and "right of" in both orders (relation: which one is said to be on the left).
Readers, controls and intervals are those of `extract`, with words in place of patches; pairs of
shapes are never in both parts. Limits: positions are given to every text tower, so order is easily
read from its words, even with random weights: what matters is whether it reaches the vector that
is compared; what can be read need not be used."""


def ask(subject: Subject, material: Material, options: Options, progress: Progress) -> Finding:
    """Write captions, encode, read; skipped without vectors or where the world is not asked for."""
    if not material.is_world:
        return Finding(NAME, skipped=f"{material.about}: {NO_WORDS}")
    if subject.space is None:
        return Finding(NAME, skipped=f"{subject.name} {NO_VECTORS}")
    count = ALL_CAPTIONS if options.is_full else CAPTIONS
    sheets = caption_sheets(seed=options.seed, captions=count, is_full=options.is_full)
    made: list[Quantity] = []
    plots: list[Plot] = []
    notes: list[str] = []
    with progress.task(f"{subject.name}: readers of captions", len(sheets)) as advance:
        for sheet in sheets:
            places = caption_places(subject.space, sheet.given, options)
            notes += places.notes
            for label in sheet.labels:
                found, drawn = read_label(places, label, sheet.groups, CAPTION_SIDE, options)
                made += found
                plots += drawn
                if subject.twin is not None and subject.twin.space is not None:
                    twin_ND = subject.twin.space.captions(sheet.given)
                    made += read_twin(twin_ND, label, sheet.groups, options)
            advance(1)
    notes = list(dict.fromkeys(notes))
    return Finding(NAME, tuple(made), f"{SAID[0]}, projected, linear", tuple(plots), tuple(notes))


def say(finding: Finding) -> Verdict:
    """Where order, binding and negation can be read."""
    return say_of(finding, SAID, CAPTION_SIDE)


EXTRACT_TEXT = Probe(
    NAME,
    "Are order, binding and negation in the text vector?",
    ABOUT,
    ask,
    say,
)
