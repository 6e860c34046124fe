"""`trueloop VERB ...`: each verb is a file beside this one, loaded when it is asked for, so that the quick ones stay
quick."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from trueloop import __version__
from trueloop.errors import CannotSave, MissingExtra, Misuse, did_you_mean
from trueloop.results.check import ExitCode

__all__ = ["VERBS", "main"]

VERBS: Final = {
    "check": ("SCRIPT ...", "run a training script, unmodified, and report its silent bugs"),
    "explain": ("RULE", "what a rule sees, why it hurts, and what to write instead"),
    "train": ("RECIPE", "train a recipe: guarded, resumable, its metrics and checkpoints in runs/NAME"),
    "launch": ("-- train RECIPE", "the same, or any script, as several processes on one machine or many"),
    "resume": ("RUN", "go on with a run that was stopped or killed, to the same bits"),
    "profile": ("SCRIPT|RECIPE", "where time and memory go, what bounds the run, and what to change"),
    "tune": ("RECIPE", "the fastest variant of a recipe that is proved the same training, found by measuring"),
    "plan": ("RECIPE", "how to spread a training over GPUs: memory, traffic and speed of each way, reckoned on paper"),
    "probe": ("RECIPE|RUN|SCRIPT", "prove simple claims about a training, each with what was measured"),
    "export": (
        "RUN --to TARGET",
        "a run's model for another runtime (pt2, aoti, onnx, executorch ...), verified to answer alike",
    ),
    "quantize": (
        "RUN --scheme SCHEME",
        "the same in fewer bits: size, speed, what each layer costs, refused past a drop",
    ),
    "bench": ("ARTIFACT|RUN ...", "latency and throughput of the model, eager, compiled and exported, side by side"),
    "serve": ("ARTIFACT", "an exported model behind HTTP: batched, bounded, with health, metrics and a page to try it"),
    "load": ("ARTIFACT|URL", "many callers at once, some of them sending rubbish: throughput, latency, wrong answers"),
    "ready": ("RUN|SCRIPT", "a note on whether a training is ready for more, each line with its evidence"),
    "inspect": (
        "model|checkpoint|tensor|batch",
        "what is there: shapes, storage, ties, labels, pictures; nothing is trained or run",
    ),
    "checkpoint": (
        "show|verify|convert PATH",
        "what a checkpoint holds, whether it is whole, and its weights as a plain file",
    ),
    "runs": ("[FOLDER]", "a table of runs: metric, steps, time, status; needs no torch"),
    "compare": ("RUN RUN ...", "what differs between runs: recipes, machines, results, and from which step on"),
    "judge": ("RUN", "judge a recorded run again, by the rules of today; needs no torch"),
}
"""Verb -> what follows it, and what it does. The verb's file has a function of its name."""


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _answer(words)
    except Misuse as error:
        print(f"trueloop: {error}", file=sys.stderr)
        return ExitCode.MISUSE
    except MissingExtra as error:
        print(f"trueloop: {error}", file=sys.stderr)
        return ExitCode.TRUELOOP_FAILED
    except CannotSave as error:
        print(f"trueloop: {error}", file=sys.stderr)
        return 5
    except BrokenPipeError:
        # The reader (`| head`) has gone: not an error. Python would complain once more when it flushes stdout at its
        # end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.CLEAN
    except KeyboardInterrupt:
        return 130
    except Exception:  # noqa: BLE001 - the last door: what falls out here is our own failure, and must say so
        import traceback

        print(
            f"trueloop itself failed. Please report this to the trueloop project:\n{traceback.format_exc()}",
            file=sys.stderr,
        )
        return ExitCode.TRUELOOP_FAILED


def _answer(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_help())
        return ExitCode.CLEAN
    verb, rest = words[0], words[1:]
    if verb in ("-V", "--version"):
        print(f"trueloop {__version__}")
        return ExitCode.CLEAN
    if verb not in VERBS:
        raise Misuse(_no_such_verb(verb))
    code: int = getattr(import_module(f"trueloop.cli.{verb}"), verb)(rest)
    return code


def _no_such_verb(word: str) -> str:
    if word.endswith(".py"):
        return f"{word} is a script, not a verb. Nothing was run: type `trueloop check {word}`."
    return f"There is no verb {word!r}.{did_you_mean(word, VERBS)} Nothing was run: `trueloop --help` lists the verbs."


def _help() -> str:
    width = max(len(f"{verb} {takes}") for verb, (takes, _) in VERBS.items())
    rows = [f"  trueloop {f'{verb} {takes}':<{width}}   {does}" for verb, (takes, does) in VERBS.items()]
    return "\n".join(
        [
            "trueloop finds the PyTorch training bugs that don't crash, in any script, unmodified; and trains, guarded, to the same bits.",
            "",
            *rows,
            "",
            "`trueloop VERB --help` shows a verb's options; `trueloop --version` the version.",
        ]
    )
