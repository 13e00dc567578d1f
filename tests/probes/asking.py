"""Puts one probe to one model."""

from __future__ import annotations

from unbag.probes.base import Options, Probe, ProbeData, ProbedModel, ProbeResult
from unbag.runs.progress import Progress, Silent


def put(
    probe: Probe,
    subject: ProbedModel,
    material: ProbeData,
    options: Options | None = None,
    progress: Progress | None = None,
) -> ProbeResult:
    """Put one question to one model."""
    return probe.ask(subject, material, options or Options(), progress or Silent())
