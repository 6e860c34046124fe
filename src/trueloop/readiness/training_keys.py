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
from trueloop.trust.files import open_regular, printable
from trueloop.trust.made_here import is_trusted

__all__ = ["ForeignCode", "NotReadable", "answer_keys", "keys_of"]

SECONDS: Final = 20.0
MEMORY: Final = 1 << 28
SMALL: Final = 1 << 26
"""Bytes of an own file that is hashed to be sure: for a larger one, a confined process starts sooner."""
_MOST: Final = 1 << 20  # Bytes of the answer
_PLAIN: Final = frozenset(
    {"collections.OrderedDict", "collections.Counter", "_codecs.encode"}
    | {"builtins.bytearray", "builtins.set", "builtins.complex"}
)
"""Names outside torch that `torch.load(weights_only=True)` accepts."""


class ForeignCode(Exception):
    """The file names a function that `torch.load(weights_only=True)` refuses; the text is its name."""


class NotReadable(Exception):
    """It is not a file of torch.save; the text is the kind of error."""


def keys_of(file: Path) -> set[str]:
    """Raises ForeignCode, NotReadable, or Absent where the file could not be read to the end."""
    try:
        with open_regular(file) as opened:
            if is_trusted() or _is_own(file):
                return set(_keys(opened))
            limits = Limits.of(0, memory=MEMORY, seconds=SECONDS)
            answer = read_confined(f"{__name__}:answer_keys", opened.fileno(), limits, _MOST)
        return {str(key) for key in json.loads(answer)}
    except ForeignCode:
        raise
    except Exception as error:  # noqa: BLE001 - a pickle can make its reader raise anything
        kind = error.kind if isinstance(error, Refused) else type(error).__name__
        if kind == ForeignCode.__name__:
            raise ForeignCode(str(error)) from None
        if isinstance(error, OSError) or kind in LIMITS:
            where = f"checkpoints/{file.parent.name}/{file.name}"
            raise Absent(where, f"it cannot be read: {str(error)[:200]}") from None
        raise NotReadable(kind) from None


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

    def find_class(self, module: str, name: str) -> Any:
        called = f"{'builtins' if module == '__builtin__' else module}.{name}"
        if called not in _PLAIN and (module.partition(".")[0] != "torch" or name == "_load_from_bytes"):
            raise ForeignCode(printable(called)[:120])
        return _Stub

    def persistent_load(self, _: Any) -> Any:
        return None
