"""Where the files of a data set are: in the folder the user names, in TRUELOOP_DATA, in the cache folder; fetched only
if that is allowed.

A folder may be the data set's own or a parent that holds it (`mnist/`, `MNIST/raw/`). A folder that the user names is
the only one looked in: other data than those asked for would be worse than none.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Final

from trueloop.errors import BadData
from trueloop.recipe.recipe import DataRequest

__all__ = ["DataFile", "DataSet", "cache_folder", "find_data"]

VARIABLE: Final = "TRUELOOP_DATA"
"""Names a folder that holds data sets."""
CHUNK: Final = 1 << 20
"""Bytes read at a time: little memory, and few calls."""
PATIENCE: Final = 30.0
"""Seconds without a byte before a mirror counts as silent."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of a data set."""

    name: str
    """As it is published."""
    digest: str
    """'md5:...' or 'sha256:...' of the published file."""
    also: tuple[str, ...] = ()
    """Other names under which its content may lie there: unpacked."""

    def within(self, folder: Path) -> Path | None:
        """The first of its names that is a file there."""
        return next((folder / name for name in (self.name, *self.also) if (folder / name).is_file()), None)


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set that a bundled recipe learns from."""

    title: str
    """For sentences: 'Fashion-MNIST'."""
    folders: tuple[str, ...]
    """What its folder may be called inside a parent; the first is what a download makes."""
    files: tuple[DataFile, ...]
    mirrors: tuple[str, ...]
    """Addresses that hold the files, tried in turn; each ends in a slash."""
    megabytes: int
    """About what a download takes."""


def cache_folder() -> Path:
    """Where downloads go unless a folder is named."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "trueloop"


def find_data(wanted: DataSet, request: DataRequest) -> dict[str, Path]:
    """Every file of the data set, by its published name. Raises BadData with what to type."""
    folders = list(_folders(wanted, request))
    for folder in folders:
        found = {file.name: path for file in wanted.files if (path := file.within(folder)) is not None}
        if len(found) == len(wanted.files):
            return found
    if request.download:
        return _downloaded(wanted, (request.folder or cache_folder()) / wanted.folders[0])
    raise BadData(_not_found(wanted, folders))


def _folders(wanted: DataSet, request: DataRequest) -> Iterator[Path]:
    """Where to look, in order."""
    if request.folder is not None:
        yield from (request.folder / name for name in wanted.folders)
        yield request.folder
        return
    # Nobody has named these for this data set, and MNIST's files are called like Fashion-MNIST's: the folder's name
    # must say which it is.
    for parent in ([Path(os.environ[VARIABLE])] if os.environ.get(VARIABLE) else []) + [cache_folder()]:
        yield from (parent / name for name in wanted.folders)
        if any(parent.parts[-len(own) :] == own for name in wanted.folders if (own := Path(name).parts)):
            yield parent


def _not_found(wanted: DataSet, folders: list[Path]) -> str:
    """What was looked for, where, what is missing where some of it is, and what to type."""
    names = ", ".join(file.name for file in wanted.files)
    unpacked = " (or unpacked)" if any(file.also for file in wanted.files) else ""
    said = f"{wanted.title} was not found: looked for {names}{unpacked} in {', '.join(map(str, folders))}."
    for folder in folders:
        missing = [file.name for file in wanted.files if file.within(folder) is None]
        if 0 < len(missing) < len(wanted.files):
            said += f" {folder} lacks {', '.join(missing)}."
    return f"{said} Nothing was run: add `--data DIR` for the folder that holds it, or `--download` to fetch it ({wanted.megabytes} MB)."


def _downloaded(wanted: DataSet, folder: Path) -> dict[str, Path]:
    """Fetches what is not there yet."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadData(
            f"{folder} cannot be made ({error.strerror}), so {wanted.title} has no place. Nothing was run: try `--data DIR`."
        ) from None
    return {file.name: file.within(folder) or _fetched(wanted, file, folder / file.name) for file in wanted.files}


def _fetched(wanted: DataSet, file: DataFile, path: Path) -> Path:
    """From the first mirror that has it whole: written aside, checked, then renamed, so that a half file never has its
    name."""
    troubles: list[str] = []
    for mirror in wanted.mirrors:
        aside = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            found = _copy(f"{mirror}{file.name}", aside, file.digest.partition(":")[0])
            if found == file.digest:
                aside.replace(path)
                return path
            troubles.append(f"{mirror}{file.name} is not the published file ({found} instead of {file.digest})")
        except (OSError, HTTPException) as error:  # urllib's URLError is an OSError, and so is a full disk
            troubles.append(f"{mirror}{file.name}: {getattr(error, 'reason', None) or error}")
        finally:
            with contextlib.suppress(FileNotFoundError):
                aside.unlink()
    raise BadData(
        f"{wanted.title} could not be downloaded: {'; '.join(troubles)}. Nothing was run: fetch {file.name} by other means "
        f"into {path.parent}, or add `--data DIR` for a folder that holds the data."
    )


def _copy(address: str, path: Path, kind: str) -> str:
    """The digest of what was written."""
    digest = hashlib.new(kind, usedforsecurity=False)
    request = urllib.request.Request(address, headers={"User-Agent": "trueloop"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer, path.open("wb") as file:
        while chunk := answer.read(CHUNK):
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    return f"{kind}:{digest.hexdigest()}"
