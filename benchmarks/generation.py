"""What continuous batching gives a served language model: tokens per second of one text after the other, of one stream
and of 16 streams at once, all with the KV cache, in turns; greedy, and every text compared with the one that is written
alone.

    python benchmarks/generation.py [--run RUN] [--streams 16] [--tokens 64] [--rounds 3]

Without --run: a GPT of the size of recipe shakespeare (6 layers, width 384), random weights, on this machine's CPU. It
ends with 1 if a text differs, or if 16 streams are less than 2 times as fast as one text after the other.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import torch

from trueloop.data.source import Facts
from trueloop.inference.generate import LanguageModel, Sampling
from trueloop.inference.load import load
from trueloop.inference.ragged_batch import RaggedBatch
from trueloop.inference.text_coding import coding_of
from trueloop.recipes.shakespeare import BLOCK, BYTES, GPT
from trueloop.serve.text_streams import Stream

GREEDY: Final = Sampling(0.0)
LEAST: Final = 2.0  # Times as fast at many streams
PROMPT: Final = 16


def random_model() -> Any:
    torch.manual_seed(0)
    model = GPT(BYTES, block=BLOCK, depth=6, heads=6, width=384, dropout=0.0).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    facts = Facts(inputs=(BLOCK,), vocabulary=BYTES, more={"text": {"encoding": "bytes"}})
    recipe = SimpleNamespace(loss=None, step=None, task="language", precision="fp32")
    splits = SimpleNamespace(facts=facts, prepare=None)
    return SimpleNamespace(folder=Path("random"), model=model, device=torch.device("cpu"), recipe=recipe, splits=splits)


def together(model: LanguageModel, prompts: list[list[int]], tokens: int, streams: int) -> list[list[int]]:
    """All texts, `streams` at a time."""
    batch = RaggedBatch(model, coding_of({"encoding": "bytes"}, model.model), streams)
    made: list[list[int]] = []
    for first in range(0, len(prompts), streams):
        group = prompts[first : first + streams]
        texts = [[batch.add(Stream(tuple(prompt), tokens, temperature=0.0))] for prompt in group]
        for _ in range(tokens - 1):
            for text, token in zip(texts, batch.step(), strict=True):
                text.append(token)
        for row in reversed(range(len(group))):
            batch.drop(row)
        made += texts
    return made


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", help="a run of a language model; otherwise random weights")
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    model = LanguageModel(load(options.run) if options.run else random_model())
    draws = torch.Generator().manual_seed(1)
    prompts = torch.randint(32, 127, (options.streams, PROMPT), generator=draws).tolist()
    tokens = options.tokens
    forms = {
        "generate, one text after the other": lambda: [
            list(model.generate(prompt, tokens, GREEDY, ends=False).tokens[0]) for prompt in prompts
        ],
        "served, 1 stream": lambda: together(model, prompts, tokens, 1),
        f"served, {options.streams} streams": lambda: together(model, prompts, tokens, options.streams),
    }
    seconds: dict[str, list[float]] = {form: [] for form in forms}
    texts: dict[str, list[list[int]]] = {}
    for _ in range(options.rounds + 1):  # the first warms up
        for form, write in forms.items():
            begun = time.perf_counter()
            texts[form] = write()
            seconds[form].append(time.perf_counter() - begun)
    paces = {form: len(prompts) * tokens / statistics.median(each[1:]) for form, each in seconds.items()}
    base, *_, many = paces.values()
    for form, pace in paces.items():
        print(f"{form:<36} {pace:8,.0f} tokens/s  {pace / base:5.2f}x")
    alone, *others = texts.values()
    different = sum(one != other for each in others for one, other in zip(alone, each, strict=True))
    print(f"texts that differ from those of generate: {different} of {len(others) * len(prompts)}")
    return int(different > 0 or many < LEAST * base)


if __name__ == "__main__":
    raise SystemExit(main())
