"""How fast the language model of a run writes: all forms in turns, so that other load on the machine affects each."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from trueloop.inference.generate import LanguageModel, Sampling
from trueloop.results.generation_bench import GenerationBench, GenerationPace

__all__ = ["PROMPT", "TOKENS", "measure_generation"]

PROMPT: Final = 16  # Tokens of the prompt
TOKENS: Final = 64
LEAST: Final = 2  # Texts of each form and batch size, however long one takes
GREEDY: Final = Sampling(temperature=0.0)


def measure_generation(
    model: LanguageModel,
    batches: Sequence[int],
    machine: Mapping[str, Any],
    *,
    prompt: int = PROMPT,
    tokens: int = TOKENS,
    seconds: float = 3.0,
    say: Callable[[str], None] = lambda _: None,
) -> GenerationBench:
    """With and without the KV cache, where the model has one."""
    vocabulary = model.loaded.splits.facts.vocabulary or getattr(model.config, "vocab_size", None) or 2
    given = [number % vocabulary for number in range(prompt)]
    forms = {"KV cache": True, "recomputed": False} if model.has_cache else {"recomputed": False}
    paces: list[GenerationPace] = []
    for batch in batches:
        say(f"batch size {batch}")
        texts: dict[str, list[tuple[float, ...]]] = {form: [] for form in forms}

        def write(form: str, batch: int = batch) -> tuple[float, ...]:
            return model.generate(given, tokens, GREEDY, count=batch, cache=forms[form], ends=False).seconds

        for form in forms:
            write(form)  # warm-up
        while min(map(len, texts.values())) < LEAST or min(map(_spent, texts.values())) < seconds:
            for form in forms:
                texts[form].append(write(form))
        paces += [GenerationPace.of(form, batch, texts[form]) for form in forms]
    name, context = model.loaded.folder.resolve().name, model.context
    return GenerationBench(
        name, tuple(paces), prompt, tokens, context, machine, seconds, _notes(model, prompt + tokens)
    )


def _spent(texts: Sequence[Sequence[float]]) -> float:
    return math.fsum(seconds for text in texts for seconds in text)


def _notes(model: LanguageModel, length: int) -> tuple[str, ...]:
    notes = []
    if not model.has_cache:
        notes.append("The model has no KV cache: it is called on all tokens for each new one.")
    if model.context is not None and length > model.context:
        notes.append(
            f"Behind {model.context:,} tokens the model sees the last {model.context:,}, computed again for each "
            "token: fewer --tokens stay inside the context."
        )
    return tuple(notes)
