"""The folder of a run of `trueloop train`, and its lock. That of a checked script: `check_run.py`.

runs/NAME/run.json         recipe, machine, status and current step
          metrics.jsonl    one row of metrics per line
          events.jsonl     the events that rules check; `trueloop recheck runs/NAME` checks them again
          checkpoints/     see checkpoint/store.py
          lock             held by the process that trains
"""

import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self, final

from trueloop.errors import CannotSave, Misuse, NotARun, did_you_mean
from trueloop.trust.files import parse_json, read_regular

__all__ = ["RunFolder", "find_run", "read_about", "reading_run", "running"]

ABOUT: Final = "run.json"
FORMAT: Final = 1
MOST_ABOUT: Final = 1 << 26  # Bytes of run.json


@final
class RunFolder:
    """A run's folder, locked while it is open: two processes must not train into one."""

    def __init__(self, path: Path, about: dict[str, Any], *, guest: bool = False) -> None:
        self.path, self.about = path, about
        self.guest = guest  # Another process of the same run holds the lock, and writes
        self._lock: int | None = None

    @classmethod
    def create(cls, runs: Path, name: str, about: dict[str, Any], *, named: bool) -> Self:
        """A folder of that name; with a number after it if the name was not asked for and is taken."""
        path = runs / name
        number = 2
        # Asking by making it: two runs that start at the same moment must not get one folder.
        while not _made(path):
            if named and _never_began(path):
                break
            if named:
                resume = "" if about.get("kind") == "check" else f", or `trueloop resume {path}`"
                cure = f"choose another --name{resume}"
                raise Misuse(f"{path} already holds a run. Nothing was run: {cure}.")
            path, number = runs / f"{name}-{number}", number + 1
        folder = cls(path, {"format": FORMAT, "kind": "train", "name": path.name, "started": time.time(), **about})
        folder.acquire()
        folder.write(status="running")
        return folder

    @classmethod
    def open(cls, path: Path) -> Self:
        """To resume a run."""
        folder = cls(path, read_about(path))
        _refuse_links(path)
        folder.acquire()
        folder.about = read_about(path)  # again: another process may have ended the run since
        return folder

    def acquire(self) -> None:
        try:
            self._lock = os.open(self.path / "lock", os.O_CREAT | os.O_RDWR, 0o644)
            _locks.add(self._lock)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise Misuse(f"{self.path} is being trained by another process. Nothing was run.") from None
        except OSError as error:
            self.close()
            raise CannotSave(f"{self.path} cannot be written ({error.strerror}). Nothing was run.") from None

    def write(self, **changes: Any) -> None:
        """run.json, replaced whole."""
        self.about.update(changes)
        if self.guest:
            return
        aside = self.path / f"{ABOUT}.writing"
        try:
            with aside.open("w", encoding="utf-8") as file:
                file.write(json.dumps(self.about, indent=2) + "\n")
                file.flush()
                os.fsync(file.fileno())
            aside.replace(self.path / ABOUT)
        except OSError as error:
            with suppress(OSError):
                aside.unlink(missing_ok=True)
            raise CannotSave(f"{self.path / ABOUT} could not be written ({error.strerror}).") from None

    def leave_word(self, **changes: Any) -> None:
        """Change run.json from a process that will not come back to it, guest or not. Raises OSError, NotARun."""
        aside = self.path / f"{ABOUT}.{os.getpid()}.writing"
        aside.write_text(json.dumps({**read_about(self.path), **changes}, indent=2) + "\n", encoding="utf-8")
        aside.replace(self.path / ABOUT)

    def close(self) -> None:
        if self._lock is not None:
            _locks.discard(self._lock)
            os.close(self._lock)
            self._lock = None

    def discard(self) -> None:
        """Of a run that was refused before its first step: nothing in it is worth a name in the table of runs."""
        self.close()
        if not self.guest:
            shutil.rmtree(self.path, ignore_errors=True)

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"


_locks: Final[set[int]] = set()  # Open files that hold a lock of this process


def _let_go() -> None:
    """In a forked child: a loader's worker that outlives its killed parent must not keep the run locked."""
    for handle in _locks:
        os.close(handle)
    _locks.clear()


