"""Hostile files that a user names: `inspect`, `checkpoint`, `predict --input`."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.hostile.canary import Evil
from tests.hostile.pickles import PICKLES
from tests.hostile.texts import SPECIAL
from tests.hostile.verbs import call, refused


def array_header(text: str) -> bytes:
    body = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(body)) + body


def array_of_objects(canary: Path) -> bytes:
    out = io.BytesIO()
    np.save(out, np.array([Evil(canary)], dtype=object), allow_pickle=True)
    return out.getvalue()


def claimed_array(canary: Path) -> bytes:
    return array_header("{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,), }")


def negative_array(canary: Path) -> bytes:
    return array_header("{'descr': '<f8', 'fortran_order': False, 'shape': (-4,), }")


def code_in_header(canary: Path) -> bytes:
    return array_header(f"__import__('os').mkdir({str(canary)!r})")


def nested_header(canary: Path) -> bytes:
    body = b"(" * 60_000 + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(body)) + body


def text_array(canary: Path) -> bytes:
    out = io.BytesIO()
    np.save(out, np.array(["a", "b"]))
    return out.getvalue()


def array_bomb(canary: Path) -> bytes:
    """8 GB of zeros in 8 MB."""
    packing = zlib.compressobj(wbits=-15)
    block = packing.compress(bytes(1 << 24)) + packing.flush(zlib.Z_FULL_FLUSH)
    head = zlib.compressobj(wbits=-15)
    header = array_header("{'descr': '|u1', 'fortran_order': False, 'shape': (3221225472,), }")
    stream = head.compress(header) + head.flush(zlib.Z_FULL_FLUSH) + block * (3 << 6)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        packed.writestr("a.npy", stream)
    data = bytearray(out.getvalue())
    for mark, method, size in ((b"PK\x03\x04", 8, 22), (b"PK\x01\x02", 10, 24)):
        at = data.rfind(mark)
        data[at + method] = zipfile.ZIP_DEFLATED
        data[at + size : at + size + 4] = struct.pack("<I", (3 << 30) + len(header))
    return bytes(data)


ARRAYS: dict[str, Callable[[Path], bytes]] = {
    each.__name__: each
    for each in (array_of_objects, claimed_array, negative_array, code_in_header, nested_header, text_array, array_bomb)
}


def weights_file(header: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header + bytes(8)


WEIGHTS = {
    "endless header": struct.pack("<Q", (1 << 63) - 1) + b"{}",
    "long header": struct.pack("<Q", 99_000_000) + b"{}",
    "deep header": struct.pack("<Q", 100_000) + b'{"a":' * 20_000,
    "list header": struct.pack("<Q", 2) + b"[]",
    "overlap": weights_file(
        b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    ),
    "negative": weights_file(b'{"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}'),
    "overflow": weights_file(b'{"a":{"dtype":"F32","shape":[4294967296,4294967296,2],"data_offsets":[0,8]}}'),
    "unknown type": weights_file(b'{"a":{"dtype":"PYTHON","shape":[2],"data_offsets":[0,8]}}'),
    "empty": b"",
    "steering": weights_file(b'{"\\u001b[2J":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}'),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays(name: str, work: Path, canary: Path) -> None:
    file = Path("x.npz" if name == "array_bomb" else "x.npy")
    file.write_bytes(ARRAYS[name](canary))
    refused(call("inspect", "tensor", file), r"x\.np[yz] (holds|is damaged|was refused)")
    refused(call("inspect", "checkpoint", file), r"x\.np[yz] (holds|is damaged|was refused)")


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights(name: str, work: Path) -> None:
    Path("x.safetensors").write_bytes(WEIGHTS[name])
    refused(call("inspect", "checkpoint", "x.safetensors"), "not a safetensors file")


@pytest.mark.parametrize("name", [*("evil", "own_function", "expanded", "doubled", "script", "escapes", "deep")])
def test_pickles(name: str, work: Path, canary: Path) -> None:
    Path("x.pt").write_bytes(PICKLES[name](canary))
    refused(call("inspect", "checkpoint", "x.pt"), r"x\.pt (is|was)")


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("suffix", ["pt", "npy", "safetensors"])
def test_files_that_are_not_files(kind: str, suffix: str, work: Path) -> None:
    SPECIAL[kind](Path(f"x.{suffix}"))
    refused(call("inspect", "checkpoint", f"x.{suffix}"))


@pytest.mark.long
@pytest.mark.parametrize("name", [*ARRAYS, "evil", "expanded", "grown_storage"])
def test_predict(name: str, work: Path, canary: Path) -> None:
    made = {**ARRAYS, **PICKLES}[name](canary)
    file = Path("x.npy" if name in ARRAYS else "x.pt")
    file.write_bytes(made)
    refused(call("predict", "runs/good", "--input", file))
