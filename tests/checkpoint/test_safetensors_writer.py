"""Files of weights are written tensor by tensor, and the library reads them."""

from __future__ import annotations

import io
import json
import resource
import struct
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import in_child
from trueloop.checkpoint.safetensors_header import entries_of
from trueloop.checkpoint.safetensors_writer import DTYPES, write_tensors
from trueloop.checkpoint.weights import write_weights
from trueloop.errors import CannotSave


def written(tensors: dict[str, torch.Tensor], metadata: dict[str, str] | None = None) -> bytes:
    out = io.BytesIO()
    write_tensors(tensors, out, metadata)
    return out.getvalue()


def some(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Any numbers, of any type."""
    count = torch.Size(shape).numel() * dtype.itemsize
    return (torch.arange(count) % 2).to(torch.uint8).view(dtype).reshape(shape)


@given(st.dictionaries(st.text(max_size=5), st.tuples(st.sampled_from(sorted(DTYPES)), st.lists(st.integers(0, 3)))))
def test_the_library_reads_what_was_written(listed: dict[str, tuple[str, list[int]]]) -> None:
    listed.pop("__metadata__", None)
    tensors = {name: some(DTYPES[kind], *shape[:3]) for name, (kind, shape) in listed.items()}
    read = safetensors.torch.load(written(tensors, {"format": "pt"}))
    assert read.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert (read[name].dtype, read[name].shape) == (tensor.dtype, tensor.shape)
        assert read[name].reshape(-1).view(torch.uint8).tolist() == tensor.reshape(-1).view(torch.uint8).tolist()


def test_every_tensor_is_aligned_to_its_numbers_and_the_header_lists_where_it_is(tmp_path: Path) -> None:
    tensors = {name.lower(): some(dtype, 3) for name, dtype in DTYPES.items()}
    (tmp_path / "a.safetensors").write_bytes(written(tensors))
    for entry in entries_of(tmp_path / "a.safetensors"):
        assert entry.start % tensors[entry.name].element_size() == 0
        assert entry.end - entry.start == 3 * tensors[entry.name].element_size()


@pytest.mark.parametrize("offsets", [[-9, 4], [0, -1], [4, 0], ["a", 4], [0], None])
def test_a_header_with_numbers_that_are_nowhere_is_refused(tmp_path: Path, offsets: object) -> None:
    header = json.dumps({"a": {"dtype": "F32", "shape": [1], "data_offsets": offsets}}).encode()
    (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    with pytest.raises(Exception, match=r"a\.safetensors is not a safetensors file"):
        entries_of(tmp_path / "a.safetensors")


def test_strided_tied_and_conjugate_tensors_are_written_as_their_values() -> None:
    whole, complex_ = torch.arange(6.0).reshape(2, 3), torch.tensor([1 + 2j, 3 - 1j])
    tensors = {"turned": whole.t(), "tied": whole, "again": whole, "conjugate": complex_.conj(), "one": whole[0, 1]}
    read = safetensors.torch.load(written(tensors))
    assert all(torch.equal(read[name], tensor) for name, tensor in tensors.items())


def test_a_type_that_the_format_does_not_have_is_a_sentence_and_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(CannotSave, match=r"x is torch\.complex128, which a safetensors file cannot hold\. Nothing was"):
        write_weights({"x": torch.zeros(1, dtype=torch.complex128)}, tmp_path / "x.safetensors")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not enforce RLIMIT_DATA")
def test_a_file_as_large_as_the_memory_that_is_left_is_written(tmp_path: Path) -> None:
    """The library would need 256 MB more, twice."""

    def work() -> int:
        tensors = {"a": torch.zeros(1 << 26)}
        held = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmData"))
        limit = int(held.split()[1]) * 1024 + (1 << 26)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        write_weights(tensors, tmp_path / "a.safetensors")
        return (tmp_path / "a.safetensors").stat().st_size

    assert in_child(work) > 1 << 28
