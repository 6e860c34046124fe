"""Tar shards: samples by number, and tars that are not whole."""

from __future__ import annotations

import io
import json
import os
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from tests.conftest import in_child
from trueloop.data import shards as module
from trueloop.data.shards import Shards
from trueloop.errors import BadData


def png(value: int, size: tuple[int, int] = (3, 2)) -> bytes:
    held = io.BytesIO()
    Image.new("RGB", size, (value, value, value)).save(held, "PNG")
    return held.getvalue()


def npy(values: Any) -> bytes:
    held = io.BytesIO()
    np.save(held, values)
    return held.getvalue()


def tar(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as file:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
    return path


def write(folder: Path, shards: int = 2, each: int = 4) -> Path:
    """Shards whose sample n is an image of shade n and of class n % 3."""
    for shard in range(shards):
        members: dict[str, bytes] = {}
        for number in range(shard * each, (shard + 1) * each):
            members |= {f"{number:04d}.png": png(number), f"{number:04d}.cls": str(number % 3).encode()}
        tar(folder / f"s-{shard:02d}.tar", members)
    return folder


def fetch_all(*arguments: Any, **options: Any) -> None:
    source = Shards(*arguments, **options)
    source.fetch(torch.arange(len(source)))


def refusal(*arguments: Any, **options: Any) -> str:
    with pytest.raises(BadData) as raised:
        fetch_all(*arguments, **options)
    sentence = str(raised.value)
    assert "\n" not in sentence
    return sentence


# -- what is read --


def test_samples_are_read_by_number_over_all_shards(tmp_path: Path) -> None:
    source = Shards(write(tmp_path) / "s-{00..01}.tar")
    assert len(source) == 8
    batch = source.fetch(torch.tensor([6, 1, 6]))
    assert batch.inputs.shape == (3, 3, 2, 3)
    assert batch.inputs.dtype == torch.uint8
    assert batch.inputs[:, 0, 0, 0].tolist() == [6, 1, 6]
    assert batch.targets.tolist() == [0, 1, 0]
    assert source.labels().tolist() == [n % 3 for n in range(8)]  # type: ignore[union-attr]


def test_shards_are_named_by_list_by_star_and_by_range(tmp_path: Path) -> None:
    write(tmp_path, shards=3)
    listed = [tmp_path / f"s-{n:02d}.tar" for n in range(3)]
    for source in (Shards(listed), Shards(str(tmp_path / "s-*.tar")), Shards(str(tmp_path / "s-{00..02}.tar"))):
        assert source.samples.paths == list(map(str, listed))
    assert len(Shards(listed[1])) == 4
    assert refusal(str(tmp_path / "x-*.tar")).startswith("No file is called")
    assert refusal(tmp_path / "x.tar").startswith(f"There is no file {tmp_path / 'x.tar'}.")


def test_every_ending_has_its_decoder(tmp_path: Path) -> None:
    members = {
        "a.json": json.dumps({"n": 3}).encode(),
        "a.npy": npy(np.arange(3)),
        "a.txt": "Grüße".encode(),
        "a.cls": b" 2\n",
    }
    path = tar(tmp_path / "s.tar", members)
    assert Shards(path, "npy", "cls").samples[0][0].tolist() == [0, 1, 2]
    assert Shards(path, "json", "txt").samples[0] == ({"n": 3}, "Grüße")
    assert Shards(path, "npy", "cls").samples[0][1] == 2


def test_a_transform_and_a_decoder_of_the_user_s(tmp_path: Path) -> None:
    path = tar(tmp_path / "s.tar", {"a.raw": b"\x01\x02", "a.json": b'{"label": 1}'})
    source = Shards(path, "raw", "json", decoders={"raw": lambda data: torch.tensor(list(data))}, transform=_label)
    batch = source.fetch(torch.tensor([0]))
    assert batch.inputs.tolist() == [[1, 2]]
    assert batch.targets.tolist() == [1]
    assert source.labels() is None


def _label(inputs: Any, target: Any) -> tuple[Any, Any]:
    return inputs, target["label"]


def test_a_key_ends_at_its_first_point_and_keeps_its_folder(tmp_path: Path) -> None:
    members = {
        "./x/a.seg.png": png(1),
        "x/a.cls": b"1",
        "y/a.seg.png": png(2),
        "y/a.cls": b"0",
        "README": b"",
        ".hidden.cls": b"1",
    }
    source = Shards(tar(tmp_path / "s.tar", members), "seg.png", "cls", decoders={"seg.png": len})
    assert source.samples.keys == ["x/a", "y/a"]


def test_either_of_several_endings_will_do(tmp_path: Path) -> None:
    source = Shards(tar(tmp_path / "s.tar", {"a.PNG": png(1), "a.cls": b"1", "b.webp": png(2), "b.cls": b"0"}))
    assert source.fetch(torch.tensor([0, 1])).inputs[:, 0, 0, 0].tolist() == [1, 2]


# -- processes --


def test_workers_read_what_one_process_reads(tmp_path: Path) -> None:
    source = Shards(write(tmp_path) / "s-*.tar")
    source.fetch(torch.tensor([0]))  # the files are open before the fork

    def work() -> list[int]:
        shades: list[int] = []
        for batch in DataLoader(_Batches(source), batch_size=None, num_workers=2):
            shades += batch[0][:, 0, 0, 0].tolist()
        return shades

    assert in_child(work) == [0, 1, 2, 3, 4, 5, 6, 7]


class _Batches(torch.utils.data.Dataset[Any]):
    def __init__(self, source: Shards) -> None:
        self.source = source

    def __len__(self) -> int:
        return 4

    def __getitem__(self, number: int) -> Any:
        return tuple(self.source.fetch(torch.tensor([2 * number, 2 * number + 1])))


def test_it_can_be_sent_to_a_process_without_its_open_files(tmp_path: Path) -> None:
    source = Shards(write(tmp_path) / "s-*.tar")
    source.fetch(torch.tensor([0]))
    again: Shards = pickle.loads(pickle.dumps(source))
    assert len(source.samples._open) == 1
    assert len(again.samples._open) == 0
    assert again.fetch(torch.tensor([5])).inputs[0, 0, 0, 0].item() == 5


def test_only_so_many_files_are_open_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OPEN_FILES", 2)
    source = Shards(write(tmp_path, shards=4, each=1) / "s-*.tar")
    before = len(os.listdir("/dev/fd"))
    for _ in range(3):
        assert source.fetch(torch.arange(4)).inputs[:, 0, 0, 0].tolist() == [0, 1, 2, 3]
    assert len(os.listdir("/dev/fd")) == before + 2
    del source
    assert len(os.listdir("/dev/fd")) == before


# -- shards that are wrong --


def test_a_sample_that_lacks_a_member(tmp_path: Path) -> None:
    path = tar(tmp_path / "s.tar", {"a.png": png(1), "a.cls": b"1", "b.png": png(2), "b.txt": b"hm"})
    assert refusal(path).startswith(f"{path}: sample b has no .cls, only .png, .txt. Nothing was trained:")
    assert refusal(path, "npy", "png").startswith(f"{path}: sample a has no .npy, only .png, .cls.")


def test_a_member_that_stands_twice(tmp_path: Path) -> None:
    path = tmp_path / "s.tar"
    with tarfile.open(path, "w") as file:
        for name in ("a.png", "a.cls", "a.cls"):
            file.addfile(tarfile.TarInfo(name))
    assert refusal(path).startswith(f"{path} holds a.cls twice")


@pytest.mark.parametrize("left", [1024 * 3 + 10, 512 * 5, 512 * 4 + 100, 700, 100])
def test_a_tar_that_was_cut_short_anywhere(tmp_path: Path, left: int) -> None:
    """Also between two members, where tarfile itself sees nothing wrong."""
    path = write(tmp_path, shards=1) / "s-00.tar"
    path.write_bytes(path.read_bytes()[:left])
    said = refusal(path)
    assert said.startswith(str(path))
    assert "is not a valid tar file" in said or "is truncated or damaged" in said


def test_a_tar_with_a_broken_head_in_the_middle(tmp_path: Path) -> None:
    path = write(tmp_path, shards=1) / "s-00.tar"
    data = bytearray(path.read_bytes())
    data[2048:2060] = b"broken head!"
    path.write_bytes(bytes(data))
    assert f"{path} is truncated or damaged after 2,048 bytes" in refusal(path)


def test_what_is_no_tar_and_what_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "no.tar").write_bytes(b"hello " * 500)
    assert refusal(tmp_path / "no.tar").startswith(f"{tmp_path / 'no.tar'} is not a valid tar file")
    (tmp_path / "none.tar").write_bytes(b"")
    assert "none.tar is not a valid tar file" in refusal(tmp_path / "none.tar")
    assert "holds no samples" in refusal(tar(tmp_path / "empty.tar", {"README": b"hello"}))


