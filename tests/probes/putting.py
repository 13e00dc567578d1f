"""Puts one probe to one model."""

from __future__ import annotations

from unbag.probes.base import Finding, Material, Options, Probe, Subject
from unbag.runs.progress import Progress, Silent


def put(
    probe: Probe,
    subject: Subject,
    material: Material,
    options: Options | None = None,
    progress: Progress | None = None,
) -> Finding:
    """Put one question to one model."""
    return probe.ask(subject, material, options or Options(), progress or Silent())
