"""`trueloop bench RUN --generate --batch 1,8`: how fast a language model of a run writes."""

import argparse
import sys
from functools import partial

from trueloop.cli.deliver import Delivery
from trueloop.cli.loaded_run import load_run
from trueloop.errors import Misuse
from trueloop.results.check import ExitCode

__all__ = ["bench_generation"]


def bench_generation(options: argparse.Namespace) -> int:
    if len(options.what) > 1:
        raise Misuse("--generate measures one run. Nothing was run: name one.")
    if options.against or options.inputs:
        raise Misuse("--against and --inputs are for an operation, not for --generate. Nothing was run.")
    delivery = Delivery(options)
    options.run = options.what[0]
    loaded = load_run(options, "bench --generate")
    if loaded.trained is None:
        raise Misuse(f"{loaded.folder} is a run of trueloop.session, without a recipe. Nothing was run.")
    import torch

    from trueloop.bench.measure import machine
    from trueloop.inference.generate import LanguageModel
    from trueloop.inference.generation_speed import PROMPT, TOKENS, measure_generation

    if options.threads:
        torch.set_num_threads(options.threads)
    say = (lambda _: None) if options.quiet else partial(print, " ", file=sys.stderr)
    lengths = {"prompt": options.prompt_tokens or PROMPT, "tokens": options.tokens or TOKENS}
    facts = machine(options.threads, options.device)
    model = LanguageModel(loaded)
    result = measure_generation(model, options.batch, facts, seconds=options.seconds, say=say, **lengths)
    delivery.deliver(result)
    return ExitCode.CLEAN
