"""Where checkpoints lie. A name appears only when all its files are whole on the disk: written aside, synced, renamed.

FOLDER/step-00000120/manifest.json        what it is, and size and SHA-256 of each file; hashed itself
                     model.safetensors    weights; ema.safetensors: their moving average
                     training.pt          optimizer, counters, random states: read with weights_only=True

A run that is spread over processes writes the same in pieces: `sharded.py`.

Which one is the best is told by the newest manifest, in the same stroke that made it appear: no second file can
disagree with it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, final

from trueloop.checkpoint.plan import name_of, step_of
from trueloop.checkpoint.sharded import SHARDED
from trueloop.errors import BadCheckpoint, CannotSave

__all__ = ["FORMAT", "MANIFEST", "Folder", "Memory", "Store", "Writer", "sealed", "unsealed"]

Writer = Callable[[BinaryIO], object]
FORMAT: Final = 1
"""Of a manifest; a later one than those known is refused with a sentence."""
KNOWN: Final = (FORMAT, SHARDED)
MANIFEST: Final = "manifest.json"
_WRITING: Final = ".writing-"
_REPLACED: Final = ".replaced-"
_REMOVING: Final = ".removing-"
_BLOCK: Final = 1 << 20
_FILE: Final = re.compile(r"[\w-][\w.-]*")
"""A file's name in a manifest: never a path that leads elsewhere."""


class Store(ABC):
    """Checkpoints by name."""

    @abstractmethod
    def names(self) -> list[str]:
        """Complete checkpoints, oldest first."""

    def write(self, name: str, about: Mapping[str, Any], files: Mapping[str, Writer]) -> str:
        """All or nothing; where it is now. Raises CannotSave."""
        try:
            self.begin(name)
            return self.seal(name, about, {file: self.put(name, file, writer) for file, writer in files.items()})
        except OSError as error:
            self.abandon(name)
            raise self.refusal(name, str(error.strerror or error)) from error

    def refusal(self, name: str, reason: str) -> CannotSave:
        """In words, with what there is instead."""
        kept = [each for each in self.names() if each != name]
        whole = f"{self.where(kept[-1])} is untouched" if kept else "there is no earlier one"
        return CannotSave(f"The checkpoint {self.where(name)} could not be written ({reason}); {whole}.")

    @abstractmethod
    def begin(self, name: str) -> None:
        """An empty place for its files, aside. By one process; then any may `put`. Raises OSError."""

    @abstractmethod
    def put(self, name: str, file: str, writer: Writer) -> dict[str, Any]:
        """One file of it, whole on the disk; its size and hash. Raises OSError."""

    @abstractmethod
    def seal(self, name: str, about: Mapping[str, Any], files: Mapping[str, Mapping[str, Any]]) -> str:
        """All its files are there: with its manifest it appears under its name, in one stroke; where. Raises
        OSError."""

    @abstractmethod
    def abandon(self, name: str) -> None:
        """What was put aside goes."""

    @abstractmethod
    def manifest(self, name: str) -> dict[str, Any]:
        """What it says of itself. Raises BadCheckpoint."""

    @abstractmethod
    def read(self, name: str, file: str) -> bytes:
        """The contents of a file, verified against its hash. Raises BadCheckpoint."""

    def verify(self, name: str, file: str) -> None:
        """The same, for those who do not want the contents yet."""
        self.read(name, file)

    @abstractmethod
    def remove(self, name: str) -> None:
        """Gone, or never seen half gone."""

    @abstractmethod
    def where(self, name: str) -> str:
        """How a person finds it."""

    def best(self) -> str | None:
        """The best one, by the newest manifest that can be read; None: there is none yet."""
        names = self.names()
        for name in reversed(names):
            try:
                step = self.manifest(name).get("best_step")
            except BadCheckpoint:
                continue  # whoever reads this checkpoint is told; the one before it knows its own best
            found = name_of(step) if isinstance(step, int) else None
            return found if found in names else None
        return None


def sealed(about: Mapping[str, Any]) -> bytes:
    """JSON that carries its own hash."""
    body = json.dumps(about, sort_keys=True)
    return (
        json.dumps({"sha256": hashlib.sha256(body.encode()).hexdigest(), **about}, sort_keys=True, indent=1) + "\n"
    ).encode()