os.register_at_fork(after_in_child=_let_go)


def _refuse_links(path: Path) -> None:
    """A folder from a stranger must not decide which other files a resumed run writes. Raises NotARun."""
    linked = next((each for each in path.iterdir() if each.is_symlink() and not each.is_dir()), None)
    if linked is not None:
        why = f"{linked} is a link, and a resumed run would write to where it leads"
        raise NotARun(f"{why}. Nothing was run: put the file itself there, or remove the link.")


def _made(path: Path) -> bool:
    """False: it was there."""
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        return False
    except OSError as error:
        said = f"The run's folder {path} cannot be made ({error.strerror})"
        raise CannotSave(f"{said}. Nothing was run: choose another --runs folder.") from None
    return True


def _never_began(path: Path) -> bool:
    """Was a run killed here before it had written a word?"""
    early = {"lock", f"{ABOUT}.writing"}
    return path.is_dir() and {each.name for each in path.iterdir()} <= early and not running(path)


def read_about(path: Path, kinds: tuple[str, ...] = ("train",)) -> dict[str, Any]:
    """What run.json says of a run of these kinds: train, check. Raises NotARun."""
    file = path / ABOUT
    try:
        about = parse_json(read_regular(file, MOST_ABOUT))
    except FileNotFoundError:
        raise NotARun(f"{path} holds no run (no {ABOUT}). Nothing was done: `trueloop runs` lists the runs.") from None
    except (OSError, ValueError) as error:
        raise NotARun(f"{file} cannot be read ({error}). Nothing was done.") from None
    if isinstance(about, dict) and about.get("kind") == "check" and "check" not in kinds:
        without = "it has no recipe and no checkpoints"
        raise NotARun(f"{path} is a run of `trueloop check`: {without}. Nothing was done: name a run of `train`.")
    if not isinstance(about, dict) or about.get("kind") not in kinds:
        raise NotARun(f"{path} is not a run of `trueloop train`. Nothing was done.")
    wrong = [name for name, kind in _FIELDS.items() if not isinstance(about.get(name), kind | None)]
    large = [name for name, value in about.items() if isinstance(value, int) and abs(value) >= _LARGEST]
    if wrong or large:
        raise NotARun(f"{file} is damaged: the value of {(wrong or large)[0]!r} cannot be right. Nothing was done.")
    return about


_FIELDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("started", "seconds"), int | float),
    **dict.fromkeys(("step", "total_steps", "best_step"), int),
    **dict.fromkeys(("name", "status", "metric", "message", "group", "script", "data", "path"), str),
    **dict.fromkeys(("recipe", "origin", "machine", "git", "varied"), dict),
}
"""Fields of run.json that are read in many places -> what they are, or null. A stranger may write anything there."""
_LARGEST: Final = 1 << 63


@contextmanager
def reading_run(path: Path) -> Iterator[None]:
    """Values of another kind, deeper in the files of a run: NotARun instead of the error that they cause."""
    try:
        yield
    except (TypeError, ValueError, AttributeError, KeyError, IndexError, OverflowError) as error:
        why = f"{type(error).__name__}: {error}"[:200]
        raise NotARun(f"{path} is damaged: a recorded value cannot be right ({why}). Nothing was done.") from None


def running(path: Path) -> bool:
    """Does a process hold its lock?"""
    try:
        handle = os.open(path / "lock", os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def find_run(word: str, folder: Path, undone: str = "compared") -> Path:
    """A run by its path, or by its name in the folder of runs. `undone`: what a refusal says has not been done."""
    for path in (Path(word), folder / word):
        if (path / "run.json").is_file():
            return path
    if Path(word).is_dir():
        raise NotARun(f"{word} holds no run (no run.json). Nothing was {undone}: `trueloop runs` lists the runs.")
    known = [path.name for path in folder.iterdir() if (path / "run.json").is_file()] if folder.is_dir() else []
    raise NotARun(
        f"There is no run {word!r}.{did_you_mean(Path(word).name, known)} "
        f"Nothing was {undone}: `trueloop runs` lists the runs."
    )
