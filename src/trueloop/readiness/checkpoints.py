"""What is left when the machine goes: which checkpoints there are, what they hold, and whether a run went on from one
exactly."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any, Final

from trueloop.checkpoint.store import Folder
from trueloop.errors import BadCheckpoint
from trueloop.readiness.question import Run, asked
from trueloop.readiness.record import Absent
from trueloop.readiness.validation import proved
from trueloop.results.readiness import Figure, Statement, stated

__all__ = ["best", "contents", "newest", "parts_of", "resumed"]

SECTION: Final = "checkpoints"
NEEDED: Final = {
    "state": "counters",
    "optimizer": "the optimizer",
    "random": "random states",
    "precision": "the precision's state",
    "guard": "the guard's",
}
"""What training.pt must hold for a run to go on exactly, and what each is called."""


def _newest(run: Run) -> tuple[str, Folder]:
    store = Folder(run.record.folder / "checkpoints")
    names = store.names()
    if not names:
        raise Absent("checkpoints/", "no checkpoint is there")
    return names[-1], store


@asked(SECTION, "a checkpoint", "trueloop train {recipe}", essential=True)
def newest(run: Run) -> Statement:
    """Sizes are compared with the manifest, which carries its own hash; the files' hashes are for `checkpoint
    verify`."""
    name, store = _newest(run)
    address = f"checkpoints/{name}/manifest.json"
    try:
        lengths = {file: told["bytes"] for file, told in store.manifest(name)["files"].items()}
    except BadCheckpoint:
        return _broken(run, address, "the manifest of the newest checkpoint is damaged")
    for file, length in lengths.items():
        path = run.record.folder / "checkpoints" / name / file
        if not path.is_file() or path.stat().st_size != length:
            return _broken(run, address, f"the newest checkpoint is not whole: {file} is missing or cut short")
    step, end = run.record.figure(f"{address}#step"), run.record.figure("run.json#step")
    size = Figure(sum(lengths.values()), f"total([{address}#files])") / 1e6
    text = "the newest checkpoint is of step {step:,} ({size:.2f} MB), the run ended at step {end:,}"
    behind = step.value < end.value
    return stated(SECTION, "risk" if behind else "good", text, step=step, size=size, end=end)


def _broken(run: Run, address: str, text: str) -> Statement:
    return (
        stated(SECTION, "bad", text)
        .and_see(run.record.address(address))
        .advising(f"trueloop checkpoint verify {run.name}")
    )


@asked(SECTION, "the best checkpoint", "trueloop train {recipe}")
def best(run: Run) -> Statement:
    _, store = _newest(run)
    name = store.best()
    if name is None:
        raise Absent("checkpoints/", "the newest one names no best that is there")
    step = run.record.figure(f"checkpoints/{name}/manifest.json#step")
    return stated(SECTION, "good", "the best weights are kept: step {step:,}", step=step)


@asked(SECTION, "what the newest checkpoint holds", "trueloop checkpoint show {run}")
def contents(run: Run) -> Statement:
    name, _ = _newest(run)
    file = f"checkpoints/{name}/training.pt"
    parts = parts_of(run.record.folder / file)
    lacking = [word for part, word in NEEDED.items() if part not in parts]
    weights = sorted(each.stem for each in (run.record.folder / "checkpoints" / name).glob("*.safetensors"))
    address = run.record.address(file)
    if lacking or not weights:
        return stated(SECTION, "bad", f"to go on, it lacks {', '.join(lacking or ['weights'])}").and_see(address)
    return stated(SECTION, "good", f"it holds {', '.join(('weights', *NEEDED.values()))}").and_see(address)


@asked(SECTION, "whether a resumed run is the same run", "trueloop probe {run} resume-is-exact")
def resumed(run: Run) -> Statement:
    return proved(run, SECTION, "resume-is-exact", "a resume was proved", "a resumed run is another run")


# -- without torch --


class _Stub:
    """Stands for whatever a file names: nothing of it is imported or run."""

    def __new__(cls, *_: Any, **__: Any) -> Any:
        return object.__new__(cls)

    def __setstate__(self, _: Any) -> None: ...

    def __setitem__(self, _: Any, __: Any) -> None: ...

    def __call__(self, *_: Any) -> Any:
        return self


class _Names(pickle.Unpickler):
    """Reads the keys of a file of torch.save; tensors stay where they are."""

    def find_class(self, _: str, __: str) -> Any:
        return _Stub

    def persistent_load(self, _: Any) -> Any:
        return None


def parts_of(file: Path) -> set[str]:
    """What the dict in a file of torch.save holds, by name. Raises Absent."""
    try:
        with zipfile.ZipFile(file) as packed:
            inside = next(name for name in packed.namelist() if name.endswith("/data.pkl"))
            with packed.open(inside) as pickled:
                found = _Names(pickled).load()
    except (
        OSError,
        StopIteration,
        zipfile.BadZipFile,
        pickle.UnpicklingError,
        EOFError,
        TypeError,
        ValueError,
    ) as error:
        raise Absent(f"checkpoints/{file.parent.name}/{file.name}", f"it cannot be read: {error}") from None
    return {str(key) for key in found} if isinstance(found, dict) else set()
