"""A run in progress: scores of one scorer after the other go into the store of the run.

Several processes may work together: batches and chunks are planned alike in each and shared out,
vectors meet in the cache and scores in the run folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from unbag.engine.asking import MeetingScorer, QueryScoring, in_chunks
from unbag.engine.bounds import count_bounded
from unbag.engine.collector import paused_collector
from unbag.engine.cutting import count_cut, said_cut
from unbag.engine.embed import Grid, embed
from unbag.engine.folder import Asked, RunFolder
from unbag.engine.job import Job
from unbag.engine.plan import Plan
from unbag.engine.progress import Progress
from unbag.engine.scoring import score_by_vectors
from unbag.engine.store import Key, ScoreStore
from unbag.engine.team import Team
from unbag.engine.unknown_words import said_unknown, unknown_words
from unbag.types import EmbeddingScorer, FittedScorer, Item, RunRecord, Scorer


@dataclass
class Work:
    """A run in progress: what stays the same from scorer to scorer, and the record that grows."""

    job: Job
    items: Mapping[str, Sequence[Item]]
    plan: Plan
    folder: RunFolder
    asked: Asked
    store: ScoreStore
    grids: dict[str, Grid]
    progress: Progress
    record: RunRecord
    team: Team = field(default_factory=Team)

    @property
    def compares_captions(self) -> frozenset[str]:
        """Benchmarks that also need the similarity of captions with each other."""
        return frozenset(b.name for b in self.job.benchmarks if b.compares_captions)

    def missing(self, scorer: Scorer) -> list[str]:
        """Benchmarks of which an item is not scored yet."""
        return [
            name
            for name, items in self.items.items()
            if len(self.store.get(Key(name, scorer.name))) < len(items)
        ]

    def score(self, scorer: Scorer) -> None:
        """All benchmarks with one scorer, as far as they are not scored yet."""
        missing = self.team.gather(self.missing(scorer))[0]
        if not missing:
            return
        if self.team.is_leader and (words := unknown_words(scorer, self.plan.prompts)):
            self.progress.say(said_unknown(scorer.name, words))
        if isinstance(scorer, EmbeddingScorer):
            self._by_vectors(scorer, missing)
            return
        if self.team.is_leader:
            self._note(scorer, {}, count_cut(scorer, self.plan.captions))
        if isinstance(scorer, MeetingScorer):
            self._show_all(scorer)
        asking = QueryScoring(scorer, tie_eps=self.job.protocol.tie_eps)
        for name in missing:
            self._by_queries(asking, name)

    def _show_all(self, scorer: MeetingScorer) -> None:
        """Each process encodes its share; then all have everything, from the cache."""
        plan, team = self.plan, self.team
        cache = self.job.cache or (self.folder.vectors if team.size > 1 else None)
        if team.size > 1:
            pictures, prompts = team.mine(plan.pictures), team.mine(plan.prompts)
            scorer.meet(pictures, prompts, cache=cache, progress=self.progress)
            team.wait()
        scorer.meet(plan.pictures, plan.prompts, cache=cache, progress=self.progress)

    def _by_vectors(self, scorer: EmbeddingScorer, missing: Sequence[str]) -> None:
        is_fitted = isinstance(scorer, FittedScorer)
        vectors = embed(
            scorer.encoder,
            replace(self.plan, captions=(), prompts=()) if is_fitted else self.plan,
            # Processes that share the work meet on disk.
            cache=self.job.cache or (self.folder.vectors if self.team.size > 1 else None),
            grids=self.grids,
            save_grids=lambda: self.folder.save_batches(self.grids),
            batch=self.job.batch,
            progress=self.progress,
            team=self.team,
            compare=scorer.compare,
        )
        if not self.team.is_leader:
            return
        if isinstance(scorer, FittedScorer):
            own = scorer.caption_vectors(self.plan.captions).numpy()
            vectors = replace(vectors, caption_ND=own)
        self._note(scorer, vectors.damaged, vectors.truncated)
        eps = self.job.protocol.tie_eps
        for name in missing:
            by_id = {item.id: item for item in self.items[name]}
            rows = self.plan.rows[name]
            scored = score_by_vectors(
                scorer,
                self.items[name],
                rows,
                vectors,
                tie_eps=eps,
                compares_captions=name in self.compares_captions,
            )
            with paused_collector():
                for chunk in scored:
                    self.store.add(Key(name, scorer.name), [(by_id[s.item], s) for s in chunk])

    def _by_picture(self, name: str) -> list[Item]:
        """Items of one picture stand together, so that a scorer that is asked can share it."""
        items, rows = self.items[name], self.plan.rows[name]
        order = sorted(range(len(items)), key=lambda n: int(rows[n].picture_P[0]))
        return [items[n] for n in order]

    def _by_queries(self, asking: QueryScoring, name: str) -> None:
        items, key = self._by_picture(name), Key(name, asking.scorer.name)
        done = self.team.gather(set(self.store.get(key)))[0]
        chunks = in_chunks(items, asking.scorer)
        todo = [chunk for chunk in chunks if any(item.id not in done for item in chunk)]
        mine = self.team.mine(todo)
        with self.progress.task(f"{asking.scorer.name}: {name}", sum(map(len, mine))) as advance:
            for chunk in mine:
                by_id = {item.id: item for item in chunk}
                before = count_bounded(asking.scorer)
                found = asking.chunk(chunk)
                self._note(asking.scorer, asking.damaged, 0)
                bounded = count_bounded(asking.scorer) - before
                self.store.add(key, [(by_id[s.item], s) for s in found], bounded=bounded)
                advance(len(chunk))
        self._meet(asking)

    def _meet(self, asking: QueryScoring) -> None:
        """Wait for the others, and take over what they scored."""
        if self.team.size == 1:
            return
        self.store.save()
        damaged = self.team.gather(asking.damaged)
        if self.team.is_leader:
            self._note(asking.scorer, {n: why for one in damaged for n, why in one.items()}, 0)
            self.folder.take_over(self.store)
        self.team.wait()

    def _note(self, scorer: Scorer, damaged: Mapping[str, str], truncated: int) -> None:
        """Say and record what was found, before the scores that depend on it are kept."""
        if not self.team.is_leader:
            return
        new = {name: why for name, why in damaged.items() if name not in self.record.damaged}
        if not new and not truncated:
            return
        for name, reason in new.items():
            self.progress.say(
                f"picture {name} cannot be used ({reason}); its items count as invalid"
            )
        if truncated:
            self.progress.say(said_cut(scorer, truncated))
        self.record = replace(
            self.record,
            damaged=tuple(sorted({*self.record.damaged, *damaged})),
            truncated={**self.record.truncated, **({scorer.name: truncated} if truncated else {})},
        )
        self.folder.write_state("running", self.asked, self.record)