def unsealed(data: bytes, shown: str) -> dict[str, Any]:
    try:
        about = json.loads(data)
        claimed = about.pop("sha256")
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        raise BadCheckpoint(f"{shown} is damaged: it is no sealed JSON.") from None
    if hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest() != claimed:
        raise BadCheckpoint(f"{shown} is damaged: its contents do not have the hash it names.")
    return dict(about)


def understood(manifest: dict[str, Any], shown: str) -> dict[str, Any]:
    """A manifest of a format that we know, which names files of its own folder only."""
    if manifest.get("format", FORMAT) not in KNOWN:
        raise BadCheckpoint(
            f"{shown} has format {manifest['format']!r}, and this trueloop reads up to {max(KNOWN)}: use a newer one."
        )
    files = manifest.get("files")
    if not isinstance(files, dict) or not all(
        _FILE.fullmatch(file) and isinstance(entry, dict) and type(entry.get("bytes")) is int
        for file, entry in files.items()
    ):
        raise BadCheckpoint(f"{shown} is not to be trusted: it does not list plain files.")
    return manifest


def verified(data: bytes, manifest: Mapping[str, Any], file: str, shown: str) -> bytes:
    _compared(len(data), hashlib.sha256(data).hexdigest(), manifest, file, shown)
    return data


def _compared(size: int, digest: str, manifest: Mapping[str, Any], file: str, shown: str) -> None:
    expected = manifest["files"].get(file)
    if expected is None:
        raise BadCheckpoint(f"{shown} is not among the files of its manifest.")
    if size != expected.get("bytes"):
        raise BadCheckpoint(f"{shown} is damaged: {size:,} bytes instead of {expected.get('bytes'):,}.")
    if digest != expected.get("sha256"):
        raise BadCheckpoint(f"{shown} is damaged: its contents do not have the hash that the manifest names.")


@final
class _Hashing:
    """A file that knows the hash and the size of what went through it, and why a write failed: torch.save would hide
    the reason."""

    def __init__(self, file: io.FileIO) -> None:
        self.file, self.digest, self.size = file, hashlib.sha256(), 0
        self.failure: OSError | None = None

    def write(self, data: Any) -> int:
        left = memoryview(data).cast("B")
        self.digest.update(left)
        self.size += left.nbytes
        try:
            while left.nbytes:  # a disk that is nearly full takes a part, and refuses the rest
                left = left[self.file.write(left) :]
        except OSError as error:
            self.failure = self.failure or error
            raise
        return len(data)

    def flush(self) -> None:
        """Nothing is held back."""


