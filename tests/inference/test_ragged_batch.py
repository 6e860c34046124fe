"""Several texts at once are, token for token, what each is alone."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from trueloop.data.source import Facts
from trueloop.errors import Misuse
from trueloop.inference.generate import LanguageModel, Sampling
from trueloop.inference.ragged_batch import RaggedBatch
from trueloop.inference.text_coding import coding_of
from trueloop.recipes.shakespeare import GPT
from trueloop.serve.text_streams import Stream

CONTEXT = 48


def language_model(model: nn.Module | None = None, **splits: Any) -> LanguageModel:
    if model is None:
        torch.manual_seed(0)
        model = GPT(256, block=CONTEXT, depth=3, heads=2, width=32, dropout=0.1)
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.3)  # so that texts differ
    facts = Facts(inputs=(CONTEXT,), vocabulary=256, more={"text": {"encoding": "bytes"}})
    recipe = SimpleNamespace(loss=None, step=None, task="language", precision="fp32")
    told: Any = SimpleNamespace(
        folder=Path("runs/letters"),
        model=model.eval(),
        device=torch.device("cpu"),
        recipe=recipe,
        splits=SimpleNamespace(facts=facts, prepare=None, **splits),
    )
    return LanguageModel(told)


def batch(model: LanguageModel, texts: int = 8) -> RaggedBatch:
    return RaggedBatch(model, coding_of({"encoding": "bytes"}, model.model), texts)


def test_scores_of_texts_of_different_lengths_are_those_of_each_alone() -> None:
    model: Any = language_model().model
    texts = [torch.randint(0, 256, (length,)) for length in (5, 1, 17)]
    cache = model.empty_cache(4)
    with torch.no_grad():
        for row, text in enumerate(texts):
            _, kept = model.forward_cached(text[None, :-1], None) if len(text) > 1 else (None, [])
            for (keys, values), (new_keys, new_values) in zip(cache, kept, strict=False):
                keys[row, :, : len(text) - 1], values[row, :, : len(text) - 1] = new_keys[0], new_values[0]
        last, lengths = torch.stack([text[-1] for text in texts]), torch.tensor([len(text) - 1 for text in texts])
        together = model.forward_ragged(last, cache, lengths)
        for row, text in enumerate(texts):
            torch.testing.assert_close(together[row], model(text[None])[0, -1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("sampling", [Sampling(0.0), Sampling(0.9, top_k=40)], ids=["greedy", "drawn"])
def test_texts_that_join_and_leave_at_any_time_are_those_of_generate(sampling: Sampling) -> None:
    model = language_model()
    order = random.Random(0)
    streams = [
        Stream(
            tuple(order.choices(range(256), k=order.randint(1, 20))),
            order.randint(2, 25),
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            seed=number,
        )
        for number in range(12)
    ]
    together, waiting = batch(model, 4), list(streams)
    active: list[int] = []
    made: dict[int, list[int]] = {number: [] for number in range(12)}
    widest = 0
    while waiting or active:
        if waiting and len(active) < 4:
            stream = waiting.pop(0)
            active.append(streams.index(stream))
            made[active[-1]].append(together.add(stream))
        widest = max(widest, len(active))
        for number, token in zip(active, together.step(), strict=True):
            made[number].append(token)
        for row in reversed(range(len(active))):
            if len(made[active[row]]) >= streams[active[row]].most:
                together.drop(row)
                active[row] = active[-1]
                active.pop()
    assert widest == 4
    for number, stream in enumerate(streams):
        alone = model.generate(stream.prompt, stream.most, sampling, seed=number, ends=False).tokens[0]
        assert made[number][: stream.most] == list(alone)


def test_a_model_without_these_methods_is_refused_with_what_to_type() -> None:
    class Plain(nn.Module):
        def forward(self, tokens: Any) -> Any:
            return tokens

    with pytest.raises(Misuse, match=r"Plain has no method empty_cache.*trueloop sample letters"):
        batch(language_model(Plain()))
