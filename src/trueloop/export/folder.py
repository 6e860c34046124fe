"""An artifact on disk: it appears under its name only when it is whole and verified, and is read only if it is still
whole."""

from __future__ import annotations

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

from trueloop.checkpoint.store import sealed, unsealed
from trueloop.errors import BadArtifact, BadCheckpoint, CannotSave, Misuse
from trueloop.export.exporter import installed
from trueloop.results.artifact import FILE, FORMAT, Artifact, Port

__all__ = ["CARD", "Writing", "read_artifact", "verified_file", "writing"]

CARD: Final = "CARD.md"
_NAME: Final = re.compile(r"[\w-][\w.-]*")
"""A file's name in an artifact: never a path that leads elsewhere."""
_DTYPE: Final = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)|complex(64|128)")
_LARGEST: Final = 1 << 40
"""That a dimension may say of itself."""
_WIDEST: Final = 1 << 16
"""Points of a picture's side."""
_MADE: Final = re.compile(r"artifact\.json|CARD\.md|model\.[\w.]+")
"""What an export writes; all else in its folder is somebody's."""
_PIECE: Final = 1 << 20
AGAIN: Final = "Export the run again."


def read_artifact(folder: str | Path) -> Artifact:
    """What it says of itself. Raises BadArtifact: damaged, of a later format, or made for another version of its
    runtime or machine."""
    folder = Path(folder)
    shown = folder / FILE
    try:
        _refuse_endless(shown)
        told = unsealed(shown.read_bytes(), str(shown))
    except FileNotFoundError:
        raise BadArtifact(
            f"{folder} holds no artifact (no {FILE}). Nothing was run: `trueloop export RUN --to onnx` makes one."
        ) from None
    except OSError as error:
        raise BadArtifact(f"{shown} cannot be read ({error.strerror}). Nothing was run.") from None
    except BadCheckpoint as error:
        raise BadArtifact(f"{error} Nothing was run. {AGAIN}") from None
    if told.get("format") != FORMAT:
        raise BadArtifact(
            f"{shown} has format {told.get('format')!r}, and this trueloop reads format {FORMAT}. Nothing was run: use a newer one."
        )
    try:
        artifact = Artifact.of(told, folder)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise BadArtifact(
            f"{shown} is damaged: it does not say all that an artifact says. Nothing was run. {AGAIN}"
        ) from None
    if not artifact.files or not all(_NAME.fullmatch(name) for name in artifact.files):
        raise BadArtifact(f"{shown} is not to be trusted: it does not list plain files. Nothing was run.")
    if not _is_well_typed(artifact):
        raise BadArtifact(f"{shown} is damaged: it does not say all that an artifact says. Nothing was run. {AGAIN}")
    if not _says_enough(artifact):
        raise BadArtifact(
            f"{shown} is damaged: it does not say what runs it, or how large its files are. Nothing was run. {AGAIN}"
        )
    _refuse_other_runtime(artifact)
    return artifact


def _says_enough(artifact: Artifact) -> bool:
    """Whoever reads on relies on these."""
    words, entries = ("package", "version", "match", "machine"), artifact.files.values()
    named = isinstance(artifact.runtime, dict) and all(isinstance(artifact.runtime.get(word), str) for word in words)
    named = named and all(isinstance(word, str) for word in artifact.runtime.values())
    return (
        named
        and bool(artifact.runtime["package"])
        and all(
            isinstance(each, dict) and type(each.get("bytes")) is int and isinstance(each.get("sha256"), str)
            for each in entries
        )
    )


def _is_well_typed(artifact: Artifact) -> bool:
    """What is no word where a word is due would break whoever reads on, one storey further."""
    words = (artifact.name, artifact.target, artifact.task, *artifact.classes, *artifact.notes)
    maps = (artifact.versions, artifact.licence, artifact.preprocessing, artifact.run, artifact.files)
    ports = (*artifact.inputs, *artifact.outputs)
    return (
        all(isinstance(each, str) for each in words)
        and all(isinstance(each, dict) for each in maps)
        and all(isinstance(each, str) for each in (*artifact.versions.values(), *artifact.licence.values()))
        and {"trueloop", "torch"} <= artifact.versions.keys()
        and _is_preprocessing(artifact.preprocessing)
        and bool(artifact.inputs and artifact.outputs)
        and all(map(_is_port, ports))
    )


def _is_preprocessing(told: Mapping[str, Any]) -> bool:
    """Of what kind samples are, and what a reader of that kind relies on."""
    span, size, columns, tokens = (told.get(name) for name in ("range", "size", "columns", "tokens"))
    spanned = span is None or (isinstance(span, list) and len(span) == 2 and all(type(each) is int for each in span))
    match told.get("kind"):
        case "image":
            sized = (
                isinstance(size, list)
                and len(size) == 2
                and all(type(each) is int and 0 < each < _WIDEST for each in size)
            )
            return (
                span is not None
                and spanned
                and sized
                and type(told.get("channels")) is int
                and told["channels"] in (1, 3, 4)
            )
        case "table":
            return isinstance(columns, list) and bool(columns) and all(map(_is_column, columns))
        case kind:
            return spanned and isinstance(kind, str) and (tokens is None or type(tokens) is int)


def _is_column(told: Any) -> bool:
    if not isinstance(told, dict) or not isinstance(told.get("name"), str) or not isinstance(told.get("kind"), str):
        return False
    if told["kind"] == "number":
        return all(type(told.get(word)) in (int, float) for word in ("mean", "spread"))
    categories = told.get("categories")
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


