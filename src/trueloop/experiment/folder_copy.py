"""Copies of the folder that a script belongs to, so that a run changes nothing of the user's.

The copied folder is the repository around the working directory if it is small enough, otherwise the working
directory; a script outside of it brings its own folder. Version control, caches and virtual environments stay behind.
Symbolic links that leave the folder are kept: a run reads and writes there as it does without trueloop.
"""

import json
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trueloop.errors import CannotSave, Misuse
from trueloop.experiment.patch import Contents

__all__ = ["Snapshot", "snapshot"]

MOST_BYTES: Final = 2 << 30
MOST_FILES: Final = 50_000
_NAMES: Final = (
    ".git .hg .svn __pycache__ node_modules .tox .nox .mypy_cache .pytest_cache .ruff_cache .ipynb_checkpoints"
)
LEFT_OUT: Final = frozenset(_NAMES.split())


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The user's folders as they were at the beginning, below one temporary folder at their full paths."""

    home: Path  # the temporary folder
    roots: tuple[Path, ...]  # the folders of the user's that were copied
    working: Path  # the working directory, of the user's
    script: Path  # of the user's
    environment: Mapping[str, str]  # as it was before the script ran
    module_paths: tuple[str, ...]  # sys.path, absolute

    def kept(self, path: Path) -> Path:
        """A path of the user's -> its place in the snapshot."""
        return _below(self.home / "start", path)

    def user_path(self, kept: Path) -> Path:
        """The inverse of `kept`."""
        return Path(self.working.anchor) / kept.relative_to(self.home / "start")

    def find(self, name: str) -> Path | None:
        """A name in a patch -> the file in the snapshot, as `patch -p0` and `-p1` would find it."""
        shorter = name.partition("/")[2]
        folders = (self.working, self.script.parent, *self.roots)
        names = [each for each in (name, shorter) if each]
        candidates = [Path(os.path.normpath(folder / each)) for each in names for folder in folders]
        inside = [path for path in candidates if any(path.is_relative_to(root) for root in self.roots)]
        exists = next((path for path in inside if self.kept(path).is_file()), None)
        new = inside[-len(folders)] if len(inside) >= len(folders) else inside[0] if inside else None
        chosen = exists or new
        return None if chosen is None else self.kept(chosen)

    @contextmanager
    def fresh_copy(self, change: Contents | None = None) -> Iterator[Path]:
        """A copy to run in, with the change; it is removed afterwards."""
        folder = Path(tempfile.mkdtemp(prefix="run-", dir=self.home))
        try:
            shutil.copytree(self.home / "start", folder / "files", symlinks=True)
            for kept, text in (change or {}).items():
                file = folder / "files" / kept.relative_to(self.home / "start")
                if text is None:
                    file.unlink(missing_ok=True)
                    continue
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8", newline="")
            yield folder
        finally:
            _remove(folder)

    def moved(self, path: str, copy: Path) -> str:
        """A full path of the user's -> its place in a copy; the path itself if it is outside the copied folders."""
        full = Path(os.path.realpath(path))
        inside = os.path.isabs(path) and any(full.is_relative_to(root) for root in self.roots)
        return str(_below(copy / "files", full)) if inside else path

    def command_in(self, copy: Path, target: Sequence[str]) -> list[str]:
        """Full paths below the copied folder, also in `--out=/full/path`, are those of the copy."""
        words = []
        for word in target:
            name, sign, value = word.partition("=")
            option = sign and name.startswith("-")
            words.append(f"{name}={self.moved(value, copy)}" if option else self.moved(word, copy))
        return words

    def environment_in(self, copy: Path) -> dict[str, str]:
        """Packages of the user's that are on the path by a full name are those of the copy."""
        known = self.environment
        listed = [os.path.join(self.working, entry) for entry in known.get("PYTHONPATH", "").split(os.pathsep)]
        wanted = [self.moved(entry, copy) for entry in listed] if known.get("PYTHONPATH") else []
        moved = {entry: self.moved(entry, copy) for entry in self.module_paths}
        wanted += [there for entry, there in moved.items() if there != entry and os.path.exists(there)]
        path = {"PYTHONPATH": os.pathsep.join(dict.fromkeys(wanted))} if wanted else {}
        return {**known, **path, "PWD": self.moved(str(self.working), copy)}

    def with_user_paths(self, text: str, copy: Path) -> str:
        """A text that a run in the copy wrote, with the user's own paths; also where it is JSON."""
        folder = str(copy / "files")
        return text.replace(folder, "").replace(json.dumps(folder)[1:-1], "")