@pytest.mark.parametrize(
    ("members", "inputs", "reason"),
    [
        ({"a.png": png(1), "a.cls": b"cat"}, "png", "a.cls cannot be decoded (invalid literal for int()"),
        (
            {"a.png": b"nothing", "a.cls": b"1"},
            "png",
            "a.png cannot be decoded (Pillow does not recognize it as an image)",
        ),
        ({"a.json": b"{", "a.cls": b"1"}, "json", "a.json cannot be decoded (Expecting property name"),
        ({"a.txt": b"\xff", "a.cls": b"1"}, "txt", "a.txt cannot be decoded ('utf-8' codec"),
        ({"a.npy": b"", "a.cls": b"1"}, "npy", "a.npy cannot be decoded (No data left in file)"),
        (
            {"a.npy": npy(np.array([None])), "a.cls": b"1"},
            "npy",
            "a.npy cannot be decoded (Object arrays cannot be loaded",
        ),
    ],
)
def test_a_member_that_cannot_be_decoded(tmp_path: Path, members: dict[str, bytes], inputs: str, reason: str) -> None:
    path = tar(tmp_path / "s.tar", members)
    assert refusal(path, inputs).startswith(f"{path}: {reason}")


def test_an_ending_without_a_decoder(tmp_path: Path) -> None:
    said = refusal(tar(tmp_path / "s.tar", {"a.pkl": b"", "a.cls": b"1"}), "pkl")
    assert said.startswith("No decoder for .pkl (known: cls, ")
    assert "decoders={'pkl': function_of_bytes}" in said


def test_images_of_different_sizes_are_named_by_key_and_shard(tmp_path: Path) -> None:
    path = tar(tmp_path / "s.tar", {"a.png": png(1), "a.cls": b"1", "b.png": png(2, (5, 5)), "b.cls": b"1"})
    assert f"the inputs of a in {path} are [3, 2, 3], of b in {path} [3, 5, 5]." in refusal(path)


def test_texts_as_targets_are_named_too(tmp_path: Path) -> None:
    path = tar(tmp_path / "s.tar", {"a.png": png(1), "a.txt": b"cat"})
    assert refusal(path, target="txt").startswith(f"The target of a in {path} is the text 'cat'")


def test_a_shard_that_shrinks_while_it_is_used(tmp_path: Path) -> None:
    path = write(tmp_path, shards=1) / "s-00.tar"
    source = Shards(path)
    path.write_bytes(path.read_bytes()[:600])
    with pytest.raises(BadData, match=r"s-00\.tar was truncated while in use: 0003\.png is incomplete"):
        source.fetch(torch.tensor([3]))
