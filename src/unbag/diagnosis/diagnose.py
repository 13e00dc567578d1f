"""A model by name or as it is comes in; its diagnosis goes out: `ub.diagnose(model).print()`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unbag.diagnosis.answers import Diagnosis
from unbag.diagnosis.inquiry import Inquiry, examine, registered_probes
from unbag.engine.progress import Progress
from unbag.probes.finding import Options
from unbag.probes.material import Material
from unbag.probes.material_find import find_material
from unbag.probes.probe import Probe
from unbag.scorers.named import model_name
from unbag.scorers.resolve import Model, load_model, make_scorer
from unbag.types import Scorer


def diagnose(
    model: str | Model,
    *,
    against: str | Model | None = None,
    scorer: str | Scorer | None = None,
    data: str | Path | Material | None = None,
    root: str | Path | None = None,
    probes: str | Sequence[str | Probe] | None = None,
    is_full: bool = False,
    layers: Sequence[int] = (),
    seed: int = 0,
    has_twin: bool = True,
    has_maps: bool = True,
    cache: str | Path | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Diagnosis:
    """Put probes to a model, and say in one sentence each what was found.

    Args:
        model: By name (`tiny:base`), the folder of a training run, or loaded.
        against: A second model; differences from it are paired.
        scorer: A trained read-out of the model, `pacl@FOLDER`: it scores where a probe asks for a
            score, and its maps of words stand beside the model's.
        data: What is looked at: None for the world, a benchmark, a file of captions, a folder of
            pictures, or material made by hand.
        root: Holds one folder for each benchmark that is read from files.
        probes: One or several, by name, `package.module:NAME` or as they are; None is all that
            are registered.
        is_full: All grids of readers and conditions, not the quick part of them.
        layers: Layers to read from, besides the last; negative ones count from the end.
        seed: Of samples, readers, intervals and the random twin.
        has_twin: Put every question to the same model with random weights as well.
        has_maps: Draw maps of words over a few pictures; a chat model runs dozens of times for it.
        cache: Keeps vectors between runs.
        device: Where models that are named here compute.
        progress: Is told how far it is.
    """
    material = data
    if not isinstance(data, Material):
        material = find_material(
            None if data is None else str(data),
            root=Path(root) if root else None,
            seed=seed,
            progress=progress,
        )
    assert isinstance(material, Material)
    examined = _loaded(model, device)
    inquiry = Inquiry(
        model=examined,
        scorer=make_scorer(examined, scorer) if isinstance(scorer, str) else scorer,
        against=None if against is None else _loaded(against, device),
        material=material,
        probes=None if probes is None else _probes(probes),
        options=Options(seed=seed, is_full=is_full, layers=tuple(layers)),
        has_twin=has_twin,
        has_maps=has_maps,
        cache=Path(cache) if cache else None,
    )
    return examine(inquiry, progress=progress)


def _loaded(model: str | Model, device: str) -> Model:
    return load_model(model_name(model), device=device) if isinstance(model, str) else model


def _probes(asked: str | Sequence[str | Probe]) -> tuple[Probe, ...]:
    asked = [asked] if isinstance(asked, str) else asked
    return tuple(one if isinstance(one, Probe) else registered_probes([one])[0] for one in asked)