@contextmanager
def snapshot(script: Path, links: Iterable[Path] = ()) -> Iterator[Snapshot]:
    """Raises Misuse if the folder is too large to copy; `links` are linked instead of copied."""
    working, script = Path(os.path.realpath(os.getcwd())), Path(os.path.realpath(script))
    linked = frozenset(Path(os.path.realpath(link)) for link in links)
    roots = _roots(working, script, linked)
    owner, home = os.getpid(), Path(os.path.realpath(tempfile.mkdtemp(prefix="trueloop-try-")))
    try:
        for root in roots:
            _copy(root, _below(home / "start", root), linked, roots, home)
        yield Snapshot(
            home, roots, working, script, dict(os.environ), tuple(map(os.path.abspath, filter(None, sys.path)))
        )
    except shutil.Error as error:
        raise CannotSave(f"The folder of the script could not be copied: {error.args[0][0][2]}.") from None
    finally:
        if os.getpid() == owner:  # a process that the script forked may end in here
            _remove(home)


def _roots(working: Path, script: Path, linked: frozenset[Path]) -> tuple[Path, ...]:
    around = next((folder for folder in (working, *working.parents) if (folder / ".git").exists()), working)
    first = around if around == working or _size(around, linked) else working
    roots = [first] if script.is_relative_to(first) else [first, script.parent]
    roots = [root for root in roots if not any(root != other and root.is_relative_to(other) for other in roots)]
    for root in roots:
        if root == Path(root.anchor) or not _size(root, linked):
            limit = f"more than {MOST_BYTES >> 30} GiB or {MOST_FILES:,} files"
            hint = "start in the folder of the script, or name folders that it only reads by --link DIR"
            raise Misuse(f"{root} holds {limit}, and each run gets a copy. Nothing was run: {hint}.")
    return tuple(roots)


def _size(folder: Path, linked: frozenset[Path]) -> bool:
    """Is it small enough?"""
    size = files = 0
    for here, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not _left_out(Path(here, name)) and Path(here, name) not in linked]
        for name in names:
            found = os.lstat(os.path.join(here, name)) if os.path.lexists(os.path.join(here, name)) else None
            if found is not None and Path(here, name) not in linked:
                size, files = size + found.st_size, files + 1
        if size > MOST_BYTES or files > MOST_FILES:
            return False
    return True


def _left_out(path: Path) -> bool:
    return path.name in LEFT_OUT or (path / "pyvenv.cfg").exists()


def _copy(root: Path, to: Path, linked: frozenset[Path], roots: tuple[Path, ...], home: Path) -> None:
    def unwanted(here: str, names: list[str]) -> list[str]:
        paths = {name: Path(here, name) for name in names}
        return [n for n, p in paths.items() if _left_out(p) or p in linked or p == home or not _is_plain(p)]

    shutil.copytree(root, to, symlinks=True, ignore=unwanted, dirs_exist_ok=True)
    for link in linked:
        if link.is_relative_to(root) and link != root and link.exists():
            _below(home / "start", link).symlink_to(link)
    for here, folders, names in os.walk(to):
        for name in (*folders, *names):
            path = Path(here, name)
            if path.is_symlink() and path not in {_below(home / "start", link) for link in linked}:
                _repoint(path, root / path.relative_to(to), roots)


def _is_plain(path: Path) -> bool:
    """A file, a folder or a link; not a socket or a pipe."""
    mode = os.lstat(path).st_mode
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)


def _repoint(link: Path, original: Path, roots: tuple[Path, ...]) -> None:
    """A link stays inside the copy if its target was copied, and leads to the same place otherwise."""
    target = Path(os.path.normpath(original.parent / os.readlink(original)))
    inside = any(target.is_relative_to(root) for root in roots)
    link.unlink()
    link.symlink_to(os.path.relpath(target, original.parent) if inside else target)


def _below(folder: Path, path: Path) -> Path:
    return folder / path.relative_to(path.anchor)


def _remove(folder: Path) -> None:
    """Also what is read-only; what cannot be removed is left to the system's temporary folder."""

    def retry(function: object, path: str, _: object) -> None:
        os.chmod(os.path.dirname(path), 0o700)
        if not os.path.islink(path) and os.path.exists(path):
            os.chmod(path, 0o700)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        elif os.path.lexists(path):
            os.unlink(path)

    if sys.version_info >= (3, 12):
        shutil.rmtree(folder, onexc=retry)
    else:
        shutil.rmtree(folder, onerror=retry)
