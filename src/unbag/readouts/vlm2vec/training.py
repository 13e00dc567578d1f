"""Contrastive training of a chat model that embeds, as VLM2Vec is trained, and its settings.

`fit` takes the steps and resumes from a checkpoint. The loss and the cached gradient are functions
on tensors and on whatever embeds: they know of no model.

Dimensions: B queries, T targets, N rows or vectors, W or D their width.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import monotonic

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

from unbag.errors import UserError, said_by
from unbag.models.huggingface.chat_inputs import ChatRow
from unbag.readouts.vlm2vec.data import EmbeddingLesson, EmbeddingLessons, Showing
from unbag.readouts.vlm2vec.model import Adapted, Adapting, unit
from unbag.runs.checkpoint import LAST, load_optimizer_state, optimizer_state
from unbag.runs.distributed import ALONE
from unbag.runs.files import TRAINING, write_atomically
from unbag.runs.identity import RunIdentity
from unbag.runs.progress import Progress, stops_gently
from unbag.training.repair import Where

_HEADER = "vlm2vec_training"
TEMPERATURE = 0.02
_ABOVE_0 = ("steps", "batch", "chunk", "learning_rate", "temperature", "clip_norm")
Embed = Callable[[slice], Tensor]
"""Rows of a batch to their vectors, [N, D]; normalised or not."""
Loss = Callable[[Tensor, Tensor], Tensor]
"""Vectors of all queries and of all targets to one number."""


@dataclass(frozen=True)
class Vlm2VecSettings:
    """What --set can change. Defaults are the paper's, but for batch (4 x 64) and chunk (1)."""

    steps: int = 1000
    batch: int = 64
    chunk: int = 8
    """Pictures or texts run at once: memory, and which numbers dropout draws; nothing else."""
    learning_rate: float = 2e-5
    warm_up: int = 100
    """Steps with a rising rate, before a line to zero."""
    temperature: float = TEMPERATURE
    clip_norm: float = 1.0
    negatives: int = 2
    """Hard negatives of a caption as further targets, where the pairs have them."""
    lora: int = 8
    """Rank; 0 trains the whole language model."""
    alpha: float = 64.0
    dropout: float = 0.1
    dora: bool = True

    def __post_init__(self) -> None:
        wrong = [name for name in _ABOVE_0 if not getattr(self, name) > 0]
        wrong += [name for name in ("warm_up", "negatives") if getattr(self, name) < 0]
        if wrong:
            raise UserError(
                f"{wrong[0]}={getattr(self, wrong[0])}",
                expected="a number above 0"
                if wrong[0] in _ABOVE_0
                else "a whole number of 0 or more",
                way_out="leave it out for the default",
            )
        # Refuses what cannot be trained.
        _ = self.adapting

    @property
    def adapting(self) -> Adapting:
        """What is trained."""
        return Adapting(self.lora, self.alpha, self.dropout, self.dora)

    def showing(self, *, asks: bool, seed: int) -> Showing:
        """How pairs are shown."""
        return Showing(self.batch, self.negatives, asks, seed)


def fit(
    adapted: Adapted,
    lessons: EmbeddingLessons,
    settings: Vlm2VecSettings,
    *,
    run: str,
    out: Path,
    where: Where,
    seed: int,
    progress: Progress,
) -> Stand:
    """Train until the last step or until somebody stops it; goes on from `out`/last.safetensors."""
    weights = list(adapted.weights.values())
    optimiser = torch.optim.AdamW(weights, lr=settings.learning_rate, weight_decay=0.0)
    stand = _begin(out / LAST, adapted, optimiser, Stand(run))
    saved = began = monotonic()
    recent: list[Tensor] = []
    adapted.train()
    with (
        stops_gently(ALONE) as stopping,
        progress.task(f"{adapted.model.name}: vlm2vec", settings.steps) as advance,
    ):
        advance(stand.step)
        for step in range(stand.step, settings.steps):
            share = linear_lr_factor(step, steps=settings.steps, warm_up=settings.warm_up)
            for group in optimiser.param_groups:
                group["lr"] = settings.learning_rate * share
            lesson = lessons.step(step)
            recent = [
                *recent[-19:],
                take_gradient(adapted, lesson, settings, where, seed=hash((seed, step))),
            ]
            torch.nn.utils.clip_grad_norm_(weights, settings.clip_norm)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            stand = replace(stand, step=step + 1)
            advance(1)
            is_time = monotonic() - saved > 60 * where.save_minutes
            if stopping.agreed() or is_time or stand.step == settings.steps:
                spent = stand.seconds + monotonic() - began
                stand = replace(stand, seconds=spent, loss=_mean(recent, stand.step))
                _save(out / LAST, adapted, optimiser, stand)
                saved = began = monotonic()
            if stopping.agreed():
                break
    adapted.train(False)
    return stand


