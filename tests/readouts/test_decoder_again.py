"""The folder of a decoder given again: its own run resumes, that of somebody else is refused."""

from pathlib import Path

import pytest
import torch

from unbag.readouts.base import ReadoutTrained, train_readout
from unbag.readouts.decoder.saving import read_decoder
from unbag.runs.progress import Progress, Silent

from .decoder_made import encoder

QUICK = (
    "scenes=24", "steps=4", "batch=8", "width=16", "depth=1", "heads=2", "warm_up=1",
)  # fmt: skip


def trained(out: Path, progress: Progress | None = None) -> ReadoutTrained:
    return train_readout("decoder", encoder(), "world", out, settings=QUICK, progress=progress)


def state(folder: Path) -> dict[str, torch.Tensor]:
    return dict(read_decoder(folder).made.net.state_dict())


def test_a_run_that_was_killed_while_the_card_was_written_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("unbag.readouts.decoder.readout.save_decoder", killed)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "made")
    monkeypatch.undo()
    assert (tmp_path / "made" / "README.md").exists()
    silent = Silent()
    assert trained(tmp_path / "made", progress=silent).is_done
    assert "resuming after step 4 of 4" in silent.said
    trained(tmp_path / "whole")
    # Others may read what one may: safetensors makes files for nobody else.
    kept = [path for path in (tmp_path / "whole").rglob("*") if path.is_file()]
    modes = {path.stat().st_mode for path in kept if path.name != ".lock"}
    assert {path.suffix for path in kept} >= {".safetensors", ".json", ".md"}
    assert modes == {(tmp_path / "whole" / "README.md").stat().st_mode}
    whole, again = state(tmp_path / "whole"), state(tmp_path / "made")
    assert all(torch.equal(value, again[name]) for name, value in whole.items())


def test_the_end_of_a_finished_run_is_written_again(tmp_path: Path) -> None:
    first = trained(tmp_path)
    whole, card = state(tmp_path), (tmp_path / "README.md").read_text()
    (tmp_path / "config.json").unlink()
    (tmp_path / "connector.safetensors").unlink()
    silent = Silent()
    assert trained(tmp_path, silent).lines == first.lines
    assert "resuming after step 4 of 4" in silent.said
    again = state(tmp_path)
    assert all(torch.equal(value, again[name]) for name, value in whole.items())
    assert (tmp_path / "README.md").read_text() == card
