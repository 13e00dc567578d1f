"""`--compile`: it reaches the model, changes no score, and a failure of the compiler is said.

With the compiler's first stage only, which follows the model's code: its second, which writes and
builds C++, takes minutes for a LLaVA. `docs/reference/models.md` has what it gave by hand.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from unbag.cli import main
from unbag.data import PixelImage
from unbag.errors import UnbagError
from unbag.models.loading import Placement, load_model
from unbag.scorers import make_scorers
from unbag.types import Query

Folder = Callable[[str], Path]
Backend = Callable[..., Any]
LOADER = """
from unbag.models.tiny import load

def made(*, compiles=False):
    print("compiles:", compiles)
    return load("base")
"""


def test_option_reaches_the_loader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "compile_models.py").write_text(LOADER)
    monkeypatch.chdir(tmp_path)
    given = ["run", "--model", "compile_models:made", "--bench", "world-texture", "--no-cache"]
    assert main([*given, "--out", "plain"]) == 0
    assert main([*given, "--out", "fast", "--compile"]) == 0
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("compiles")]
    assert said == ["compiles: False", "compiles: True"]


@pytest.fixture
def compiled_by(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Backend], list[Any]]]:
    """A backend for torch.compile; gives the list of the graphs that it is handed."""

    def set_backend(backend: Backend) -> list[Any]:
        graphs: list[Any] = []
        compile_ = torch.compile

        def watched(graph: Any, inputs: Any) -> Any:
            graphs.append(graph)
            return backend(graph, inputs)

        # Modules that compile themselves come here too.
        monkeypatch.setattr(torch, "compile", partial(compile_, backend=watched))
        return graphs

    yield set_backend
    torch.compiler.reset()


def scores(folder: Path, image: PixelImage, *, compiles: bool) -> list[float]:
    model = load_model(f"hf:{folder}", placement=Placement(compiles=compiles))
    (scorer,) = make_scorers(model, None, "published")
    return [float(s) for s in scorer.score([Query(image, c) for c in ("a red cube", "a dog")])]


@pytest.mark.parametrize("kind", ["blip", "llava"])
def test_compiled_models_give_the_same_scores(
    kind: str,
    hf_folder: Folder,
    chat_folder: Folder,
    images: list[PixelImage],
    compiled_by: Callable[[Backend], list[Any]],
) -> None:
    folder = (chat_folder if kind == "llava" else hf_folder)(kind)
    graphs = compiled_by(lambda graph, inputs: graph.forward)
    plain = scores(folder, images[0], compiles=False)
    assert graphs == []
    found = scores(folder, images[0], compiles=True)
    assert graphs
    # Probabilities of a random model are tiny.
    assert found == pytest.approx(plain, rel=1e-4, abs=1e-9)


def test_compiler_error(
    hf_folder: Folder,
    images: list[PixelImage],
    compiled_by: Callable[[Backend], list[Any]],
) -> None:
    def fails(graph: Any, inputs: Any) -> Any:
        raise RuntimeError("No working C++ compiler found")

    compiled_by(fails)
    with pytest.raises(UnbagError, match=r"tiny-blip could not be compiled: .*No work") as error:
        scores(hf_folder("blip"), images[0], compiles=True)
    assert "leave --compile out: scores are the same; or install a compiler" in str(error.value)