@dataclass(frozen=True)
class Stand:
    """Where a run stands."""

    run: str
    """All that decides the weights, as JSON."""
    step: int = 0
    seconds: float = 0.0
    loss: float = float("nan")
    """Mean of the last steps."""


def take_gradient(
    adapted: Adapted, lesson: EmbeddingLesson, settings: Vlm2VecSettings, where: Where, *, seed: int
) -> Tensor:
    """Of one step, added to the weights; gives the loss."""
    queries, targets = _rows(adapted, lesson)

    def loss(query_BW: Tensor, target_TW: Tensor) -> Tensor:
        device = query_BW.device
        return contrast(
            query_BW,
            target_TW,
            own_B=lesson.own_B.to(device),
            masked_BT=lesson.masked_BT.to(device),
            temperature=settings.temperature,
        )

    return cached_step(
        _embed(adapted, queries, where),
        _embed(adapted, targets, where),
        queries=len(queries),
        targets=len(targets),
        loss=loss,
        chunk=settings.chunk,
        seed=seed,
    )


def _rows(adapted: Adapted, lesson: EmbeddingLesson) -> tuple[list[ChatRow], list[ChatRow]]:
    """Queries and targets as rows of the model."""
    model = adapted.model
    return model.hidden_rows(lesson.queries), model.hidden_rows([(None, t) for t in lesson.targets])


def _embed(adapted: Adapted, rows: Sequence[ChatRow], where: Where) -> Callable[[slice], Tensor]:
    kind = torch.device(adapted.model.device).type

    def embed(part: slice) -> Tensor:
        narrow: AbstractContextManager[object] = nullcontext()
        if where.precision == "bfloat16":
            narrow = torch.autocast(kind, dtype=torch.bfloat16)
        with narrow:
            return adapted.runner.hidden(rows[part])

    return embed


def _mean(recent: Sequence[Tensor], step: int) -> float:
    """Of the last losses; refused where it is not finite."""
    found = float(torch.stack(list(recent)).mean())
    if found != found or abs(found) == float("inf"):
        raise UserError(
            f"the loss is {found} at step {step}",
            expected="a finite number",
            way_out="a smaller learning rate, or --precision float32",
        )
    return found


def measure(adapted: Adapted, lessons: Sequence[EmbeddingLesson], *, chunk: int) -> ShareNearest:
    """How often a query's own target is strictly nearest, those that also fit left out."""
    right = asked = 0
    for lesson in lessons:
        sides = []
        for rows in _rows(adapted, lesson):
            with torch.inference_mode():
                parts = [
                    adapted.runner.hidden(rows[at : at + chunk]).float().cpu()
                    for at in range(0, len(rows), chunk)
                ]
            sides.append(unit(torch.cat(parts)))
        cosine_BT = (sides[0] @ sides[1].T).masked_fill(lesson.masked_BT, -torch.inf)
        own_B1 = lesson.own_B[:, None]
        own_value_B1 = (sides[0] * sides[1][lesson.own_B]).sum(dim=1, keepdim=True)
        others_BT = cosine_BT.scatter(1, own_B1, -torch.inf)
        right += int((others_BT < own_value_B1).all(dim=1).sum())
        asked += len(lesson.queries)
    return ShareNearest(right, asked)


@dataclass(frozen=True)
class ShareNearest:
    """Of queries whose own target is nearer than all others of its step."""

    right: int
    asked: int


def contrast(
    query_BD: Tensor,
    target_TD: Tensor,
    *,
    own_B: Tensor | None = None,
    masked_BT: Tensor | None = None,
    temperature: float = TEMPERATURE,
) -> Tensor:
    """Cross-entropy of each query over all targets, in this direction only.

    Args:
        query_BD: At any norm.
        target_TD: Those of the queries first, or wherever `own_B` says; hard negatives are more.
        own_B: Which target is each query's own; None is the one in the same place.
        masked_BT: True for targets that fit a query although they are not its own: left out.
        temperature: Cosines are divided by it.
    """
    logit_BT = unit(query_BD) @ unit(target_TD).T / temperature
    own_B = torch.arange(len(logit_BT), device=logit_BT.device) if own_B is None else own_B
    if masked_BT is not None:
        is_own_BT = functional.one_hot(own_B, logit_BT.shape[1]).bool()
        logit_BT = logit_BT.masked_fill(masked_BT & ~is_own_BT, -torch.inf)
    return functional.cross_entropy(logit_BT, own_B)


