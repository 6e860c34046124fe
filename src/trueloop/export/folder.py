"""An artifact on disk: published under its name only after it is complete and verified, and validated when read."""

import errno
import fcntl
import hashlib
import os
import platform
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, final

from trueloop.checkpoint.store import seal_json, unseal_json
from trueloop.errors import BadArtifact, BadCheckpoint, CannotSave, Misuse
from trueloop.export.exporter import installed_version
from trueloop.results.artifact import FILE, FORMAT, Artifact, Port
from trueloop.trust.artifacts import artifact_stamp

__all__ = ["CARD", "StagedFolder", "read_artifact", "staged_folder", "verify_files"]

CARD: Final = "CARD.md"
_NAME: Final = re.compile(r"[\w-][\w.-]*")  # A plain file name, never a path
_VERSION: Final = re.compile(r"[\w.+!-]{1,80}")  # Goes into a Dockerfile: one word
_DTYPE: Final = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)|complex(64|128)")
_LARGEST: Final = 1 << 40  # Upper limit of a dimension
_WIDEST: Final = 1 << 16  # Upper limit of an image's side, in pixels
_OURS: Final = re.compile(r"artifact\.json|CARD\.md|model\.[\w.]+")  # Files that an export writes
_CHUNK: Final = 1 << 20
AGAIN: Final = "Nothing was run. Export the run again."


def read_artifact(folder: str | Path) -> Artifact:
    """Raises BadArtifact: damaged, in a later format, or made for another version of its runtime or another machine."""
    folder = Path(folder)
    file = folder / FILE
    try:
        _refuse_special(file)
        plain = unseal_json(file.read_bytes(), str(file))
    except FileNotFoundError:
        how = "`trueloop export RUN --to onnx` makes one"
        raise BadArtifact(f"{folder} is not an artifact (no {FILE}). Nothing was run: {how}.") from None
    except OSError as error:
        raise BadArtifact(f"{file} cannot be read ({error.strerror}). Nothing was run.") from None
    except BadCheckpoint as error:
        raise BadArtifact(f"{error} {AGAIN}") from None
    if plain.get("format") != FORMAT:
        why = f"{file} has format {plain.get('format')!r}; this trueloop reads format {FORMAT}."
        raise BadArtifact(f"{why} Nothing was run: update trueloop.")
    try:
        artifact = Artifact.of(plain, folder)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise BadArtifact(f"{file} is damaged: fields are missing or invalid. {AGAIN}") from None
    if not artifact.files or not all(_NAME.fullmatch(name) for name in artifact.files):
        raise BadArtifact(f"{file} is not safe: it does not list plain file names. Nothing was run.")
    if not _is_well_typed(artifact):
        raise BadArtifact(f"{file} is damaged: fields are missing or invalid. {AGAIN}")
    if not _has_runtime_and_sizes(artifact):
        raise BadArtifact(f"{file} is damaged: the runtime or the file sizes are missing. {AGAIN}")
    _refuse_other_runtime(artifact)
    return artifact


def _has_runtime_and_sizes(artifact: Artifact) -> bool:
    runtime = artifact.runtime
    return (
        isinstance(runtime, dict)
        and all(isinstance(runtime.get(word), str) for word in ("package", "version", "match", "machine", *runtime))
        and all(_VERSION.fullmatch(runtime[word]) for word in ("package", "version"))
        and all(
            isinstance(each, dict) and type(each.get("bytes")) is int and isinstance(each.get("sha256"), str)
            for each in artifact.files.values()
        )
    )


def _is_well_typed(artifact: Artifact) -> bool:
    words = (artifact.name, artifact.target, artifact.task, artifact.made_here, *artifact.classes, *artifact.notes)
    maps = (artifact.versions, artifact.licence, artifact.preprocessing, artifact.run, artifact.files)
    return (
        all(isinstance(each, str) for each in words)
        and all(isinstance(each, dict) for each in maps)
        and all(isinstance(each, str) for each in (*artifact.versions.values(), *artifact.licence.values()))
        and {"trueloop", "torch"} <= artifact.versions.keys()
        and all(map(_VERSION.fullmatch, (artifact.target, *artifact.versions.values())))
        and _is_preprocessing(artifact.preprocessing)
        and bool(artifact.inputs and artifact.outputs)
        and all(map(_is_port, (*artifact.inputs, *artifact.outputs)))
    )


def _is_preprocessing(plain: Mapping[str, Any]) -> bool:
    """Has it the fields that readers of its kind need?"""
    span, size, columns, tokens = (plain.get(name) for name in ("range", "size", "columns", "tokens"))
    has_range = isinstance(span, list) and len(span) == 2 and all(type(each) is int for each in span)
    match plain.get("kind"):
        case "image":
            fits = [type(each) is int and 0 < each < _WIDEST for each in size] if isinstance(size, list) else []
            has_size = fits == [True, True]
            return has_range and has_size and type(plain.get("channels")) is int and plain["channels"] in (1, 3, 4)
        case "table":
            return isinstance(columns, list) and bool(columns) and all(map(_is_column, columns))
        case kind:
            return (span is None or has_range) and isinstance(kind, str) and (tokens is None or type(tokens) is int)


def _is_column(plain: Any) -> bool:
    if not isinstance(plain, dict) or not all(isinstance(plain.get(word), str) for word in ("name", "kind")):
        return False
    if plain["kind"] == "number":
        return all(type(plain.get(word)) in (int, float) for word in ("mean", "spread"))
    categories = plain.get("categories")
    return isinstance(categories, list) and bool(categories) and all(isinstance(each, str) for each in categories)