@final
class Folder(Store):
    """On a disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._fresh = not folder.parent.exists()

    def names(self) -> list[str]:
        if not self.folder.is_dir():
            return []
        found = [path.name for path in self.folder.iterdir() if step_of(path.name) is not None and path.is_dir()]
        return sorted(found, key=lambda name: step_of(name) or 0)

    def begin(self, name: str) -> None:
        self._open()
        self.abandon(name)
        self._aside(name).mkdir()

    def put(self, name: str, file: str, writer: Writer) -> dict[str, Any]:
        return _written(self._aside(name) / file, writer)

    def seal(self, name: str, about: Mapping[str, Any], files: Mapping[str, Mapping[str, Any]]) -> str:
        manifest = sealed({"format": FORMAT, **about, "files": files})
        self.put(name, MANIFEST, lambda out: out.write(manifest))
        _sync(self._aside(name))
        self._put(self._aside(name), name)
        return self.where(name)

    def abandon(self, name: str) -> None:
        shutil.rmtree(self._aside(name), ignore_errors=True)

    def _aside(self, name: str) -> Path:
        return self.folder / f"{_WRITING}{name}"

    def _open(self) -> None:
        """Made if it is not there. A parent that was there and is gone is not made again: a removed run must not come
        back as a shell."""
        if not self.folder.is_dir():
            self.folder.mkdir(parents=self._fresh)
            _sync(self.folder.parent)
        self._fresh = False

    def _put(self, aside: Path, name: str) -> None:
        """Into its place. What was there is moved out of the way first, and comes back by `sweep` if a kill falls in
        between."""
        place, before = self.folder / name, self.folder / f"{_REPLACED}{name}"
        if place.exists():
            shutil.rmtree(before, ignore_errors=True)
            place.rename(before)
        aside.rename(place)
        _sync(self.folder)
        shutil.rmtree(before, ignore_errors=True)

    def manifest(self, name: str) -> dict[str, Any]:
        shown = self.folder / name / MANIFEST
        return understood(unsealed(self._bytes(shown), str(shown)), str(shown))

    def read(self, name: str, file: str) -> bytes:
        shown = self.folder / name / file
        return verified(self._bytes(shown), self.manifest(name), file, str(shown))

    def verify(self, name: str, file: str) -> None:
        """A block at a time: a piece may be larger than the memory that is left."""
        shown, digest, size = self.folder / name / file, hashlib.sha256(), 0
        try:
            with shown.open("rb") as opened:
                while block := opened.read(_BLOCK):
                    digest.update(block)
                    size += len(block)
        except FileNotFoundError:
            raise BadCheckpoint(f"{shown} is missing.") from None
        except OSError as error:
            raise BadCheckpoint(f"{shown} cannot be read ({error.strerror}).") from None
        _compared(size, digest.hexdigest(), self.manifest(name), file, str(shown))

    def _bytes(self, path: Path) -> bytes:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            raise BadCheckpoint(f"{path} is missing.") from None
        except OSError as error:
            raise BadCheckpoint(f"{path} cannot be read ({error.strerror}).") from None

    def remove(self, name: str) -> None:
        # Renamed first: a kill in the middle must not leave a checkpoint that looks whole.
        going = self.folder / f"{_REMOVING}{name}"
        shutil.rmtree(going, ignore_errors=True)
        try:
            (self.folder / name).rename(going)
        except FileNotFoundError:
            return  # somebody else has removed it
        except OSError as error:
            raise CannotSave(
                f"The old checkpoint {self.folder / name} could not be removed ({error.strerror})."
            ) from error
        shutil.rmtree(going, ignore_errors=True)

    def sweep(self) -> None:
        """Tidy up after a killed process: what it was replacing comes back, what it left half written or half removed
        goes."""
        for path in self.folder.glob(f"{_REPLACED}*"):
            place = self.folder / path.name.removeprefix(_REPLACED)
            if not place.exists():
                path.rename(place)
        for path in self.folder.glob(".*ing-step-*"):
            shutil.rmtree(path, ignore_errors=True)
        for path in self.folder.glob(f"{_REPLACED}*"):
            shutil.rmtree(path, ignore_errors=True)

    def where(self, name: str) -> str:
        return str(self.folder / name)


def _written(path: Path, writer: Writer) -> dict[str, Any]:
    with path.open("wb", buffering=0) as file:
        through = _Hashing(file)
        try:
            writer(through)  # type: ignore[arg-type]  # it writes, and that is all it may do
        except Exception:
            if through.failure is not None:
                raise through.failure from None  # the disk's own word, not what the writer made of it
            raise
        os.fsync(file.fileno())
    return {"sha256": through.digest.hexdigest(), "bytes": through.size}


def _sync(folder: Path) -> None:
    """A rename is safe when the folder that holds the name has reached the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@final
class Memory(Store):
    """The fake: for tests, and for runs that are to leave nothing behind."""

    def __init__(self) -> None:
        self._held: dict[str, dict[str, bytes]] = {}
        self._aside: dict[str, dict[str, bytes]] = {}

    def names(self) -> list[str]:
        return sorted(self._held, key=lambda name: step_of(name) or 0)

    def begin(self, name: str) -> None:
        self._aside[name] = {}

    def put(self, name: str, file: str, writer: Writer) -> dict[str, Any]:
        buffer = io.BytesIO()
        writer(buffer)
        data = self._aside[name][file] = buffer.getvalue()
        return {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}

    def seal(self, name: str, about: Mapping[str, Any], files: Mapping[str, Mapping[str, Any]]) -> str:
        manifest = sealed({"format": FORMAT, **about, "files": files})
        self._held[name] = {**self._aside.pop(name), MANIFEST: manifest}
        return self.where(name)

    def abandon(self, name: str) -> None:
        self._aside.pop(name, None)

    def manifest(self, name: str) -> dict[str, Any]:
        if name not in self._held:
            raise BadCheckpoint(f"{self.where(name)} is missing.")
        return understood(unsealed(self._held[name][MANIFEST], self.where(name)), self.where(name))

    def read(self, name: str, file: str) -> bytes:
        return verified(self._held[name].get(file, b""), self.manifest(name), file, f"{self.where(name)}/{file}")

    def remove(self, name: str) -> None:
        self._held.pop(name, None)

    def where(self, name: str) -> str:
        return f"memory:{name}"