def cached_step(
    embed_query: Embed,
    embed_target: Embed,
    *,
    queries: int,
    targets: int,
    loss: Loss = contrast,
    chunk: int | None = None,
    seed: int = 0,
) -> Tensor:
    """Add the gradient of the loss of a whole batch to the weights, `chunk` rows at a time.

    First all vectors are made without a graph, then the loss gives a gradient at each vector, then
    every chunk is run again and that gradient goes back through it. It is the gradient of the
    plain step; memory is that of one chunk, and the time half as much again.

    Args:
        embed_query: Called with slices of the queries, twice where there are several chunks.
        embed_target: Likewise of the targets.
        queries: How many.
        targets: How many.
        loss: Of all vectors.
        chunk: Rows at a time; None is all.
        seed: Of dropout, from seed and step: each chunk draws the same in both passes.
    """
    sides = ((embed_query, queries), (embed_target, targets))
    parts = [_parts(embed, n, chunk, seed=seed, side=s) for s, (embed, n) in enumerate(sides)]
    if all(len(side) == 1 for side in parts):
        whole = loss(*(run() for ((_, run),) in parts))
        torch.autograd.backward(whole)
        return whole.detach()
    with torch.no_grad():
        made = [torch.cat([run() for _, run in side]) for side in parts]
    leaves = [vector.requires_grad_(True) for vector in made]
    whole = loss(*leaves)
    torch.autograd.backward(whole)
    for leaf, side in zip(leaves, parts, strict=True):
        assert leaf.grad is not None
        for rows, run in side:
            torch.autograd.backward(run(), leaf.grad[rows])
    return whole.detach()


def _parts(
    embed: Embed, rows: int, chunk: int | None, *, seed: int, side: int
) -> list[tuple[slice, Callable[[], Tensor]]]:
    """Chunks of a side, each with the call that embeds it."""
    size = chunk or rows
    found: list[tuple[slice, Callable[[], Tensor]]] = []
    for number, at in enumerate(range(0, rows, size)):
        part = slice(at, min(at + size, rows))
        found.append((part, _seeded(embed, part, hash((seed, side, number)))))
    return found


def _seeded(embed: Embed, part: slice, seed: int) -> Callable[[], Tensor]:
    """Embed these rows with draws of a seed."""

    def run() -> Tensor:
        torch.manual_seed(seed & 0x7FFF_FFFF_FFFF_FFFF)
        return embed(part)

    return run


def linear_lr_factor(step: int, *, steps: int, warm_up: int) -> float:
    """Of the learning rate: a line up, then a line down to zero."""
    if step < warm_up:
        return (step + 1) / warm_up
    return max(0.0, (steps - step) / max(1, steps - warm_up))


def _save(path: Path, adapted: Adapted, optimiser: torch.optim.Optimizer, stand: Stand) -> None:
    tensors = {f"weight.{name}": value for name, value in adapted.state().items()}
    moments = optimizer_state(adapted.weights, optimiser)
    tensors |= {name: value.detach().cpu().clone() for name, value in moments.items()}
    header = {_HEADER: json.dumps(asdict(stand))}
    write_atomically(path, lambda temporary: save_file(tensors, temporary, metadata=header))


def _begin(path: Path, adapted: Adapted, optimiser: torch.optim.Optimizer, fresh: Stand) -> Stand:
    """Where the run stands; a checkpoint of another run is refused."""
    if not path.exists():
        return fresh
    try:
        with safe_open(path, framework="pt") as file:
            stand = Stand(**json.loads((file.metadata() or {})[_HEADER]))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        there = json.loads(stand.run)
    except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
        raise UserError(
            f"{path} is not a checkpoint of vlm2vec: {said_by(error)}",
            expected="a file that `unbag train --recipe vlm2vec` wrote",
            way_out="delete it to begin anew, or name another folder with --out",
        ) from error
    earlier, asked = RunIdentity.of_json(there), RunIdentity.of_json(json.loads(fresh.run))
    asked.require_same(earlier, folder=path.parent, kind=TRAINING)
    _restore(tensors, adapted, optimiser, source=str(path))
    return stand


def _restore(
    tensors: Mapping[str, Tensor],
    adapted: Adapted,
    optimiser: torch.optim.Optimizer,
    *,
    source: str,
) -> None:
    weights = {n.removeprefix("weight."): t for n, t in tensors.items() if n.startswith("weight.")}
    adapted.load(weights, source=source)
    load_optimizer_state(adapted.weights, optimiser, tensors)
