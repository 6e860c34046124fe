"""Text from a language model of a run, token by token: `LanguageModel(loaded).generate(...)`.

A model of Hugging Face keeps keys and values of earlier tokens (its KV cache), and so does one with a method
`forward_cached(tokens, cache) -> (scores, cache)`, like the GPT of recipe shakespeare; the first cache is None. Other
models are called on all tokens for each new one. Behind the context's end all see the last tokens of the context, as a
new text.
"""

import inspect
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, final

import torch
from torch import Tensor, nn

from trueloop.data.source import Source
from trueloop.engine.call_model import call_model, takes_names
from trueloop.engine.evaluate import evaluating
from trueloop.engine.precision import Precision
from trueloop.errors import BadData, Misuse
from trueloop.export.program import scores_of
from trueloop.inference.load import Loaded

__all__ = ["Generated", "LanguageModel", "Sampling", "choose"]

LONGEST: Final = ("max_position_embeddings", "n_positions", "n_ctx")  # In a configuration of Hugging Face
STRIDE: Final = 1_000_003  # Between the seeds of several samples


@final
@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is drawn. temperature 0: the most likely one."""

    temperature: float = 1.0
    top_k: int | None = None  # Only the k most likely tokens
    top_p: float | None = None  # Only the most likely tokens whose probabilities add up to p


def choose(scores: Tensor, sampling: Sampling, draws: torch.Generator) -> int:
    """One token, from the scores [vocabulary] of the next one; on the CPU, so that a seed gives the same everywhere."""
    scores = scores.detach().float().cpu()
    if sampling.temperature == 0:
        return int(scores.argmax())
    scores = scores / sampling.temperature
    if sampling.top_k is not None and sampling.top_k < len(scores):
        scores = scores.masked_fill(scores < scores.topk(sampling.top_k).values[-1], -torch.inf)
    if sampling.top_p is not None:
        ordered, places = scores.sort(descending=True, stable=True)
        before = ordered.softmax(0).cumsum(0) - ordered.softmax(0)  # of the more likely ones: the first always stays
        scores = scores.index_fill(0, places[before >= sampling.top_p], -torch.inf)
    return int(torch.multinomial(scores.softmax(0), 1, generator=draws))


@final
@dataclass(frozen=True, slots=True)
class Generated:
    tokens: tuple[tuple[int, ...], ...]  # New ones, per sample
    seconds: tuple[float, ...]  # Until each step's tokens were there, from the one before; the first reads the prompt
    cached: bool


@final
class LanguageModel:
    """Raises Misuse for a run whose model predicts no next token."""

    def __init__(self, loaded: Loaded) -> None:
        self.loaded, self.model = loaded, loaded.model
        whole: Any = self.model
        base = whole.get_base_model() if hasattr(whole, "get_base_model") else whole  # of peft
        self.config = getattr(base, "config", None) if _is_causal(base) else None
        if isinstance(self.model, nn.ModuleDict):
            raise Misuse(f"{loaded.folder} has several models: {', '.join(self.model)}. Nothing was generated.")
        _refuse_others(loaded, base, known=self.config is not None)
        names = inspect.signature(base.forward).parameters if self.config is not None else {}
        # With `prepare`, what the model gets for one token may depend on the tokens before it.
        own = self.config is None and loaded.splits.prepare is None
        self._own_cache = getattr(base, "forward_cached", None) if own else None
        self.has_cache = {"past_key_values", "use_cache"} <= set(names) or callable(self._own_cache)
        self.context = self._context()
        ends = getattr(self.config, "eos_token_id", None)
        self.ends = frozenset(ends if isinstance(ends, (list, tuple)) else [] if ends is None else [ends])
        self._named = self.config is not None or takes_names(self.model, {"input_ids": None})

    def _context(self) -> int | None:
        """Tokens that the model can see at once; None: no limit is known."""
        for name in LONGEST:
            if isinstance(length := getattr(self.config, name, None), int):
                return length
        shape = self.loaded.splits.facts.inputs
        if self.config is None and len(shape) == 1:
            return shape[0]
        source: Source = self.loaded.splits.train
        rows = source.fetch(torch.arange(1)).inputs if self.config is None and source.by_index else None
        return rows.shape[1] if isinstance(rows, Tensor) and rows.dim() == 2 else None

    def generate(
        self, prompt: Sequence[int], tokens: int, sampling: Sampling, *, seed: int = 0, count: int = 1,
        cache: bool = True, ends: bool = True, clock: Callable[[], float] = time.perf_counter,
    ) -> Generated:  # fmt: skip
        """`count` samples for one prompt: sample i is drawn from (seed, i), so more samples do not change the first.
        `ends`: a sample is over when it has its end-of-text token."""
        if not prompt:
            raise Misuse("The prompt is empty, and a model needs at least one token. Nothing was generated.")
        cached = cache and self.has_cache
        draws = [torch.Generator().manual_seed(seed + STRIDE * number) for number in range(count)]
        rows = torch.tensor([list(prompt)] * count, device=self.loaded.device)
        made: list[list[int]] = [[] for _ in range(count)]
        over, seconds, state = [False] * count, list[float](), None
        precision = Precision(self.loaded.recipe.precision, self.loaded.device)
        with evaluating(self.model), precision.autocast():
            for _ in range(tokens):
                begun = clock()
                scores, state = self._next(rows, state, cached=cached)
                chosen = [choose(row, sampling, draw) for row, draw in zip(scores, draws, strict=True)]
                rows = torch.cat([rows, torch.tensor(chosen, device=rows.device)[:, None]], 1)
                seconds.append(clock() - begun)
                for number, token in enumerate(chosen):
                    over[number] |= ends and token in self.ends
                    if not over[number]:
                        made[number].append(token)
                if all(over):
                    break
        return Generated(tuple(map(tuple, made)), tuple(seconds), cached)

    def _next(self, rows: Tensor, state: Any, *, cached: bool) -> tuple[Tensor, Any]:
        """Scores of the next token [N, vocabulary], and the cache."""
        inside = self.context is None or rows.shape[1] <= self.context
        if not cached or not inside:
            seen = rows if self.context is None else rows[:, -self.context :]
            return self._scores(seen)[0], None
        seen = rows if state is None else rows[:, -1:]
        if self._own_cache is not None:
            with self._blaming(seen):
                scores, state = self._own_cache(seen, state)
            return self._checked(scores, seen)[:, -1], state
        scores, output = self._scores(seen, use_cache=True, past_key_values=state)
        return scores, output.past_key_values

    def _scores(self, rows: Tensor, **more: Any) -> tuple[Tensor, Any]:
        with self._blaming(rows):
            output = self.model(input_ids=rows, **more) if self._named else call_model(self.model, self._prepared(rows))
        scores = output.logits if self._named and hasattr(output, "logits") else scores_of(output)
        return self._checked(scores, rows)[:, -1], output

    @contextmanager
    def _blaming(self, rows: Tensor) -> Iterator[None]:
        try:
            yield
        except (RuntimeError, IndexError, ValueError) as error:
            why = str(error).strip().partition("\n")[0].rstrip(".")[:200]
            said = f"The model of {self.loaded.folder} cannot be called on {list(rows.shape)} tokens"
            raise BadData(f"{said}: {why}. Nothing was generated.") from error

    def _checked(self, scores: Any, rows: Tensor) -> Tensor:
        if not isinstance(scores, Tensor) or scores.dim() != 3 or scores.shape[:2] != rows.shape:
            shape = list(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
            wanted = f"a language model gives scores [{rows.shape[0]}, {rows.shape[1]}, vocabulary]"
            raise Misuse(f"The model of {self.loaded.folder} returns {shape}, and {wanted}. Nothing was generated.")
        return scores

    def _prepared(self, rows: Tensor) -> Any:
        prepare = self.loaded.splits.prepare
        return prepare(rows) if prepare is not None else rows


def _is_causal(model: Any) -> bool:
    """Of Hugging Face, with a head that predicts the next token."""
    can = getattr(model, "can_generate", None)
    return callable(can) and hasattr(model, "config") and bool(can())


def _refuse_others(loaded: Loaded, base: Any, *, known: bool) -> None:
    recipe, facts = loaded.recipe, loaded.splits.facts
    if known and getattr(base.config, "is_encoder_decoder", False):
        typed = f"trueloop.load({str(loaded.folder)!r}).model.generate(...)"
        raise Misuse(f"{loaded.folder} is an encoder and a decoder. Nothing was generated: in Python, {typed}.")
    own = (recipe.loss or recipe.step) and facts.vocabulary  # with a loss of its own the output decides
    if not (known or own or recipe.task == "language"):
        what = f"its model is {type(base).__name__}, and its task is {recipe.task}"
        typed = f"`trueloop predict {loaded.folder.name}` predicts with it"
        raise Misuse(f"{loaded.folder} is not a language model: {what}. Nothing was generated: {typed}.")