def _refuse_endless(path: Path) -> None:
    """A pipe would be waited for, and /dev/zero read, for ever. Raises OSError."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "it is no plain file")


def _refuse_other_runtime(artifact: Artifact) -> None:
    needed = artifact.runtime
    package, made_with, machine = needed["package"], needed["version"], needed["machine"]
    here = installed(package)
    parts = 2 if needed["match"] == "minor" else 1
    if here and here.split(".")[:parts] != made_with.split(".")[:parts]:
        wanted = ".".join(made_with.split(".")[:parts])
        raise BadArtifact(
            f"{artifact.folder} was made for {package} {made_with}, and {package} {here} is installed: another {needed['match']} version "
            f"may answer otherwise. Nothing was run: install {package} {wanted}, or export the run again here."
        )
    if machine and machine != platform.machine():
        raise BadArtifact(
            f"{artifact.folder} is machine code for {machine}, and this is {platform.machine()}. Nothing was run. {AGAIN}"
        )


def verified_file(artifact: Artifact) -> Path:
    """The model's file, whole. Raises BadArtifact."""
    for name, entry in artifact.files.items():
        path = artifact.folder / name
        try:
            there = _described(path)
        except OSError as error:
            raise BadArtifact(f"{path} cannot be read ({error.strerror}). Nothing was run. {AGAIN}") from None
        if there["bytes"] != entry["bytes"]:
            raise BadArtifact(
                f"{path} is damaged: {there['bytes']:,} bytes instead of {entry['bytes']:,}. Nothing was run. {AGAIN}"
            )
        if there["sha256"] != entry["sha256"]:
            raise BadArtifact(
                f"{path} is damaged: its contents do not have the hash that {FILE} names. Nothing was run. {AGAIN}"
            )
    return artifact.file


def _described(path: Path) -> dict[str, Any]:
    _refuse_endless(path)
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
            size += len(piece)
    return {"bytes": size, "sha256": digest.hexdigest()}


# -- writing --


@final
@dataclass(frozen=True)
class Writing:
    """A folder beside the final one, which becomes it all at once, or goes."""

    aside: Path
    place: Path

    def seal(self, artifact: Artifact, card: str = "") -> Artifact:
        """artifact.json for what lies there now: the model, with its size and hash."""
        model = artifact.file.name
        with self._told():
            made = replace(artifact, folder=self.aside, files={model: _described(self.aside / model)})
            (self.aside / FILE).write_bytes(sealed(made.plain()))
            if card:
                (self.aside / CARD).write_text(card, encoding="utf-8")
        return made

    def publish(self) -> None:
        """Under its name, in place of what an earlier export left there; of two at once the later one stays."""
        with self._told(), _alone(self.place):
            self._take_place()

    def _take_place(self) -> None:
        before = _replaced(self.place)
        shutil.rmtree(before, ignore_errors=True)
        if self.place.exists():
            self.place.rename(before)
        try:
            self.aside.rename(self.place)
        except BaseException:  # a disk that refuses, and Ctrl-C just now: the earlier one is the user's only one
            _come_back(self.place)
            raise
        shutil.rmtree(before, ignore_errors=True)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise CannotSave(
                f"{self.place} could not be written ({error.strerror or error}). Nothing is left of it."
            ) from None


@contextmanager
def writing(place: Path) -> Iterator[Writing]:
    """Whatever happens inside, nothing half made stays: what is not published is removed."""
    if os.path.islink(place) or place.name in ("", ".."):
        place = Path(os.path.realpath(place))  # beside what it leads to
        if place == Path.cwd():
            raise Misuse(
                "An export replaces its folder, and you stand in this one. Nothing was exported: name a new one (--output out)."
            )
    aside = place.with_name(f".writing-{place.name}-{os.getpid()}") if place.name else place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with _alone(place):
            _come_back(place)
            _refuse_overwriting(place)
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
    except OSError as error:
        raise CannotSave(f"{aside} cannot be made ({error.strerror}). Nothing was exported.") from None
    try:
        yield Writing(aside, place)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """One export at a time looks at this place or takes it: between the earlier one and the later one there is nothing
    for a moment."""
    door = os.open(place.parent, os.O_RDONLY)
    try:
        with suppress(OSError):  # of file systems that know no locks: there one export at a time is the user's affair
            fcntl.flock(door, fcntl.LOCK_EX)
        yield
    finally:
        os.close(door)


def _refuse_overwriting(place: Path) -> None:
    """Only what an export has made is replaced."""
    if not place.exists():
        return
    others = (
        sorted(each.name for each in place.iterdir() if not _MADE.fullmatch(each.name))
        if place.is_dir()
        else [place.name]
    )
    is_one = place.is_dir() and (place / FILE).is_file()
    if others or (not is_one and any(place.iterdir())):
        found = f"holds {others[0]}, which no export made" if is_one else "is no artifact"
        raise Misuse(
            f"{place} is there and {found}: it would be overwritten. Nothing was exported: name another --output."
        )


def _replaced(place: Path) -> Path:
    """Where the earlier one is while the later one takes its place."""
    return place.with_name(f".replaced-{place.name}")


def _come_back(place: Path) -> None:
    """An earlier export that was put aside, and whose successor never came."""
    if place.name and not place.exists() and _replaced(place).exists():
        _replaced(place).rename(place)
