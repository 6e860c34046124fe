"""Earlier results, cached per machine, model, version and options in the user's cache folder."""

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
from trueloop.tune.machine_facts import MachineFacts

__all__ = ["cache_key", "read_cached", "write_cached"]

FILE: Final = "tunings.json"
VERSION: Final = 1  # Increase it when the search or the comparison changes


def cache_key(
    recipe: Recipe,
    facts: MachineFacts,
    objective: Objective,
    seeds: int,
    allowed: Iterable[str],
    settings: Mapping[str, str],
) -> str:
    """Everything that the result depends on."""
    asked = {
        "version": VERSION,
        "trueloop": __version__,
        "torch": torch.__version__,
        "device": facts.place.name,
        "cores": [facts.place.cores, facts.cores, facts.threads],
        "memory": facts.place.memory,
        "recipe": describe(recipe),
        "model": facts.shapes,
        "samples": facts.samples,
        "objective": objective,
        "seeds": seeds,
        "allowed": sorted(allowed),
        "fixed": sorted(settings),
    }
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def read_cached(key: str) -> Tuning | None:
    found = _read().get(key)
    if found is None:
        return None
    try:
        return read_tuning(found)
    except (KeyError, TypeError, ValueError):
        return None  # written by another version


def write_cached(key: str, made: Tuning) -> None:
    """Errors are ignored: without a cache everything is measured each time."""
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
