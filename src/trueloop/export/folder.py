"""An artefact on disk: it appears under its name only when it is whole and verified, and is read only if it is still whole."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, final

from trueloop.artefact import FILE, FORMAT, Artefact
from trueloop.checkpoint.store import sealed, unsealed
from trueloop.errors import BadArtefact, BadCheckpoint, CannotSave, Misuse
from trueloop.export.exporter import installed

__all__ = ["CARD", "Writing", "read_artefact", "verified_file", "writing"]

CARD: Final = "CARD.md"
_NAME: Final = re.compile(r"[\w-][\w.-]*")
"""A file's name in an artefact: never a path that leads elsewhere."""
_PIECE: Final = 1 << 20
AGAIN: Final = "Export the run again."


def read_artefact(folder: str | Path) -> Artefact:
    """What it says of itself. Raises BadArtefact: damaged, of a later format, or made for another version of its runtime or machine."""
    folder = Path(folder)
    shown = folder / FILE
    try:
        told = unsealed(shown.read_bytes(), str(shown))
    except FileNotFoundError:
        raise BadArtefact(f"{folder} holds no artefact (no {FILE}). Nothing was run: `trueloop export RUN --to onnx` makes one.") from None
    except OSError as error:
        raise BadArtefact(f"{shown} cannot be read ({error.strerror}). Nothing was run.") from None
    except BadCheckpoint as error:
        raise BadArtefact(f"{error} Nothing was run. {AGAIN}") from None
    if told.get("format") != FORMAT:
        raise BadArtefact(
            f"{shown} has format {told.get('format')!r}, and this trueloop reads format {FORMAT}. Nothing was run: use a newer one."
        )
    try:
        artefact = Artefact.of(told, folder)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise BadArtefact(f"{shown} is damaged: it does not say all that an artefact says. Nothing was run. {AGAIN}") from None
    if not artefact.files or not all(_NAME.fullmatch(name) for name in artefact.files):
        raise BadArtefact(f"{shown} is not to be trusted: it does not list plain files. Nothing was run.")
    if not _says_enough(artefact):
        raise BadArtefact(f"{shown} is damaged: it does not say what runs it, or how large its files are. Nothing was run. {AGAIN}")
    _refuse_other_runtime(artefact)
    return artefact


def _says_enough(artefact: Artefact) -> bool:
    """Whoever reads on relies on these."""
    words, entries = ("package", "version", "match", "machine"), artefact.files.values()
    named = isinstance(artefact.runtime, dict) and all(isinstance(artefact.runtime.get(word), str) for word in words)
    return named and all(
        isinstance(each, dict) and type(each.get("bytes")) is int and isinstance(each.get("sha256"), str) for each in entries
    )


def _refuse_other_runtime(artefact: Artefact) -> None:
    needed = artefact.runtime
    package, made_with, machine = needed["package"], needed["version"], needed["machine"]
    here = installed(package)
    parts = 2 if needed["match"] == "minor" else 1
    if here and here.split(".")[:parts] != made_with.split(".")[:parts]:
        wanted = ".".join(made_with.split(".")[:parts])
        raise BadArtefact(
            f"{artefact.folder} was made for {package} {made_with}, and {package} {here} is installed: another {needed['match']} version "
            f"may answer otherwise. Nothing was run: install {package} {wanted}, or export the run again here."
        )
    if machine and machine != platform.machine():
        raise BadArtefact(f"{artefact.folder} is machine code for {machine}, and this is {platform.machine()}. Nothing was run. {AGAIN}")


def verified_file(artefact: Artefact) -> Path:
    """The model's file, whole. Raises BadArtefact."""
    for name, entry in artefact.files.items():
        path = artefact.folder / name
        try:
            there = _described(path)
        except OSError as error:
            raise BadArtefact(f"{path} cannot be read ({error.strerror}). Nothing was run. {AGAIN}") from None
        if there["bytes"] != entry["bytes"]:
            raise BadArtefact(f"{path} is damaged: {there['bytes']:,} bytes instead of {entry['bytes']:,}. Nothing was run. {AGAIN}")
        if there["sha256"] != entry["sha256"]:
            raise BadArtefact(f"{path} is damaged: its contents do not have the hash that {FILE} names. Nothing was run. {AGAIN}")
    return artefact.file


def _described(path: Path) -> dict[str, Any]:
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

    def seal(self, artefact: Artefact, card: str = "") -> Artefact:
        """artefact.json for what lies there now: the model, with its size and hash."""
        model = artefact.file.name
        with self._told():
            made = replace(artefact, folder=self.aside, files={model: _described(self.aside / model)})
            (self.aside / FILE).write_bytes(sealed(made.plain()))
            if card:
                (self.aside / CARD).write_text(card, encoding="utf-8")
        return made

    def publish(self) -> None:
        """Under its name, in place of what an earlier export left there."""
        before = self.place.with_name(f".replaced-{self.place.name}")
        with self._told():
            shutil.rmtree(before, ignore_errors=True)
            if self.place.exists():
                self.place.rename(before)
            try:
                self.aside.rename(self.place)
            except OSError:
                if before.exists():
                    before.rename(self.place)  # the earlier one is the user's only one
                raise
            shutil.rmtree(before, ignore_errors=True)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise CannotSave(f"{self.place} could not be written ({error.strerror or error}). Nothing is left of it.") from None


@contextmanager
def writing(place: Path) -> Iterator[Writing]:
    """Whatever happens inside, nothing half made stays: what is not published is removed."""
    if place.exists() and not (place / FILE).is_file() and (not place.is_dir() or any(place.iterdir())):
        raise Misuse(f"{place} is there and is no artefact: it would be overwritten. Nothing was exported: name another --output.")
    aside = place.with_name(f".writing-{place.name}-{os.getpid()}")
    try:
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
    except OSError as error:
        raise CannotSave(f"{aside} cannot be made ({error.strerror}). Nothing was exported.") from None
    try:
        yield Writing(aside, place)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
