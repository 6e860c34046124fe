"""A language model of a run that writes several texts of different lengths at once, with one KV cache for all.

It takes a model with the methods of recipe shakespeare's GPT: `empty_cache(texts)`, `forward_cached(tokens, cache)` for
a prompt, and `forward_ragged(tokens, cache, lengths)` for one more token of each text.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast, final

import torch

from trueloop.engine.precision import Precision
from trueloop.errors import Misuse
from trueloop.inference.generate import LanguageModel, Sampling, choose
from trueloop.inference.text_coding import TextCoding
from trueloop.serve.text_streams import Stream, TextModel

__all__ = ["RaggedBatch"]

NEEDED: Final = ("empty_cache", "forward_cached", "forward_ragged")


@final
class RaggedBatch(TextModel):
    """Raises Misuse for a model without these methods."""

    def __init__(self, model: LanguageModel, coding: TextCoding, texts: int) -> None:
        loaded = model.loaded
        self.model: Any = cast("Any", loaded.model)  # has methods that nn.Module has not
        if missing := [name for name in NEEDED if not callable(getattr(self.model, name, None))]:
            what = f"{type(self.model).__name__} has no method {missing[0]}"
            typed = f"`trueloop sample {loaded.folder.name}` writes one text"
            raise Misuse(f"{loaded.folder} cannot be served: {what}. Nothing was served: {typed}.")
        vocabulary = loaded.splits.facts.vocabulary
        if model.context is None or not vocabulary or loaded.splits.prepare is not None:
            what = "its data names no context and vocabulary (Facts(inputs=(N,), vocabulary=M)), or prepares inputs"
            raise Misuse(f"{loaded.folder} cannot be served: {what}. Nothing was served.")
        self.context, self.ends = model.context, model.ends
        self.coding, self.device = coding, loaded.device
        self.vocabulary = vocabulary
        self.precision = Precision(loaded.recipe.precision, self.device)
        with self._computing():
            _, kept = self.model.forward_cached(torch.zeros(1, 1, dtype=torch.long, device=self.device), None)
        made = self.model.empty_cache(texts)
        self.cache = [(keys.to(kept[0][0].dtype), values.to(kept[0][0].dtype)) for keys, values in made]
        self.lengths: list[int] = []  # Tokens in the cache, of each text
        self.last: list[int] = []  # The newest token of each, which is not in the cache yet
        self.draws: list[tuple[Sampling, torch.Generator]] = []

    def encode(self, text: str) -> list[int]:
        return self.coding.encode(text)

    def decode(self, tokens: Sequence[int]) -> str:
        return self.coding.decode(tokens)

    def add(self, stream: Stream) -> int:
        row, length = len(self.lengths), len(stream.prompt)
        with self._computing():
            scores, kept = self.model.forward_cached(torch.tensor([stream.prompt], device=self.device), None)
            for (keys, values), (new_keys, new_values) in zip(self.cache, kept, strict=True):
                keys[row, :, :length], values[row, :, :length] = new_keys[0], new_values[0]
        sampling = Sampling(stream.temperature, stream.top_k, stream.top_p)
        draws = torch.Generator().manual_seed(stream.seed)
        token = choose(scores[0, -1], sampling, draws)
        self.lengths.append(length)
        self.last.append(token)
        self.draws.append((sampling, draws))
        return token

    def step(self) -> list[int]:
        tokens, lengths = (torch.tensor(each, device=self.device) for each in (self.last, self.lengths))
        with self._computing():
            scores = self.model.forward_ragged(tokens, self.cache, lengths).float().cpu()
        likeliest = scores.argmax(1).tolist()
        self.last = [
            likeliest[row] if sampling.temperature == 0 else choose(scores[row], sampling, draws)
            for row, (sampling, draws) in enumerate(self.draws)
        ]
        self.lengths = [length + 1 for length in self.lengths]
        return list(self.last)

    def drop(self, row: int) -> None:
        final_row = len(self.lengths) - 1
        if row != final_row:
            used = self.lengths[final_row]
            for keys, values in self.cache:
                keys[row, :, :used], values[row, :, :used] = keys[final_row, :, :used], values[final_row, :, :used]
        self.lengths[row], self.last[row], self.draws[row] = self.lengths[-1], self.last[-1], self.draws[-1]
        for each in (self.lengths, self.last, self.draws):
            each.pop()

    @contextmanager
    def _computing(self) -> Iterator[None]:
        with torch.no_grad(), self.precision.autocast():
            yield
