"""Storage of checkpoints. A name appears only when all its files are complete: written to a temporary folder, synced,
renamed.

FOLDER/step-00000120/manifest.json        description, size and SHA-256 of each file, and its own hash
                     model.safetensors    weights; ema.safetensors: their moving average
                     training.pt          optimizer, counters, random states: loaded with weights_only=True

A sharded run writes the same in pieces: `sharded.py`. The newest manifest names the best checkpoint, so no second file
can disagree with it.
"""

import hashlib
import io
import json
import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, final

from trueloop.checkpoint.plan import name_of, step_of
from trueloop.checkpoint.sharded import SHARDED
from trueloop.errors import BadCheckpoint, CannotSave
from trueloop.trust.checkpoints import MADE_HERE, checkpoint_stamp, is_own_checkpoint
from trueloop.trust.files import open_regular, read_regular

__all__ = ["MANIFEST", "Folder", "Memory", "Store", "Writer", "seal_json", "unseal_json"]

Writer = Callable[[BinaryIO], object]
FORMAT: Final = 1  # Of a manifest; unknown formats are refused
KNOWN: Final = (FORMAT, SHARDED)
MANIFEST: Final = "manifest.json"
MOST_MANIFEST: Final = 1 << 28  # Bytes: a table of a million pieces
_WRITING: Final = ".writing-"
_REPLACED: Final = ".replaced-"
_REMOVING: Final = ".removing-"
_BLOCK: Final = 1 << 20
_FILE: Final = re.compile(r"[\w-][\w.-]*")  # A file name in a manifest: never a path to another folder


