"""The checkpoints: which exist, what they hold, and whether a resumed run is exact."""

import json
import os
from pathlib import Path
from typing import Final

from trueloop.checkpoint.store import Folder
from trueloop.errors import BadCheckpoint
from trueloop.readiness.record import Absent
from trueloop.readiness.statements import Run, claim_question, question
from trueloop.readiness.training_keys import ForeignCode, NotReadable, keys_of
from trueloop.results.readiness import Figure, Statement, stated
from trueloop.trust.files import open_regular

__all__ = ["best", "contents", "newest", "readable", "resumed"]

SECTION: Final = "checkpoints"
NEEDED: Final = {
    "state": "counters",
    "optimizer": "the optimizer",
    "random": "random states",
    "precision": "the precision state",
    "guard": "the state of the non-finite guard",
}  # What training.pt must hold for an exact resume -> in words
WEIGHTS: Final = ".safetensors"
LONGEST: Final = 1 << 27  # bytes of a header: safetensors itself accepts no longer one, and its reader loads NumPy


def _newest(run: Run) -> tuple[str, Folder]:
    store = Folder(run.record.folder / "checkpoints")
    names = store.names()
    if not names:
        raise Absent("checkpoints/", "there is no checkpoint")
    return names[-1], store


@question(SECTION, "a checkpoint", "trueloop train {recipe}", essential=True)
def newest(run: Run) -> Statement:
    """File sizes are compared with the manifest, which is hashed; `checkpoint verify` compares the files' hashes."""
    name, store = _newest(run)
    address = f"checkpoints/{name}/manifest.json"
    try:
        sizes = {file: about["bytes"] for file, about in store.manifest(name)["files"].items()}
    except BadCheckpoint:
        return _broken(run, address, "the manifest of the newest checkpoint is damaged")
    for file, size in sizes.items():
        path = run.record.folder / "checkpoints" / name / file
        if not path.is_file() or path.stat().st_size != size:
            return _broken(run, address, f"the newest checkpoint is incomplete: {file} is missing or truncated")
    step, end = run.record.figure(f"{address}#step"), run.record.figure("run.json#step")
    total = Figure(sum(sizes.values()), f"total([{address}#files])") / 1e6
    text = "the newest checkpoint is from step {step:,} ({size:.2f} MB), the run ended at step {end:,}"
    return stated(SECTION, "risk" if step.value < end.value else "good", text, step=step, size=total, end=end)


def _broken(run: Run, address: str, text: str) -> Statement:
    broken = stated(SECTION, "bad", text).and_see(run.record.address(address))
    return broken.advising(f"trueloop checkpoint verify {run.name}")


@question(SECTION, "the best checkpoint", "trueloop train {recipe}")
def best(run: Run) -> Statement:
    _, store = _newest(run)
    name = store.best()
    if name is None:
        raise Absent("checkpoints/", "the newest one names no best that exists")
    step = run.record.figure(f"checkpoints/{name}/manifest.json#step")
    return stated(SECTION, "good", "the best weights are kept: step {step:,}", step=step)


@question(SECTION, "weights that can be read", "trueloop checkpoint verify {run}")
def readable(run: Run) -> Statement:
    """Hashes say only that the author of the manifest had these bytes: a pickle can have the name of weights."""
    newest_name, store = _newest(run)
    names = sorted({newest_name, store.best() or newest_name})
    try:
        files = [f"{name}/{file}" for name in names for file in store.manifest(name)["files"] if file.endswith(WEIGHTS)]
    except BadCheckpoint as error:
        raise Absent("checkpoints/", str(error)) from None
    for file in files:
        if why := _unreadable(store.folder / file):
            text = f"{file} {why}: every verb that loads these weights refuses them"
            return _broken(run, f"checkpoints/{file}", text)
    see = (run.record.address(f"checkpoints/{file}") for file in files)
    return stated(SECTION, "good", "the weights of the newest and the best checkpoint are safetensors").and_see(*see)


def _unreadable(path: Path) -> str:
    """Empty for a file whose header fits its size; no tensor is read."""
    try:
        with open_regular(path) as file:  # opening a pipe would never end
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length) if length <= min(size, LONGEST) else b"")
        tensors = [about for name, about in header.items() if name != "__metadata__"]
        end = max((about["data_offsets"][1] for about in tensors), default=0)
        return "" if 8 + length + end == size else "is not a safetensors file"
    except (ValueError, AttributeError, TypeError, KeyError, IndexError, RecursionError):
        return "is not a safetensors file"
    except OSError as error:
        return f"cannot be read ({error.strerror or type(error).__name__})"


@question(SECTION, "what the newest checkpoint holds", "trueloop checkpoint show {run}")
def contents(run: Run) -> Statement:
    name, _ = _newest(run)
    file = f"checkpoints/{name}/training.pt"
    try:
        parts = keys_of(run.record.folder / file)
    except ForeignCode as error:
        text = f"training.pt would execute code when loaded ({error}): `trueloop resume` refuses it"
        return _broken(run, file, text)
    except NotReadable as error:
        return _broken(run, file, f"training.pt is damaged, or not a torch.save file ({error})")
    missing = [word for part, word in NEEDED.items() if part not in parts]
    weights = sorted(each.stem for each in (run.record.folder / "checkpoints" / name).glob(f"*{WEIGHTS}"))
    address = run.record.address(file)
    if missing or not weights:
        return stated(SECTION, "bad", f"to resume, it lacks {', '.join(missing or ['weights'])}").and_see(address)
    return stated(SECTION, "good", f"it holds {', '.join(('weights', *NEEDED.values()))}").and_see(address)


resumed = claim_question(SECTION, "exact resume", "resume-is-exact", "a resume is exact", "a resumed run differs")
