"""Runs one probe on one model, and names the row of the table that a verdict comes from."""

from __future__ import annotations

from collections.abc import Mapping

from unbag.probes.base import Options, Probe, ProbeData, ProbedModel, ProbeResult, Tone, Verdict
from unbag.runs.progress import Progress, Silent


def run_probe(
    probe: Probe,
    subject: ProbedModel,
    data: ProbeData,
    options: Options | None = None,
    progress: Progress | None = None,
) -> ProbeResult:
    return probe.ask(subject, data, options or Options(), progress or Silent())


def case_of(verdict: Verdict, verdicts: Mapping[str, tuple[Tone, str]]) -> str:
    """The row of a table of verdicts: tests assert it, and leave the wording to snapshots."""
    (name,) = (n for n, row in verdicts.items() if row == (verdict.tone, verdict.template))
    return name