class Store(ABC):
    """Checkpoints by name."""

    @abstractmethod
    def names(self) -> list[str]:
        """Complete checkpoints, oldest first."""

    def write(self, name: str, about: Mapping[str, Any], files: Mapping[str, Writer]) -> str:
        """Write all or nothing; returns the location. Raises CannotSave."""
        try:
            self.begin(name)
            return self.seal(name, about, {file: self.put(name, file, writer) for file, writer in files.items()})
        except OSError as error:
            self.abandon(name)
            raise self.refusal(name, str(error.strerror or error)) from error

    def refusal(self, name: str, reason: str) -> CannotSave:
        """An error that names the newest checkpoint that is still there."""
        kept = [each for each in self.names() if each != name]
        earlier = f"{self.where(kept[-1])} is untouched" if kept else "there is no earlier one"
        return CannotSave(f"The checkpoint {self.where(name)} could not be written ({reason}); {earlier}.")

    @abstractmethod
    def begin(self, name: str) -> None:
        """Create an empty temporary folder. One process calls it; then any may `put`. Raises OSError."""

    @abstractmethod
    def put(self, name: str, file: str, writer: Writer) -> dict[str, Any]:
        """Write and sync one file; returns its size and hash. Raises OSError."""

    @abstractmethod
    def seal(self, name: str, about: Mapping[str, Any], files: Mapping[str, Mapping[str, Any]]) -> str:
        """Write the manifest and publish the checkpoint atomically; returns the location. Raises OSError."""

    @abstractmethod
    def abandon(self, name: str) -> None:
        """Remove the temporary files."""

    @abstractmethod
    def manifest(self, name: str) -> dict[str, Any]:
        """The validated manifest. Raises BadCheckpoint."""

    @abstractmethod
    def read(self, name: str, file: str) -> bytes:
        """The contents of a file, verified against its hash. Raises BadCheckpoint."""

    def verify(self, name: str, file: str) -> None:
        """As `read`, without returning the contents."""
        self.read(name, file)

    def is_own(self, manifest: Mapping[str, Any]) -> bool:
        """Whether this user has written these files on this machine."""
        return is_own_checkpoint(manifest)

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a checkpoint atomically."""

    @abstractmethod
    def where(self, name: str) -> str:
        """The location, for messages."""

    def best(self) -> str | None:
        """The best checkpoint, according to the newest readable manifest; None if there is none yet."""
        names = self.names()
        for name in reversed(names):
            try:
                step = self.manifest(name).get("best_step")
            except BadCheckpoint:
                continue  # reading this checkpoint reports the damage; the previous manifest names a best one too
            best = name_of(step) if isinstance(step, int) else None
            return best if best in names else None
        return None


def seal_json(about: Mapping[str, Any]) -> bytes:
    """JSON that contains its own hash."""
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    return f"{json.dumps({'sha256': digest, **about}, sort_keys=True, indent=1)}\n".encode()


def unseal_json(data: bytes, shown: str) -> dict[str, Any]:
    try:
        about = json.loads(data)
        claimed = about.pop("sha256")
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        raise BadCheckpoint(f"{shown} is damaged: it is not JSON with a hash.") from None
    if hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest() != claimed:
        raise BadCheckpoint(f"{shown} is damaged: its contents do not match its hash.")
    return dict(about)


def check_manifest(manifest: dict[str, Any], shown: str) -> dict[str, Any]:
    """The manifest, if its format is known and it names only files of its own folder."""
    if manifest.get("format", FORMAT) not in KNOWN:
        format, newest = manifest["format"], max(KNOWN)
        raise BadCheckpoint(f"{shown} has format {format!r}; this trueloop reads up to {newest}: use a newer trueloop.")
    files = manifest.get("files")
    entries = files.items() if isinstance(files, dict) else [("", None)]
    plain = ((_FILE.fullmatch(file), entry) for file, entry in entries)
    if not all(named and isinstance(entry, dict) and type(entry.get("bytes")) is int for named, entry in plain):
        raise BadCheckpoint(f"{shown} is invalid: it lists something other than plain files.")
    return manifest


def _check_data(data: bytes, manifest: Mapping[str, Any], file: str, shown: str) -> bytes:
    _check_hash(len(data), hashlib.sha256(data).hexdigest(), manifest, file, shown)
    return data


def _check_size(size: int, manifest: Mapping[str, Any], file: str, shown: str) -> None:
    expected = manifest["files"].get(file)
    if expected is None:
        raise BadCheckpoint(f"{shown} is not among the files of its manifest.")
    if size != expected.get("bytes"):
        raise BadCheckpoint(f"{shown} is damaged: {size:,} bytes instead of {expected.get('bytes'):,}.")


def _check_hash(size: int, digest: str, manifest: Mapping[str, Any], file: str, shown: str) -> None:
    _check_size(size, manifest, file, shown)
    if digest != manifest["files"][file].get("sha256"):
        raise BadCheckpoint(f"{shown} is damaged: its contents do not match the hash in the manifest.")


@final
class _HashingFile:
    """Computes hash and size of the written data, and keeps the OSError of a failed write, which torch.save hides."""

    def __init__(self, file: io.FileIO) -> None:
        self.file, self.digest, self.size = file, hashlib.sha256(), 0
        self.failure: OSError | None = None

    def write(self, data: Any) -> int:
        left = memoryview(data).cast("B")
        self.digest.update(left)
        self.size += left.nbytes
        try:
            while left.nbytes:  # a nearly full disk accepts only a part
                left = left[self.file.write(left) :]
        except OSError as error:
            self.failure = self.failure or error
            raise
        return len(data)

    def flush(self) -> None:
        """Nothing is buffered."""


@final
class Folder(Store):
    """Checkpoints on a disk."""

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
        return _write_file(self._aside(name) / file, writer)

    def seal(self, name: str, about: Mapping[str, Any], files: Mapping[str, Mapping[str, Any]]) -> str:
        stamped = {MADE_HERE: checkpoint_stamp(files)}
        manifest = seal_json({"format": FORMAT, **about, "files": files, **stamped})
        self.put(name, MANIFEST, lambda out: out.write(manifest))
        _sync(self._aside(name))
        self._put(self._aside(name), name)
        return self.where(name)

    def abandon(self, name: str) -> None:
        shutil.rmtree(self._aside(name), ignore_errors=True)

    def _aside(self, name: str) -> Path:
        return self.folder / f"{_WRITING}{name}"

    def _open(self) -> None:
        """Create the folder. A parent that has been removed since is not created again: its run was deleted."""
        if not self.folder.is_dir():
            self.folder.mkdir(parents=self._fresh)
            _sync(self.folder.parent)
        self._fresh = False

    def _put(self, aside: Path, name: str) -> None:
        """Rename into place. An existing checkpoint is renamed first; `sweep` restores it after a kill in between."""
        place, before = self.folder / name, self.folder / f"{_REPLACED}{name}"
        if place.exists():
            shutil.rmtree(before, ignore_errors=True)
            place.rename(before)
        aside.rename(place)
        _sync(self.folder)
        shutil.rmtree(before, ignore_errors=True)

    def manifest(self, name: str) -> dict[str, Any]:
        shown = self.folder / name / MANIFEST
        with _reading(shown):
            data = read_regular(shown, MOST_MANIFEST)
        return check_manifest(unseal_json(data, str(shown)), str(shown))

    def read(self, name: str, file: str) -> bytes:
        shown = self.folder / name / file
        manifest = self.manifest(name)
        with _reading(shown), open_regular(shown) as opened:
            _check_size(os.fstat(opened.fileno()).st_size, manifest, file, str(shown))  # before it fills the memory
            data = opened.read()
        return _check_data(data, manifest, file, str(shown))

    def verify(self, name: str, file: str) -> None:
        """One block at a time: a file may be larger than the free memory."""
        shown, digest, size, manifest = self.folder / name / file, hashlib.sha256(), 0, self.manifest(name)
        with _reading(shown), open_regular(shown) as opened:
            _check_size(os.fstat(opened.fileno()).st_size, manifest, file, str(shown))
            while block := opened.read(_BLOCK):
                digest.update(block)
                size += len(block)
        _check_hash(size, digest.hexdigest(), manifest, file, str(shown))

    def remove(self, name: str) -> None:
        # Renamed first: a kill in between must not leave a checkpoint that looks complete.
        going = self.folder / f"{_REMOVING}{name}"
        shutil.rmtree(going, ignore_errors=True)
        try:
            (self.folder / name).rename(going)
        except FileNotFoundError:
            return  # another process has removed it
        except OSError as error:
            raise CannotSave(f"The old checkpoint {self.where(name)} cannot be removed ({error.strerror}).") from error
        shutil.rmtree(going, ignore_errors=True)

    def sweep(self) -> None:
        """Clean up after a killed process: restore a checkpoint that it was replacing, remove partial files."""
        for path in self.folder.glob(f"{_REPLACED}*"):
            place = self.folder / path.name.removeprefix(_REPLACED)
            if not place.exists():
                path.rename(place)
        for path in (*self.folder.glob(".*ing-step-*"), *self.folder.glob(f"{_REPLACED}*")):
            shutil.rmtree(path, ignore_errors=True)

    def where(self, name: str) -> str:
        return str(self.folder / name)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise BadCheckpoint(f"{path} is missing.") from None
    except OSError as error:
        raise BadCheckpoint(f"{path} cannot be read ({error.strerror}).") from None


def _write_file(path: Path, writer: Writer) -> dict[str, Any]:
    with path.open("wb", buffering=0) as file:
        hashing = _HashingFile(file)
        try:
            writer(hashing)  # type: ignore[arg-type]  # a writer calls only write() and flush()
        except Exception:
            if hashing.failure is not None:
                raise hashing.failure from None  # the disk's error, not the writer's
            raise
        os.fsync(file.fileno())
    return {"sha256": hashing.digest.hexdigest(), "bytes": hashing.size}


def _sync(folder: Path) -> None:
    """A rename is durable only when its folder is synced."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@final
class Memory(Store):
    """In memory, for tests and for runs that leave no files."""

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
        manifest = seal_json({"format": FORMAT, **about, "files": files})
        self._held[name] = {**self._aside.pop(name), MANIFEST: manifest}
        return self.where(name)

    def abandon(self, name: str) -> None:
        self._aside.pop(name, None)

    def manifest(self, name: str) -> dict[str, Any]:
        if name not in self._held:
            raise BadCheckpoint(f"{self.where(name)} is missing.")
        return check_manifest(unseal_json(self._held[name][MANIFEST], self.where(name)), self.where(name))

    def read(self, name: str, file: str) -> bytes:
        return _check_data(self._held[name].get(file, b""), self.manifest(name), file, f"{self.where(name)}/{file}")

    def is_own(self, manifest: Mapping[str, Any]) -> bool:
        return True

    def remove(self, name: str) -> None:
        self._held.pop(name, None)

    def where(self, name: str) -> str:
        return f"memory:{name}"