def _is_port(port: Port) -> bool:
    sizes, limits = port.shape, port.most or (None,) * len(port.shape)
    return (
        isinstance(port.name, str)
        and isinstance(port.dtype, str)
        and _DTYPE.fullmatch(port.dtype) is not None
        and len(limits) == len(sizes)
        and all(each is None or (type(each) is int and 0 < each < _LARGEST) for each in (*sizes, *limits))
    )


def _refuse_special(path: Path) -> None:
    """Reading a pipe or /dev/zero would never end. Raises OSError."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "it is not a regular file")


def _refuse_other_runtime(artifact: Artifact) -> None:
    needed = artifact.runtime
    package, made_with, machine = needed["package"], needed["version"], needed["machine"]
    here = installed_version(package)
    parts = 2 if needed["match"] == "minor" else 1
    if here and here.split(".")[:parts] != made_with.split(".")[:parts]:
        wanted = ".".join(made_with.split(".")[:parts])
        raise BadArtifact(
            f"{artifact.folder} was made for {package} {made_with}, and {package} {here} is installed: another "
            f"{needed['match']} version may give different outputs. Nothing was run: install {package} {wanted}, or "
            "export the run again here."
        )
    if machine and machine != platform.machine():
        raise BadArtifact(f"{artifact.folder} is machine code for {machine}; this is {platform.machine()}. {AGAIN}")


def verify_files(artifact: Artifact) -> Path:
    """The model's file, checked against its size and hash. Raises BadArtifact."""
    for name, entry in artifact.files.items():
        path = artifact.folder / name
        try:
            found = _size_and_hash(path)
        except OSError as error:
            raise BadArtifact(f"{path} cannot be read ({error.strerror}). {AGAIN}") from None
        if found["bytes"] != entry["bytes"]:
            raise BadArtifact(f"{path} is damaged: {found['bytes']:,} bytes instead of {entry['bytes']:,}. {AGAIN}")
        if found["sha256"] != entry["sha256"]:
            raise BadArtifact(f"{path} is damaged: its hash is not the one in {FILE}. {AGAIN}")
    return artifact.file


def _size_and_hash(path: Path) -> dict[str, Any]:
    _refuse_special(path)
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return {"bytes": size, "sha256": digest.hexdigest()}


# -- writing --


@final
@dataclass(frozen=True)
class StagedFolder:
    """A folder beside the final one. `publish` renames it."""

    aside: Path
    place: Path

    def seal(self, artifact: Artifact, card: str = "") -> Artifact:
        """Writes artifact.json with the size and hash of the model's file."""
        model = artifact.file.name
        with self._report_errors():
            made = replace(artifact, folder=self.aside, files={model: _size_and_hash(self.aside / model)})
            made = replace(made, made_here=artifact_stamp(made))
            (self.aside / FILE).write_bytes(seal_json(made.plain()))
            if card:
                (self.aside / CARD).write_text(card, encoding="utf-8")
        return made

    def publish(self) -> None:
        """Replaces an earlier export; of two concurrent exports the later one remains."""
        with self._report_errors(), _locked(self.place):
            before = _replaced(self.place)
            shutil.rmtree(before, ignore_errors=True)
            if self.place.exists():
                self.place.rename(before)
            try:
                self.aside.rename(self.place)
            except BaseException:  # also Ctrl-C at this moment: the earlier export must survive
                _restore(self.place)
                raise
            shutil.rmtree(before, ignore_errors=True)

    @contextmanager
    def _report_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            failed = f"{self.place} could not be written ({error.strerror or error})"
            raise CannotSave(f"{failed}. Nothing is left of it.") from None


@contextmanager
def staged_folder(place: Path) -> Iterator[StagedFolder]:
    """Removed at the end unless it was published."""
    if os.path.islink(place) or place.name in ("", ".."):
        place = Path(os.path.realpath(place))
        if place == Path.cwd():
            why = "An export replaces its folder, and this is the current directory."
            raise Misuse(f"{why} Nothing was exported: choose a new one (--folder out).")
    aside = place.with_name(f".writing-{place.name}-{os.getpid()}") if place.name else place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with _locked(place):
            _restore(place)
            _refuse_overwriting(place)
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
    except OSError as error:
        raise CannotSave(f"{aside} cannot be created ({error.strerror}). Nothing was exported.") from None
    try:
        yield StagedFolder(aside, place)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    """One export at a time checks or replaces this folder: during the replacement it is briefly absent."""
    handle = os.open(place.parent, os.O_RDONLY)
    try:
        with suppress(OSError):  # some file systems have no locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _refuse_overwriting(place: Path) -> None:
    """Replaces only folders that an export made."""
    if not place.exists():
        return
    files = sorted(each.name for each in place.iterdir()) if place.is_dir() else [place.name]
    others = [name for name in files if not _OURS.fullmatch(name)] if place.is_dir() else files
    is_artifact = place.is_dir() and (place / FILE).is_file()
    if others or (not is_artifact and files):
        found = f"holds {others[0]}, which no export wrote" if is_artifact else "is not an artifact"
        why = f"{place} exists and {found}: it would be overwritten"
        raise Misuse(f"{why}. Nothing was exported: choose another --folder.")


def _replaced(place: Path) -> Path:
    """Where the earlier export is during the replacement."""
    return place.with_name(f".replaced-{place.name}")


def _restore(place: Path) -> None:
    """Moves an earlier export back whose replacement never came."""
    if place.name and not place.exists() and _replaced(place).exists():
        _replaced(place).rename(place)
