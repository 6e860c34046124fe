"""Finds the files of a data set: in the folder the user names, in TRUELOOP_DATA or in the cache; downloads if allowed.

A folder may be the data set's own or its parent (`mnist/`, `MNIST/raw/`). A folder that the user names is the only one
searched: the wrong data would be worse than none.
"""

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

VARIABLE: Final = "TRUELOOP_DATA"  # Environment variable: a folder of data sets
CHUNK: Final = 1 << 20  # Bytes read at a time
PATIENCE: Final = 30.0  # Seconds without a byte before a mirror counts as dead


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of a data set."""

    name: str  # Published file name
    digest: str  # 'md5:...' or 'sha256:...' of the published file
    also: tuple[str, ...] = ()  # Other names of the same content: unpacked

    def within(self, folder: Path) -> Path | None:
        """The first of its names that exists in a folder."""
        return next((folder / name for name in (self.name, *self.also) if (folder / name).is_file()), None)


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set of a bundled recipe."""

    title: str  # For messages: 'Fashion-MNIST'
    folders: tuple[str, ...]  # Possible folder names inside a parent; a download uses the first
    files: tuple[DataFile, ...]
    mirrors: tuple[str, ...]  # Base URLs, tried in turn; each ends in a slash
    megabytes: int  # Approximate download size


def cache_folder() -> Path:
    """Default download folder."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "trueloop"


def find_data(wanted: DataSet, request: DataRequest) -> dict[str, Path]:
    """Every file of the data set, by published name. Raises BadData with the command to type."""
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
    # MNIST and Fashion-MNIST use the same file names: only a folder's name can tell them apart.
    for parent in ([Path(os.environ[VARIABLE])] if os.environ.get(VARIABLE) else []) + [cache_folder()]:
        yield from (parent / name for name in wanted.folders)
        if any(parent.parts[-len(own) :] == own for name in wanted.folders if (own := Path(name).parts)):
            yield parent


def _not_found(wanted: DataSet, folders: list[Path]) -> str:
    """Which files were searched where, which are missing, and what to type."""
    names = ", ".join(file.name for file in wanted.files)
    unpacked = " (or unpacked)" if any(file.also for file in wanted.files) else ""
    message = f"{wanted.title} was not found: looked for {names}{unpacked} in {', '.join(map(str, folders))}."
    for folder in folders:
        missing = [file.name for file in wanted.files if file.within(folder) is None]
        if 0 < len(missing) < len(wanted.files):
            message += f" {folder} lacks {', '.join(missing)}."
    cure = f"add `--data DIR` for its folder, or `--download` to download it ({wanted.megabytes} MB)"
    return f"{message} Nothing was run: {cure}."


def _downloaded(wanted: DataSet, folder: Path) -> dict[str, Path]:
    """Downloads the missing files."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = f"cannot create {folder} ({error.strerror})"
        raise BadData(f"{wanted.title}: {why}. Nothing was run: try `--data DIR`.") from None
    return {file.name: file.within(folder) or _fetched(wanted, file, folder / file.name) for file in wanted.files}


def _fetched(wanted: DataSet, file: DataFile, path: Path) -> Path:
    """Download from the first mirror with a valid copy: written aside, verified, then renamed."""
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
        f"{wanted.title} could not be downloaded: {'; '.join(troubles)}. Nothing was run: download {file.name} "
        f"yourself into {path.parent}, or add `--data DIR` for a folder that holds the data."
    )


def _copy(address: str, path: Path, kind: str) -> str:
    """Downloads to a file and returns its digest."""
    digest = hashlib.new(kind, usedforsecurity=False)
    request = urllib.request.Request(address, headers={"User-Agent": "trueloop"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer, path.open("wb") as file:
        while chunk := answer.read(CHUNK):
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    return f"{kind}:{digest.hexdigest()}"
