"""Images are read ahead of the model, in order, and readers let the model go first."""

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image as Images

from unbag.data import FileImage
from unbag.evaluation.embedding import caption_batch
from unbag.models.features import Carrier, Turn, ahead, reading

DTYPES = (torch.uint8, torch.float32, torch.bfloat16)


def test_made_in_order_and_only_a_little_ahead() -> None:
    asked: list[int] = []

    def inputs() -> Any:
        for n in range(6):
            asked.append(n)
            yield n

    with ahead(lambda n: n * n, inputs()) as outputs:
        # Two begin at once; another each time one is taken.
        assert asked == [0, 1]
        assert next(outputs) == 0
        assert asked == [0, 1, 2]
        assert list(outputs) == [1, 4, 9, 16, 25]


def test_an_error_reaches_the_caller_and_the_rest_is_dropped() -> None:
    def make(n: int) -> int:
        if n == 1:
            raise RuntimeError("broken")
        return n

    with pytest.raises(RuntimeError, match="broken"), ahead(make, range(5)) as outputs:
        list(outputs)


def test_nothing_to_make() -> None:
    with ahead(str, []) as outputs:
        assert list(outputs) == []


def test_batches_with_their_damaged_images(encoder: Any, tmp_path: Path) -> None:
    for name, level in (("a", 10), ("c", 30), ("d", 40)):
        Images.new("RGB", (2, 2), (level, 0, 0)).save(tmp_path / f"{name}.png")
    (tmp_path / "b.png").write_bytes(b"")
    images = {name: FileImage(tmp_path / f"{name}.png") for name in "abcd"}
    todo = [["a", "b"], ["b"], ["d", "c"]]
    with reading(encoder, images, todo, turn=Turn("cpu")) as batches:
        first, second, third = batches
    assert (list(first.keys), list(second.keys), list(third.keys)) == (["a"], [], ["d", "c"])
    assert second.pixels is None
    assert third.pixels is not None
    assert third.pixels[:, 0].tolist() == [40, 30]
    assert list(first.damaged) == ["b"]
    assert "the file is empty" in second.damaged["b"]


class Clock:
    """Time that passes when somebody waits."""

    now = 100.0

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        return False


def test_readers_wait_for_a_gpu_but_not_long(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, turn = Clock(), Turn("cuda:0")
    monkeypatch.setattr("unbag.models.features.monotonic", clock)
    monkeypatch.setattr(turn._over, "wait", clock.wait)
    turn.wait()
    assert clock.now == 100.0
    with turn:
        turn.wait()
        assert clock.now == pytest.approx(100.05)
        # Its head start is over, whether it is ready or not.
        turn.wait()
        assert clock.now == pytest.approx(100.05)
    turn.wait()
    assert clock.now == pytest.approx(100.05)


def test_readers_go_on_when_the_turn_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unbag.models.features._HEAD_START", 60.0)
    turn = Turn("cuda")
    reader = threading.Thread(target=turn.wait, daemon=True)
    with turn:
        reader.start()
        reader.join(timeout=0.05)
        assert reader.is_alive()
    reader.join(timeout=30)
    assert not reader.is_alive()


def test_a_model_on_the_processor_has_no_head_start(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, turn = Clock(), Turn("cpu")
    monkeypatch.setattr("unbag.models.features.monotonic", clock)
    monkeypatch.setattr(turn._over, "wait", clock.wait)
    with turn:
        turn.wait()
    assert clock.now == 100.0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_batch_is_what_was_prepared(dtype: torch.dtype, device: str) -> None:
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    carry = Carrier(device)
    for seed in range(3):
        torch.manual_seed(seed)
        # As torchvision gives them: not contiguous.
        prepared = [(255 * torch.rand(5, 6, 3)).to(dtype).permute(2, 0, 1) for _ in range(4)]
        batch = carry(prepared)
        assert batch.device.type == device
        assert torch.equal(batch.cpu(), torch.stack(prepared))


def test_captions_go_in_larger_batches_on_a_gpu_only() -> None:
    assert caption_batch("cpu", 256) == 256
    assert caption_batch("cuda:1", 256) == 1024
