"""Contents of a hostile training.pt or other file of torch.save: name -> (bytes, what the refusal says)."""

from __future__ import annotations

import io
import pickle
import pickletools
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import torch

from tests.hostile.canary import Evil

PROTOCOL = b"\x80\x02"


def archive(
    pickled: bytes, storages: dict[str, bytes] | None = None, *, compressed: bool = False, root: str = "archive"
) -> bytes:
    """As torch.save writes it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED) as packed:
        packed.writestr(f"{root}/data.pkl", pickled)
        packed.writestr(f"{root}/byteorder", b"little")
        for name, data in (storages or {}).items():
            packed.writestr(f"{root}/data/{name}", data)
        packed.writestr(f"{root}/version", b"3\n")
    return out.getvalue()


def _dict(inside: bytes) -> bytes:
    """The pickle of {"state": inside}."""
    return PROTOCOL + b"}(X\x05\x00\x00\x00state" + inside + b"u."


def _tensor(elements: int, shape: tuple[int, ...], stride: tuple[int, ...], offset: int = 0) -> bytes:
    """A tensor of float32 over storage "0", which has so many elements."""
    storage = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu"
    storage += pickle.dumps(elements, 2)[2:-1] + b"tQ"
    sizes = pickle.dumps(shape, 2)[2:-1] + pickle.dumps(stride, 2)[2:-1]
    hooks = b"ccollections\nOrderedDict\n)R"
    start = pickle.dumps(offset, 2)[2:-1]
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + start + sizes + b"\x89" + hooks + b"tR"


def evil(canary: Path) -> bytes:
    return archive(pickletools.optimize(pickle.dumps({"state": Evil(canary)}, 2)))


def evil_without_archive(canary: Path) -> bytes:
    return pickle.dumps({"state": Evil(canary)}, 2)


def nested_load(canary: Path) -> bytes:
    """torch has a function that unpickles bytes."""
    inner = pickle.dumps(Evil(canary), 2)
    return archive(_dict(b"ctorch.storage\n_load_from_bytes\n(B" + struct.pack("<I", len(inner)) + inner + b"tR"))


def imports(canary: Path) -> bytes:
    return archive(_dict(b"cantigravity\nfly\n"))


def own_function(canary: Path) -> bytes:
    """A function of trueloop that would write."""
    path = str(canary).encode()
    return archive(
        _dict(b"ctrueloop.cli.main\nmain\n(](X\x02\x00\x00\x00uiX" + struct.pack("<I", len(path)) + path + b"etR")
    )


def hash_bomb(canary: Path) -> bytes:
    """A tuple of two of the one before, 60 times, as a key: its hash takes 2 ** 60 steps."""
    steps = b"](K\x00q\x00" + b"".join(b"h%ch%c\x86q%c" % (at, at, at + 1) for at in range(60)) + b"e"
    return archive(PROTOCOL + b"}(X\x05\x00\x00\x00state" + steps + b"h\x3cK\x01u.")


def collisions(canary: Path) -> bytes:
    """Numbers with one hash, as keys: each is compared with all before it."""
    prime = (1 << 61) - 1
    keys = b"".join(pickle.dumps(prime * number, 2)[2:-1] + b"N" for number in range(1, 120_000))
    return archive(PROTOCOL + b"}(" + keys + b"u.")


def laughs(canary: Path) -> bytes:
    """A list of two of the one before, 40 times: 2 ** 40 values in 300 bytes."""
    return archive(_dict(b"](]q\x00" + b"".join(b"](h%ch%ceq%c" % (at, at, at + 1) for at in range(40)) + b"e"))


def endless_list(canary: Path) -> bytes:
    """A list that contains itself."""
    return archive(_dict(b"]q\x00h\x00a"))


def deep(canary: Path) -> bytes:
    return archive(_dict(b"](" * 50_000 + b"e" * 50_000))


def deep_tuple(canary: Path) -> bytes:
    return archive(_dict(b")" + b"\x85" * 200_000))


def grown_pickle(canary: Path) -> bytes:
    """4 GB of zeros inside a string, which compress to 4 MB: here a part of it that says it is more."""
    return archive(PROTOCOL + b"B" + struct.pack("<I", (1 << 32) - 1) + bytes(1 << 20), compressed=True)


def grown_storage(canary: Path) -> bytes:
    """3 GB of zeros as one compressed storage, in 3 MB."""
    packing = zlib.compressobj(wbits=-15)
    block = packing.compress(bytes(1 << 24)) + packing.flush(zlib.Z_FULL_FLUSH)  # can be repeated
    data = bytearray(archive(_dict(_tensor(3 << 28, (3 << 28,), (1,))), {"0": block * (3 << 6)}))
    for mark, method, size in ((b"PK\x03\x04", 8, 22), (b"PK\x01\x02", 10, 24)):
        at = data.rfind(mark, 0, data.rfind(mark))  # the last but one: the storage
        data[at + method] = zipfile.ZIP_DEFLATED
        data[at + size : at + size + 4] = struct.pack("<I", 3 << 30)
    return bytes(data)


def doubled(canary: Path) -> bytes:
    """Bytes that are joined with themselves in a tuple of tuples would be 3.75 GB if they were copied."""
    text = b"X" + struct.pack("<I", 600_000) + b"a" * 600_000 + b"q\x00"
    return archive(_dict(b"](" + text + b"h\x00" * 6250 + b"e"))


def expanded(canary: Path) -> bytes:
    """One number, shown as 4 TB by a stride of 0."""
    return archive(_dict(_tensor(1, (1 << 40,), (0,))), {"0": bytes(4)})


def beyond(canary: Path) -> bytes:
    """A tensor that is larger than its storage."""
    return archive(_dict(_tensor(4, (1000,), (1,))), {"0": bytes(16)})


def before(canary: Path) -> bytes:
    return archive(_dict(_tensor(4, (2,), (1,), offset=-4)), {"0": bytes(16)})


def lying_storage(canary: Path) -> bytes:
    """Its record is shorter than it says."""
    return archive(_dict(_tensor(1 << 30, (1 << 30,), (1,))), {"0": bytes(16)})


def long_number(canary: Path) -> bytes:
    return archive(_dict(b"\x8b" + struct.pack("<i", 2_000_000) + b"\x7f" * 2_000_000))


def claimed_length(canary: Path) -> bytes:
    return archive(_dict(b"\x8e" + struct.pack("<Q", 1 << 62)))


def memo_bomb(canary: Path) -> bytes:
    """A memo entry of a number that makes a table of 4 billion entries."""
    return archive(_dict(b"Nr\xff\xff\xff\xff"))


def encrypted(canary: Path) -> bytes:
    data = bytearray(archive(_dict(b"N")))
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        found = data.find(mark)
        while found >= 0:
            data[found + at] |= 1
            found = data.find(mark, found + 1)
    return bytes(data)


def truncated(canary: Path) -> bytes:
    out = io.BytesIO()
    torch.save({"state": torch.zeros(1000)}, out)
    return out.getvalue()[:-700]


def two_pickles(canary: Path) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        packed.writestr("archive/data.pkl", _dict(b"N"))
        packed.writestr("other/data.pkl", pickle.dumps(Evil(canary), 2))
    return out.getvalue()


def script(canary: Path) -> bytes:
    """A TorchScript archive under the name of a checkpoint."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        packed.writestr("archive/data.pkl", _dict(b"N"))
        packed.writestr("archive/constants.pkl", pickle.dumps((), 2))
        packed.writestr("archive/code/__torch__.py", "def forward(self): return torch.from_file('/etc/passwd')")
        packed.writestr("archive/version", b"3\n")
    return out.getvalue()


def not_a_dict(canary: Path) -> bytes:
    out = io.BytesIO()
    torch.save([torch.zeros(3)], out)
    return out.getvalue()


def empty(canary: Path) -> bytes:
    return b""


def noise(canary: Path) -> bytes:
    return bytes(range(256)) * 40


def zip_without_pickle(canary: Path) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        packed.writestr("archive/readme", "x")
    return out.getvalue()


def many_members(canary: Path) -> bytes:
    return archive(_dict(b"N"), {str(number): b"" for number in range(20_000)})


def escapes(canary: Path) -> bytes:
    """Keys and names that steer a terminal."""
    return archive(_dict(b"c\x1b[2Jevil\n\x1b]0;x\x07\n"))


PICKLES: dict[str, Callable[[Path], bytes]] = {
    each.__name__: each
    for each in (
        evil, evil_without_archive, nested_load, imports, own_function, hash_bomb, collisions, laughs, endless_list,
        deep, deep_tuple, grown_pickle, grown_storage, doubled, expanded, beyond, before, lying_storage, long_number,
        claimed_length, memo_bomb, encrypted, truncated, two_pickles, script, not_a_dict, empty, noise,
        zip_without_pickle, many_members, escapes,
    )
}  # fmt: skip
