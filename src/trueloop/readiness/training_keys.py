"""The keys of the dict in training.pt, without torch: no class is imported, no tensor is read.

A pickle can take forever to read, or all memory, without executing anything. So one that this user did not write here
is read in a confined process.
"""

import json
import pickle
import zipfile
from pathlib import Path
from typing import Any, BinaryIO, Final

from trueloop.checkpoint.store import Folder
from trueloop.errors import BadCheckpoint
from trueloop.readiness.record import Absent
from trueloop.trust.confine.client import LIMITS, Refused, read_confined
from trueloop.trust.confine.limits import Limits
from trueloop.trust.files import open_regular
from trueloop.trust.made_here import is_trusted

__all__ = ["answer_keys", "keys_of"]

SECONDS: Final = 20.0
MEMORY: Final = 1 << 28
SMALL: Final = 1 << 26
"""Bytes of an own file that is hashed to be sure: for a larger one, a confined process starts sooner."""
_MOST: Final = 1 << 20  # Bytes of the answer


def keys_of(file: Path) -> set[str]:
    """Raises Absent."""
    try:
        with open_regular(file) as opened:
            if is_trusted() or _is_own(file):
                return set(_keys(opened))
            limits = Limits.of(0, memory=MEMORY, seconds=SECONDS)
            answer = read_confined(f"{__name__}:answer_keys", opened.fileno(), limits, _MOST)
        return {str(key) for key in json.loads(answer)}
    except Exception as error:  # noqa: BLE001 - a pickle can make its reader raise anything
        why = f"{error}" if not isinstance(error, Refused) or error.kind in LIMITS else f"{error.kind}: {error}"
        where = f"checkpoints/{file.parent.name}/{file.name}"
        raise Absent(where, f"it cannot be read: {why[:200]}") from None


def _is_own(file: Path) -> bool:
    store, name = Folder(file.parent.parent), file.parent.name
    try:
        if file.stat().st_size > SMALL or not store.is_own(store.manifest(name)):
            return False
        store.verify(name, file.name)
    except BadCheckpoint:
        return False
    return True


def answer_keys(file: BinaryIO, out: BinaryIO) -> None:
    """In the confined process."""
    out.write(json.dumps(_keys(file)).encode())


def _keys(file: BinaryIO) -> list[str]:
    with zipfile.ZipFile(file) as packed:
        inside = next((name for name in packed.namelist() if name.endswith("/data.pkl")), None)
        if inside is None:
            raise ValueError("it is not a file of torch.save")
        with packed.open(inside) as pickled:
            found = _KeyReader(pickled).load()
    return [str(key) for key in found] if isinstance(found, dict) else []


class _Stub:
    """Replaces every class in the file: nothing is imported or executed."""

    def __new__(cls, *_: Any, **__: Any) -> Any:
        return object.__new__(cls)

    def __setstate__(self, _: Any) -> None: ...

    def __setitem__(self, _: Any, __: Any) -> None: ...

    def __call__(self, *_: Any) -> Any:
        return self


class _KeyReader(pickle.Unpickler):
    """Reads the keys of a torch.save file, without its tensors."""

    def find_class(self, _: str, __: str) -> Any:
        return _Stub

    def persistent_load(self, _: Any) -> Any:
        return None
