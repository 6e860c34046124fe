"""What was proved about a lab, on disk: one JSON file for each lab.

    {"format": 1, "lab": "view-or-copy", "run": {...}, "exercise": {...}}

Both hold numbers, versions and the digest of the lab's source; the exercise also path and digest of the reader's file.
"""

import json
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from trueloop.labs.catalogue import digest
from trueloop.results.lab import ExerciseCheck, LabEntry, LabRun

__all__ = ["folder", "keep_exercise", "keep_run", "with_proof"]

FORMAT: Final = 1


def folder() -> Path:
    """Not the cache: it may be cleared, and progress should survive that."""
    own, data = os.environ.get("TRUELOOP_LABS"), os.environ.get("XDG_DATA_HOME")
    return Path(own) if own else (Path(data) if data else Path.home() / ".local" / "share") / "trueloop" / "labs"


def keep_run(run: LabRun) -> str:
    """Why it could not be written; empty: it was, or nothing was measured."""
    if run.not_here or run.error:
        return ""
    return _keep(run.name, "run", {"holds": run.holds(), **run.plain()})


def keep_exercise(check: ExerciseCheck, file: Path) -> str:
    """Only a solved exercise is kept: an experiment that fails does not undo it."""
    if not check.holds():
        return ""
    own = {"file": str(file.absolute()), "file_digest": sha256(file.read_bytes()).hexdigest()}
    return _keep(check.lab, "exercise", {"holds": True, **check.plain(), **own})


def _keep(name: str, part: str, content: Mapping[str, Any]) -> str:
    path = folder() / f"{name}.json"
    proof = {**content, "digest": digest(name), "when": time.time()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(".writing")
        aside.write_text(json.dumps({**_read(name), "format": FORMAT, "lab": name, part: proof}, indent=2) + "\n")
        os.replace(aside, path)
    except OSError as error:
        return f"The proof could not be written to {path} ({error.strerror}). TRUELOOP_LABS names another folder."
    return ""


def _read(name: str) -> dict[str, Any]:
    """Empty: there is no proof, or it is damaged."""
    try:
        content = json.loads((folder() / f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) and content.get("format") == FORMAT else {}


def with_proof(entry: LabEntry) -> LabEntry:
    """What is proved of the lab: its exercise where it has one, else its answer."""
    proof = _read(entry.name).get("exercise" if entry.exercise else "run")
    if not isinstance(proof, dict) or proof.get("holds") is not True:
        return entry
    why = _stale(entry, proof)
    return replace(entry, state="stale" if why else "proven", when=float(proof.get("when", 0)), why=why)


def _stale(entry: LabEntry, proof: Mapping[str, Any]) -> str:
    if proof.get("digest") != digest(entry.name):
        return "the lab has changed since"
    file = Path(proof["file"]) if "file" in proof else None
    if file is not None and file.is_file() and sha256(file.read_bytes()).hexdigest() != proof.get("file_digest"):
        return f"{file} has changed since"
    return ""
