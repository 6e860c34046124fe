"""The result of `bench RUN --generate`: how fast a language model writes, with and without its KV cache. No torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from trueloop.results.bench import percentile

__all__ = ["GenerationBench", "GenerationPace"]


@dataclass(frozen=True, slots=True)
class GenerationPace:
    """One form at one batch size. Times are seconds."""

    form: str  # KV cache | recomputed
    batch: int
    texts: int  # Measured
    first: float  # Median time to the first token: the whole prompt is read
    p50: float  # Of one step of one token for each text, after the first
    p95: float
    per_second: float  # Tokens of all texts per second, the prompt included in the time

    @classmethod
    def of(cls, form: str, batch: int, texts: Sequence[Sequence[float]]) -> GenerationPace:
        """`texts`: the seconds of each step, for each text."""
        later = [seconds for text in texts for seconds in text[1:]] or [text[0] for text in texts]
        tokens = batch * sum(map(len, texts))
        total = math.fsum(seconds for text in texts for seconds in text)
        first = percentile([text[0] for text in texts], 0.5)
        return cls(form, batch, len(texts), first, percentile(later, 0.5), percentile(later, 0.95), tokens / total)


@dataclass(frozen=True, slots=True)
class GenerationBench:
    run: str
    paces: tuple[GenerationPace, ...]
    prompt: int  # Tokens
    tokens: int  # Generated for each text
    context: int | None
    machine: Mapping[str, Any]
    seconds: float  # For each form and batch size
    notes: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        return asdict(self)
