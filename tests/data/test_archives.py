"""Archives: valid ones, damaged ones, and attacks."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unbag.data.archives import DamagedError, Limits, Member, unpack
from unbag.errors import UnbagError

Zipped = Callable[[dict[str, bytes]], bytes]
FILES = {"val/1.jpg": b"one" * 1000, "val/deep/2.jpg": b"two", "empty": b"", "é": b"3"}


def tar(files: dict[str, bytes], mode: str = "w:gz", *more: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for info in more:
            archive.addfile(info)
    return buffer.getvalue()


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("form", ["zip", "w", "w:gz", "w:xz"])
def test_all_files_are_unpacked(tmp_path: Path, zipped: Zipped, form: str) -> None:
    packed = zipped(FILES) if form == "zip" else tar(FILES, form)
    (tmp_path / "a").write_bytes(packed)
    seen: list[int] = []

    class Bar:
        def __enter__(self) -> Callable[[int], None]:
            return seen.append

        def __exit__(self, *error: object) -> None: ...

    members = unpack(tmp_path / "a", tmp_path / "out", task=lambda what, total: Bar())
    assert contents(tmp_path / "out") == FILES
    assert set(members) == {Member(name, len(content)) for name, content in FILES.items()}
    assert 0 < sum(seen) <= max(len(packed), 10240)


def test_existing_files_of_the_right_size_stay(tmp_path: Path, zipped: Zipped) -> None:
    (tmp_path / "a").write_bytes(zipped(FILES))
    (tmp_path / "out/val").mkdir(parents=True)
    (tmp_path / "out/val/1.jpg").write_bytes(b"ONE" * 1000)
    (tmp_path / "out/empty").write_bytes(b"half written by another tool")
    unpack(tmp_path / "a", tmp_path / "out")
    assert contents(tmp_path / "out") == FILES | {"val/1.jpg": b"ONE" * 1000}


def test_it_resumes_after_ctrl_c(tmp_path: Path, zipped: Zipped) -> None:
    (tmp_path / "a").write_bytes(zipped(FILES))

    class Bar:
        def __enter__(self) -> Bar:
            return self

        def __exit__(self, *error: object) -> None: ...

        def __call__(self, steps: int) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        unpack(tmp_path / "a", tmp_path / "out", task=lambda what, total: Bar())
    assert contents(tmp_path / "out") == {"val/1.jpg": FILES["val/1.jpg"]}
    unpack(tmp_path / "a", tmp_path / "out")
    assert contents(tmp_path / "out") == FILES


@pytest.mark.parametrize(
    "name",
    ["../out.txt", "a/../../out.txt", "/tmp/out.txt", "..\\out.txt", "C:\\out.txt", "C:out.txt",
     "\\\\host\\share\\out.txt", "a\nb"],
)  # fmt: skip
@pytest.mark.parametrize("form", ["zip", "tar"])
def test_names_that_lead_out_of_the_folder(
    tmp_path: Path, zipped: Zipped, name: str, form: str
) -> None:
    files = {"first": b"1", name: b"bad"}
    (tmp_path / "a").write_bytes(zipped(files) if form == "zip" else tar(files))
    with pytest.raises(UnbagError, match="names that stay below the folder") as caught:
        unpack(tmp_path / "a", tmp_path / "out")
    assert caught.value.hint == "unpack it by hand if you trust it"
    assert set(contents(tmp_path)) == {"a", "out/first"}


def link(kind: bytes, name: str, to: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, to
    return info


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE,
                                  tarfile.CHRTYPE, tarfile.BLKTYPE])  # fmt: skip
def test_links_and_devices_in_a_tar(tmp_path: Path, kind: bytes) -> None:
    (tmp_path / "secret").write_text("mine")
    (tmp_path / "a").write_bytes(tar({}, "w:gz", link(kind, "x", "../secret")))
    with pytest.raises(UnbagError, match="'x', a link or device"):
        unpack(tmp_path / "a", tmp_path / "out")
    assert contents(tmp_path / "out") == {}
    assert (tmp_path / "secret").read_text() == "mine"


def test_existing_links_are_not_written_through(tmp_path: Path, zipped: Zipped) -> None:
    (tmp_path / "a").write_bytes(zipped({"val/1.jpg": b"one"}))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/val").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnbagError, match="would be unpacked through the link"):
        unpack(tmp_path / "a", tmp_path / "out")
    assert contents(tmp_path / "elsewhere") == {}
    # Images that a user keeps elsewhere and that are complete need no writing.
    (tmp_path / "elsewhere/1.jpg").write_bytes(b"ONE")
    assert unpack(tmp_path / "a", tmp_path / "out") == (Member("val/1.jpg", 3),)


def test_a_link_under_the_temporary_name_is_not_followed(tmp_path: Path, zipped: Zipped) -> None:
    (tmp_path / "a").write_bytes(zipped({"1.jpg": b"one"}))
    (tmp_path / "out").mkdir()
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "out/.1.jpg.part").symlink_to(tmp_path / "victim")
    unpack(tmp_path / "a", tmp_path / "out")
    assert (tmp_path / "victim").read_text() == "mine"
    assert (tmp_path / "out/1.jpg").read_bytes() == b"one"


@pytest.mark.parametrize("form", ["zip", "tar"])
def test_a_bomb_is_not_unpacked(tmp_path: Path, zipped: Zipped, form: str) -> None:
    files = {f"{i}": bytes(1_000_000) for i in range(5)}
    (tmp_path / "a").write_bytes(zipped(files) if form == "zip" else tar(files))
    with pytest.raises(UnbagError) as caught:
        unpack(tmp_path / "a", tmp_path / "out", limits=Limits(ratio=2, free=2_500_000))
    assert "holds more than 2.5 MB or 2,000,000 files" in caught.value.message
    assert caught.value.expected == "at most 2 times its own size"
    assert len(contents(tmp_path / "out")) == 2


def zip_with_link() -> bytes:
    info = zipfile.ZipInfo("x")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(info, "/etc/passwd")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (zip_with_link(), "a link or device"),
        (tar({f"{i}": b"" for i in range(4)}), "or 3 files"),
        (tar({"x": b"1", "./x": b"2"}), "holds 'x' twice"),
        (tar({"x": b"1", "x/y": b"2"}), "cannot unpack"),
    ],
)
def test_archives_that_are_refused(tmp_path: Path, packed: bytes, message: str) -> None:
    (tmp_path / "a").write_bytes(packed)
    with pytest.raises(UnbagError, match=message):
        unpack(tmp_path / "a", tmp_path / "out", limits=Limits(members=3))


def test_a_full_disk(tmp_path: Path, zipped: Zipped, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(zipped(FILES))
    monkeypatch.setattr("shutil.disk_usage", lambda folder: type("Usage", (), {"free": 10}))
    with pytest.raises(UnbagError, match=r"1\.jpg needs 3\.0 kB more, and .* has 10 B free"):
        unpack(tmp_path / "a", tmp_path / "out")


def test_an_encrypted_zip(tmp_path: Path, zipped: Zipped) -> None:
    packed = bytearray(zipped({"x": b"1"}))
    # The flag of encryption, in the header of the file and in the directory.
    packed[6] |= 1
    packed[packed.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "a").write_bytes(packed)
    with pytest.raises(UnbagError, match=r"cannot be read: .*encrypted"):
        unpack(tmp_path / "a", tmp_path / "out")


def test_a_flipped_bit(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a", "w") as archive:
        archive.writestr("x", b"some bytes")
    packed = bytearray((tmp_path / "a").read_bytes())
    packed[packed.index(b"some")] ^= 1
    (tmp_path / "a").write_bytes(packed)
    with pytest.raises(DamagedError, match="is damaged: Bad CRC-32"):
        unpack(tmp_path / "a", tmp_path / "out")
    assert contents(tmp_path / "out") == {}


@pytest.mark.parametrize("packed", [b"", b"no archive at all", bytes(512)])
def test_no_archive(tmp_path: Path, packed: bytes) -> None:
    (tmp_path / "a").write_bytes(packed)
    if packed == bytes(512):
        assert unpack(tmp_path / "a", tmp_path / "out") == ()  # An empty tar.
    else:
        with pytest.raises(DamagedError):
            unpack(tmp_path / "a", tmp_path / "out")


@given(data=st.data(), form=st.sampled_from(["zip", "w", "w:gz"]))
def test_a_cut_or_changed_archive_never_gives_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, form: str
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)
    packed = bytearray(buffer.getvalue() if form == "zip" else tar(FILES, form))
    cut = data.draw(st.integers(0, len(packed)))
    at = data.draw(st.integers(0, len(packed) - 1))
    packed[at] ^= data.draw(st.integers(0, 255))
    (folder / "a").write_bytes(packed[:cut])
    with suppress(UnbagError):
        unpack(folder / "a", folder / "out")
    outside = [path.name for path in folder.iterdir()]
    assert set(outside) <= {"a", "out"}
    assert not list(folder.rglob("*.part"))
