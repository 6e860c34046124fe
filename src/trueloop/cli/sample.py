"""`trueloop sample RUN --prompt "..."`: text from a language model that a recipe trained."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from trueloop.cli.deliver import Delivery
from trueloop.cli.loaded_run import add_run_options, load_run
from trueloop.cli.options import Parser, number, share, whole_number
from trueloop.errors import Misuse
from trueloop.results.document import Code, Document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trueloop.inference.generate import Generated, LanguageModel
    from trueloop.inference.text_coding import TextCoding

__all__ = ["parser", "sample"]

ABOUT: Final = """Generate text with the best weights of a run (their moving average, if the recipe has one), for a
language model: task="language", or a causal model of Hugging Face.

The same seed gives the same text. With --count, sample i does not depend on the number of samples. A model of Hugging
Face, the GPT of recipe shakespeare, and a model of yours with a method `forward_cached` use their KV cache. Behind the
context's end, the model sees the last tokens that fit."""


def parser() -> Parser:
    made = Parser("sample", 'RUN --prompt "TEXT" [options]', ABOUT)
    add_run_options(made)
    add = made.add_argument
    add("--prompt", metavar="TEXT", default="\n", help="the beginning of the text (default: a new line)")
    add("--tokens", metavar="N", type=whole_number(), default=200, help="tokens to generate (200)")
    heat = number("0 (the most likely token) or more", least=0)
    add("--temperature", metavar="T", type=heat, default=1.0, help="1: as trained; less: more likely tokens; 0: greedy")
    add("--top-k", metavar="K", type=whole_number(), help="only the K most likely tokens")
    add("--top-p", metavar="P", type=share(whole=True), help="only the most likely tokens that add up to P: 0.9")
    add("--seed", metavar="N", type=whole_number(0), default=0, help="of the random draws (0)")
    add("--count", metavar="N", type=whole_number(), default=1, help="samples of this prompt (1)")
    add("--tokenizer", metavar="FOLDER", help="of Hugging Face, if the run names none")
    add("--no-cache", action="store_true", help="without the KV cache")
    made.add_report_options(quiet="")
    return made


def sample(arguments: list[str]) -> int:
    options = parser().parse_all(arguments)
    delivery = Delivery(options)
    loaded = load_run(options, "sample")
    if loaded.trained is None:
        raise Misuse(f"{loaded.folder} is a run of trueloop.session, without a recipe. Nothing was generated.")
    from trueloop.inference.generate import LanguageModel, Sampling
    from trueloop.inference.text_coding import coding_of

    model = LanguageModel(loaded)
    coding = coding_of(loaded.splits.facts.more.get("text"), loaded.model, options.tokenizer)
    prompt = coding.encode(options.prompt)
    vocabulary = loaded.splits.facts.vocabulary
    if vocabulary and (beyond := [token for token in prompt if token >= vocabulary]):
        raise Misuse(f"The model knows tokens 0 to {vocabulary - 1}, not {beyond[0]}. Nothing was generated.")
    sampling = Sampling(options.temperature, options.top_k, options.top_p)
    how = {"seed": options.seed, "count": options.count, "cache": not options.no_cache}
    made = model.generate(prompt, options.tokens, sampling, **how)
    texts = [coding.decode([*prompt, *tokens]) for tokens in made.tokens]
    data = _plain(options, prompt, made, coding)
    delivery.deliver_text({"text": lambda: "\n".join(_lines(texts))}, lambda: _document(options.run, texts, data))
    print(f"trueloop: {_note(model, len(prompt), made)}", file=sys.stderr)
    return 0


def _title(index: int, texts: list[str]) -> str:
    return f"sample {index} of {len(texts)}" if len(texts) > 1 else ""


def _lines(texts: list[str]) -> Iterator[str]:
    for index, text in enumerate(texts, 1):
        if title := _title(index, texts):
            yield f"--- {title}"
        yield text


def _document(run: str, texts: list[str], data: dict[str, object]) -> Document:
    parts = tuple(Code(text, title=_title(index, texts)) for index, text in enumerate(texts, 1))
    return Document(f"Samples of {run}", parts, data=data)


def _plain(options: argparse.Namespace, prompt: list[int], made: Generated, coding: TextCoding) -> dict[str, object]:
    drawn = {name: getattr(options, name) for name in ("temperature", "top_k", "top_p", "seed")}
    samples = [{"text": coding.decode(tokens), "tokens": list(tokens)} for tokens in made.tokens]
    return {"run": options.run, "prompt": options.prompt, "prompt_tokens": prompt, **drawn, "samples": samples}


def _note(model: LanguageModel, prompt: int, made: Generated) -> str:
    new, seconds = sum(map(len, made.tokens)), sum(made.seconds)
    context = model.context
    cached = "with a KV cache" if made.cached else "all tokens computed again for each new one (no KV cache)"
    slides = context is not None and prompt + max(map(len, made.tokens)) > context
    window = f"; behind {context:,} tokens it sees the last {context:,}" if slides else ""
    return f"{new:,} tokens in {seconds:.1f} s, {new / max(seconds, 1e-9):,.0f}/s, {cached}{window}."
