"""The data of a run in a few bytes: how many samples each split has, and a hash of some of them.

Every checkpoint carries it. A run that is resumed on other data, or on another split of the same data, would train on
samples that it validates on: it stops instead.
"""

from collections.abc import Mapping
from typing import Any, Final

from trueloop.data.source import Source, Splits, samples_in
from trueloop.measure.randomness import fence
from trueloop.session.samples import Samples, read_samples

__all__ = ["data_that_differ", "fingerprint_of"]

IN_MEMORY: Final = 256  # samples of each split
ELSEWHERE: Final = 16  # each may be a file
BYTES: Final = 1 << 26


def fingerprint_of(splits: Splits, seed: int) -> dict[str, dict[str, Any]]:
    """By split. `digest` is None where two readings of the same samples differ (a dataset with its own random numbers),
    and where they cannot be read."""
    named = {"train": splits.train, "valid": splits.valid, "test": splits.test}
    with fence():
        return {name: _fingerprint(source, seed) for name, source in named.items() if source is not None}


def _fingerprint(source: Source, seed: int) -> dict[str, Any]:
    if samples_in(source) is None:
        return {"samples": 0, "digest": None}  # reading a stream would move it
    try:
        first, second = _read(source, seed).full_digest, _read(source, seed).full_digest
    except Exception:  # noqa: BLE001 - user code may raise anything; if the samples are bad, the training says so
        return {"samples": len(source), "digest": None}
    return {"samples": len(source), "digest": first if first == second else None}


def _read(source: Source, seed: int) -> Samples:
    limits = {"in_memory": IN_MEMORY, "elsewhere": ELSEWHERE, "nbytes": BYTES}
    return read_samples(source, seed, **limits, seconds=float("inf"))  # never fewer on a busy machine


def data_that_differ(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """One sentence for each split that is not what it was."""
    return [sentence for name in ("train", "valid", "test") if (sentence := _sentence(name, before, now))]


def _sentence(name: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    old, new = before.get(name), now.get(name)
    if not isinstance(old, Mapping) or not isinstance(new, Mapping) or {"samples", "digest"} - set(old):
        return "" if old is new else f"{name}: {'none now' if new is None else 'none before'}"
    if old["samples"] != new["samples"]:
        return f"{name}: {old['samples']:,} samples before, {new['samples']:,} now"
    if old["digest"] and new["digest"] and old["digest"] != new["digest"]:
        return f"{name}: {new['samples']:,} samples as before, but different ones"
    return ""
