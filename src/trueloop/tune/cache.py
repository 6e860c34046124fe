"""What was found before: kept for each machine, model, version and question in the user's cache folder. The file may be
deleted."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import torch

from trueloop import __version__
from trueloop.recipe.recipe import Recipe, describe
from trueloop.results.tune import Objective, Tuning, read_tuning
from trueloop.tune.machine_facts import Here

__all__ = ["key_of", "recalled", "remember"]

FILE: Final = "tunings.json"
VERSION: Final = 1
"""Of the way it is searched, measured and judged: another one forgets what is known."""


def key_of(
    recipe: Recipe, here: Here, objective: Objective, seeds: int, allowed: Iterable[str], settings: Mapping[str, str]
) -> str:
    """Everything that the answer depends on."""
    asked = {
        "version": VERSION,
        "trueloop": __version__,
        "torch": torch.__version__,
        "device": here.place.name,
        "cores": [here.place.cores, here.cores, here.threads],
        "memory": here.place.memory,
        "recipe": describe(recipe),
        "model": here.shapes,
        "samples": here.samples,
        "objective": objective,
        "seeds": seeds,
        "allowed": sorted(allowed),
        "fixed": sorted(settings),
    }
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def recalled(key: str) -> Tuning | None:
    found = _read().get(key)
    if found is None:
        return None
    try:
        return read_tuning(found)
    except (KeyError, TypeError, ValueError):
        return None  # written by another version of ours: measured anew


def remember(key: str, made: Tuning) -> None:
    """Without a cache it is measured each time."""
    file = _file()
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        aside = file.with_name(f"{file.name}.{os.getpid()}.part")
        aside.write_text(json.dumps({**_read(), key: made.plain()}), encoding="utf-8")
        aside.replace(file)


def _file() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "trueloop" / FILE


def _read() -> dict[str, Any]:
    try:
        known = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}
