"""`trueloop VERB ...`: each verb is a file beside this one, imported when it is used, so that quick verbs stay
quick."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from keyword import iskeyword
from typing import Final

from trueloop import __version__
from trueloop.errors import Misuse, did_you_mean
from trueloop.results.check import ExitCode
from trueloop.trust.made_here import TRUST

__all__ = ["VERBS", "main", "module_name"]

GROUPS: Final = {
    "Find bugs": {
        "check": "run a training script, unmodified, and report its silent bugs",
        "fix": "write the fixes of a script's findings, and run it again",
        "try": "run a script without and with a change, and compare",
        "recheck": "check a recorded run again with today's rules",
        "explain": "what a rule detects and how to fix it; search rules by word",
        "probe": "test claims: it learns one batch, it resumes exactly, ...",
        "ready": "write a readiness report for a run or a script",
    },
    "Train": {
        "train": "train a recipe; metrics and checkpoints go to runs/NAME",
        "resume": "continue a stopped or killed run, bit-identical",
        "sweep": "train many settings and seeds; which can be told apart",
        "launch": "run train, or any script, on several processes or machines",
        "runs": "list runs: metric, steps, time, status",
        "evaluate": "measure a run's best model: metrics with 95% intervals",
        "predict": "predict new inputs with a run's best model, as CSV",
        "sample": "generate text with a language model of a run",
        "compare": "show what differs between runs, and from which step on",
        "ui": "show the runs of a folder on a local page, live",
        "checkpoint": "show, verify or convert a checkpoint",
        "inspect": "show a model, a checkpoint, a tensor or a batch",
    },
    "Speed": {
        "profile": "measure where time and memory go, and what to change",
        "tune": "find the fastest variant of a recipe that trains the same",
        "plan": "estimate memory, traffic and speed on N GPUs",
    },
    "Ship": {
        "export": "convert a run's model for another runtime, and verify it",
        "quantize": "convert it to fewer bits, within an accuracy limit",
        "bench": "compare latency and throughput of a model's exported forms",
        "serve": "serve an exported model over HTTP",
        "load": "load-test a server and check every answer",
    },
    "Learn": {"lab": "questions measured here, and exercises that are checked"},
    "Shell": {
        "completion": "print a completion script for bash or zsh",
        "env": "show versions, devices and extras, for a bug report",
        "mcp": "offer check, explain, try and others to a coding agent",
    },
}
"""Heading -> verb -> what it does. The verb's file has a function of its name (see `module_name`), and `parser()`."""
VERBS: Final = {verb: text for verbs in GROUPS.values() for verb, text in verbs.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    trusted = os.environ.get(TRUST)
    try:
        if not words or words[0] in ("-h", "--help", "help"):
            print(_help())
            return ExitCode.CLEAN
        if words[0] in ("-V", "--version"):
            from trueloop.results.environment import version_line

            print(version_line(__version__))
            return ExitCode.CLEAN
        if words[0] not in VERBS:
            raise Misuse(_unknown_verb(words[0]))
        name = module_name(words[0])
        code: int = getattr(import_module(f"trueloop.cli.{name}"), name)(words[1:])
        return code
    except BrokenPipeError:
        # The reader (`| head`) has closed the pipe: not an error. Python would complain again when it flushes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.CLEAN
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - every failure gets a message and an exit code
        from trueloop.cli.failure import report_user_errors

        return report_user_errors(error)
    finally:  # --trust is for one command, also where a program calls several
        os.environ.pop(TRUST, None)
        if trusted is not None:
            os.environ[TRUST] = trusted


def module_name(verb: str) -> str:
    """Of the verb's file, and of the function in it: `try` is a keyword of Python."""
    return f"{verb}_" if iskeyword(verb) else verb


def _unknown_verb(word: str) -> str:
    if word.endswith(".py"):
        return f"{word} is a script, not a verb. Nothing was run: type `trueloop check {word}`."
    return f"There is no verb {word!r}.{did_you_mean(word, VERBS)} Nothing was run: `trueloop --help` lists the verbs."


def _help() -> str:
    lines = [
        "usage: trueloop VERB [options] ...",
        "",
        "Finds the PyTorch training bugs that don't crash, in any script, unmodified.",
        "Trains recipes with the same checks; a killed run resumes bit-identically.",
    ]
    for heading, verbs in GROUPS.items():
        lines += ["", f"{heading}:", *(f"  {verb:<11} {text}" for verb, text in verbs.items())]
    return "\n".join([*lines, "", "`trueloop VERB --help` shows the options of a verb."])
