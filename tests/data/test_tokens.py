"""Blocks of a memory-mapped token file: the right tokens, on whatever device, and clear words for files that are no
token files."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from trueloop.data.tokens import Tokens, TokenType, _OnDevice, tokens_in
from trueloop.errors import BadData


def token_file(folder: Path, tokens: list[int] | range, dtype: str = "uint8") -> Path:
    path = folder / "tokens.bin"
    np.array(tokens, dtype=np.dtype(dtype).newbyteorder("<")).tofile(path)
    return path


def test_targets_are_the_inputs_moved_by_one(tmp_path: Path) -> None:
    batch = Tokens(token_file(tmp_path, range(20)), block=4).fetch(torch.tensor([2, 0]))
    assert batch.inputs.tolist() == [[8, 9, 10, 11], [0, 1, 2, 3]]
    assert batch.targets.tolist() == [[9, 10, 11, 12], [1, 2, 3, 4]]
    assert batch.inputs.dtype == batch.targets.dtype == torch.int64


@pytest.mark.parametrize(
    ("count", "block", "stride", "samples"),
    [(20, 4, None, 4), (21, 4, None, 5), (20, 4, 1, 16), (20, 4, 3, 6), (5, 4, 1, 1)],
)
def test_an_epoch_has_every_beginning_that_leaves_room_for_a_block(
    tmp_path: Path, count: int, block: int, stride: int | None, samples: int
) -> None:
    source = Tokens(token_file(tmp_path, range(count)), block, stride=stride)
    assert len(source) == samples
    beginnings = source.fetch(torch.arange(samples)).inputs[:, 0].tolist()
    assert beginnings == [number * (stride or block) for number in range(samples)]
    assert max(beginnings) + (stride or block) + block + 1 > count


@pytest.mark.parametrize(
    ("dtype", "largest"), [("uint8", 255), ("uint16", 50_256), ("uint32", 128_000), ("uint32", 2**32 - 1)]
)
def test_tokens_of_every_size_come_out_as_they_were_written(tmp_path: Path, dtype: TokenType, largest: int) -> None:
    written = [0, largest, 1, largest - 1, 7, 9]
    source = Tokens(token_file(tmp_path, written, dtype), block=2, dtype=dtype)
    assert source.fetch(torch.arange(2)).inputs.flatten().tolist() == written[:4]
    assert source.nbytes() == 6 * np.dtype(dtype).itemsize


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32"])
def test_on_a_device_the_blocks_are_the_same(tmp_path: Path, dtype: TokenType) -> None:
    source = Tokens(token_file(tmp_path, range(100, 200), dtype), block=8, dtype=dtype, first=3, last=90, stride=2)
    there = _OnDevice(source._mapped().to("cpu", copy=True), len(source), source.block, source.stride)
    numbers = torch.randperm(len(source))
    here, gathered = source.fetch(numbers), there.fetch(numbers)
    assert len(there) == len(source)
    assert torch.equal(here.inputs, gathered.inputs)
    assert torch.equal(here.targets, gathered.targets)


def test_in_the_cpu_s_own_memory_the_map_stays_a_map(tmp_path: Path) -> None:
    source = Tokens(token_file(tmp_path, range(20)), block=4)
    assert source.resident(torch.device("cpu")) is source


def test_a_part_of_a_file_holds_nothing_of_the_rest(tmp_path: Path) -> None:
    path = token_file(tmp_path, range(100))
    before, after = Tokens(path, 4, last=90, stride=1), Tokens(path, 4, first=90)
    assert before.fetch(torch.arange(len(before))).targets.max() == 89
    assert after.fetch(torch.arange(len(after))).inputs.min() == 90


def test_workers_open_the_map_themselves_instead_of_being_sent_the_file(tmp_path: Path) -> None:
    source = Tokens(token_file(tmp_path, [7] * 100_000), block=4)
    source.fetch(torch.arange(3))
    sent = pickle.dumps(source)
    assert len(sent) < 2_000
    assert pickle.loads(sent).fetch(torch.arange(3)).inputs.unique().tolist() == [7]


def test_the_file_is_never_written(tmp_path: Path) -> None:
    path = token_file(tmp_path, range(20))
    before = path.read_bytes()
    Tokens(path, 4).fetch(torch.arange(2)).inputs.zero_()
    assert path.read_bytes() == before


def test_a_length_that_the_token_size_does_not_divide_is_refused(tmp_path: Path) -> None:
    path = token_file(tmp_path, range(7))
    with pytest.raises(BadData) as raised:
        Tokens(path, block=2, dtype="uint16")
    assert str(raised.value) == (
        f"{path} has 7 bytes, which is not a multiple of 2 (uint16 tokens): 1 left over. "
        "Nothing was trained: the file is truncated, or its tokens have a different dtype."
    )


@pytest.mark.parametrize("count", [0, 1, 8])
def test_a_file_too_short_for_one_block_is_refused(tmp_path: Path, count: int) -> None:
    with pytest.raises(
        BadData, match=rf"holds {count} tokens from 0 to {count}; one block needs 9 \(8 and the next one\)"
    ):
        Tokens(token_file(tmp_path, range(count)), block=8)


def test_a_part_beyond_the_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="holds 0 tokens from 30 to 20"):
        Tokens(token_file(tmp_path, range(20)), block=4, first=30)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"gone.bin cannot be read \(No such file"):
        tokens_in(tmp_path / "gone.bin")
