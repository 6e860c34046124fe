"""What continuous batching gives a served language model: tokens per second of one text after the other, of one stream
and of 16 streams at once, and of `generate` of Hugging Face with the same weights, all with the KV cache, in turns;
greedy, and every text compared with the one that is written alone.

    python benchmarks/generation.py [--run RUN | --model gpt2] [--device cuda] [--streams 16] [--tokens 64]

Without --run: a GPT of the size of recipe shakespeare (6 layers, width 384) or of GPT-2 (12 layers, width 768, 50,257
tokens), with random weights, in fp32. It needs no server, and without transformers it measures the rest. It ends with 1
if a text differs, or if 16 streams are less than 2 times as fast as one text after the other, ours or theirs.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
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
SIZES: Final[dict[str, dict[str, int]]] = {
    "shakespeare": {"vocabulary": BYTES, "block": BLOCK, "depth": 6, "heads": 6, "width": 384},
    "gpt2": {"vocabulary": 50_257, "block": 1_024, "depth": 12, "heads": 12, "width": 768},
}
ALONE: Final = "generate, one text after the other"
THEIRS: Final = "Hugging Face, one text after the other"
Texts = list[list[int]]


def random_model(size: dict[str, int], device: str) -> Any:
    torch.manual_seed(0)
    vocabulary, rest = size["vocabulary"], {name: value for name, value in size.items() if name != "vocabulary"}
    model = GPT(vocabulary, **rest, dropout=0.0).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    facts = Facts(inputs=(size["block"],), vocabulary=vocabulary, more={"text": {"encoding": "bytes"}})
    recipe = SimpleNamespace(loss=None, step=None, task="language", precision="fp32")
    splits = SimpleNamespace(facts=facts, prepare=None)
    place = torch.device(device)
    return SimpleNamespace(folder=Path("random"), model=model.to(place), device=place, recipe=recipe, splits=splits)


def theirs_of(model: GPT, device: torch.device) -> Any:
    """GPT-2 of Hugging Face with the same weights: its linear layers are stored transposed. None: not installed."""
    try:
        from transformers import GPT2Config, GPT2LMHeadModel
    except ImportError:
        return None
    vocabulary, width = model.tokens.weight.shape
    config = GPT2Config(
        vocab_size=vocabulary,
        n_positions=model.positions.weight.shape[0],
        n_embd=width,
        n_layer=len(model.blocks),
        n_head=model.blocks[0].attention.heads,
        activation_function="gelu",
        bos_token_id=None,
        eos_token_id=None,  # every text has the same number of tokens
        pad_token_id=0,
    )
    made = GPT2LMHeadModel(config).eval()
    copies = {made.transformer.wte: model.tokens, made.transformer.wpe: model.positions}
    copies[made.transformer.ln_f] = model.norm
    for their, own in zip(made.transformer.h, model.blocks, strict=True):
        copies |= {their.ln_1: own.norm_1, their.ln_2: own.norm_2, their.attn.c_attn: own.attention.qkv}
        copies |= {their.attn.c_proj: own.attention.out, their.mlp.c_fc: own.mlp[0], their.mlp.c_proj: own.mlp[2]}
    with torch.no_grad():
        for their, own in copies.items():
            transposed = isinstance(own, torch.nn.Linear)
            their.weight.copy_(own.weight.T if transposed else own.weight)
            if getattr(own, "bias", None) is not None:
                their.bias.copy_(own.bias)
    return made.to(device)


def by_theirs(theirs: Any, prompts: Texts, tokens: int, at_once: int) -> Texts:
    """By `generate`: all texts of a call begin and end together."""
    made: Texts = []
    for first in range(0, len(prompts), at_once):
        rows = torch.tensor(prompts[first : first + at_once], device=theirs.device)
        with torch.inference_mode():
            found = theirs.generate(
                rows, attention_mask=torch.ones_like(rows), do_sample=False, max_new_tokens=tokens, use_cache=True
            )
        made += found[:, rows.shape[1] :].tolist()
    return made


def together(model: LanguageModel, prompts: Texts, tokens: int, streams: int) -> Texts:
    """All texts, `streams` at a time."""
    batch = RaggedBatch(model, coding_of({"encoding": "bytes"}, model.model), streams)
    made: Texts = []
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


def forms_of(model: LanguageModel, theirs: Any, prompts: Texts, tokens: int) -> dict[str, Callable[[], Texts]]:
    """The first is what all others are compared with."""
    many = len(prompts)
    forms: dict[str, Callable[[], Texts]] = {
        ALONE: lambda: [list(model.generate(prompt, tokens, GREEDY, ends=False).tokens[0]) for prompt in prompts]
    }
    if theirs is not None:
        forms[THEIRS] = lambda: by_theirs(theirs, prompts, tokens, 1)
        forms[f"Hugging Face, {many} texts in one call"] = lambda: by_theirs(theirs, prompts, tokens, many)
    forms["served, 1 stream"] = lambda: together(model, prompts, tokens, 1)
    forms[f"served, {many} streams"] = lambda: together(model, prompts, tokens, many)
    return forms


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", help="a run of a language model; otherwise random weights")
    parser.add_argument("--model", choices=SIZES, default="shakespeare", help="the size of random weights")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cpu-time", action="store_true", help="count CPU time: for a machine that does other work")
    options = parser.parse_args()
    clock = time.process_time if options.cpu_time else time.perf_counter
    device = options.device
    loaded = load(options.run, device=device) if options.run else random_model(SIZES[options.model], device)
    model = LanguageModel(loaded)
    theirs = theirs_of(loaded.model, loaded.device) if isinstance(loaded.model, GPT) else None
    draws = torch.Generator().manual_seed(1)
    prompts = torch.randint(32, 127, (options.streams, PROMPT), generator=draws).tolist()
    forms = forms_of(model, theirs, prompts, options.tokens)
    seconds: dict[str, list[float]] = {form: [] for form in forms}
    texts: dict[str, Texts] = {}
    for _ in range(options.rounds + 1):  # the first warms up
        for form, write in forms.items():
            begun = clock()
            texts[form] = write()
            seconds[form].append(clock() - begun)
    paces = {form: len(prompts) * options.tokens / statistics.median(each[1:]) for form, each in seconds.items()}
    weights = sum(parameter.numel() for parameter in loaded.model.parameters())
    print(f"{weights / 1e6:.1f} M weights, fp32, {loaded.device}, torch {torch.__version__}")
    for form, pace in paces.items():
        print(f"{form:<40} {pace:8,.0f} tokens/s  {pace / paces[ALONE]:5.2f}x")
    different = {form: sum(map(list.__ne__, texts[ALONE], each)) for form, each in texts.items() if form != ALONE}
    for form, count in different.items():
        print(f"texts that differ from those of generate: {count} of {len(prompts)} ({form})")
    many = paces[f"served, {len(prompts)} streams"]
    if theirs is None:
        print("Hugging Face was not measured: transformers is not installed, or the model is not a GPT")
    return int(any(different.values()) or many < LEAST * max(paces[ALONE], paces.get(THEIRS, 0.0)))


if __name__ == "__main__":
    raise SystemExit(main())
