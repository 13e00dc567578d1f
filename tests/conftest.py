"""Two test processes share two cores: each computes with one thread, its subprocesses too."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from spacy.language import Language

    from .pages import Open, Scheme, Watched

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
# Weights that are read from a file lie elsewhere in memory than their copies, and on some
# processors MKL then adds in another order; tests of equal bits are about what weights say.
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
# Python looks for rubbish after every 700 objects, over and over through some 9,000 tests and all
# libraries at once: a tenth of the time.
gc.set_threshold(50_000, 20, 50)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Embeddings are kept in a folder of this run: what an older version left must not be read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _can_fork() -> None:
    """The first gradient of a process decides whether it may fork others that make gradients.

    After a model was compiled in it, it may not. The lab never compiles before it forks; here tests
    of both share a process.
    """
    import torch

    one = torch.ones(1, requires_grad=True)
    torch.autograd.grad(one.sum(), one)


@pytest.fixture(scope="session", autouse=True)
def _one_pipeline() -> Iterator[None]:
    """The installed pipeline of spaCy is read once, not for every parser: it takes a second.

    Parsers do not change it. A test that looks at the reading puts `load_pipeline` back.
    """
    from unbag.edits import parsing as parse
    from unbag.edits.parsing import find_installed, load_pipeline, quicken

    keep = cache(load_pipeline)

    def load(place: str, **how: Any) -> Language:
        return (keep if place == find_installed() else load_pipeline)(place, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parse, "load_pipeline", load)
        # What is quick already cannot be made so again.
        patch.setattr(parse, "quicken", cache(quicken))
        yield


@pytest.fixture(scope="session")
def hf_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A tiny model of transformers by the name of its kind, saved to disk when first asked for."""
    pytest.importorskip("transformers")
    root = tmp_path_factory.mktemp("hf")

    def get(kind: str) -> Path:
        from .models.tiny_hf import save

        folder = root / f"tiny-{kind}"
        if not folder.exists():
            save(kind, folder)
        return folder

    return get


@pytest.fixture(scope="session")
def text_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A tiny text model, `llama` or `bert`, saved to disk when first asked for."""
    pytest.importorskip("transformers")
    root = tmp_path_factory.mktemp("text")

    def get(kind: str) -> Path:
        from .models.tiny_text import save_bert, save_llama

        folder = root / kind
        save = {"llama": save_llama, "bert": save_bert}[kind]
        return folder if folder.exists() else save(folder)

    return get


CHROMIUM = Path("/usr/bin/chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real browser, for pages; the system's own, since nothing is downloaded in tests.

    Of a module, not of the session: while it is open an event loop runs in this thread.
    """
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is not installed, so no page can be opened")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        found = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Opens pages and closes them after the test."""
    from .pages import Watched

    opened: list[Watched] = []

    def open_one(file: Path, width: int = 1280, scheme: Scheme = "light") -> Watched:
        opened.append(Watched(browser, file, width, scheme))
        return opened[-1]

    yield open_one
    for one in opened:
        one.page.close()


@pytest.fixture(autouse=True)
def _no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of pytest-xdist have a width of their own, which would cut tables."""
    monkeypatch.delenv("COLUMNS", raising=False)
