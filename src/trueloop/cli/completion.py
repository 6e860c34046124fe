"""`trueloop completion bash|zsh`: a completion script for the shell, written by shtab."""

import argparse
from collections.abc import Iterable
from importlib import import_module
from typing import Any, Final

from trueloop.cli.main import VERBS, module_name
from trueloop.cli.options import OneOf, Parser, one_of
from trueloop.errors import MissingExtra, Misuse
from trueloop.labs.catalogue import all_labs
from trueloop.recipes.catalogue import bundled
from trueloop.rules.catalogue import all_rules

__all__ = ["completion", "parser"]

SHELLS: Final = ("bash", "zsh")
ABOUT: Final = """Print a completion script. To install it:

  trueloop completion bash > ~/.local/share/bash-completion/completions/trueloop
  trueloop completion zsh > ~/.zfunc/_trueloop      (a folder of your $fpath)"""
FOLDERS: Final = ("DIR", "FOLDER", "RUN")
FILES: Final = ("FILE", "TABLE", "PATH", "SCRIPT", "ARTIFACT", "ARTIFACT|URL", "ARTIFACT|RUN", "WHICH")
# Their target is not declared to their parser
TAKE_SCRIPTS: Final = ("check", "fix", "try", "profile", "probe", "ready", "launch")
OFTEN: Final = {"--device": ("cpu", "cuda"), "--checkpoint": ("best", "last")}
"""Options that take other words too, and words that are often meant."""


def parser() -> Parser:
    made = Parser("completion", "bash|zsh", ABOUT)
    made.add_argument("shell", nargs="?", type=one_of(SHELLS), metavar="SHELL", help=" | ".join(SHELLS))
    return made


def completion(arguments: list[str]) -> int:
    shell = parser().parse_all(arguments).shell
    if shell is None:
        raise Misuse("Which shell? Type `trueloop completion bash` or `trueloop completion zsh`.")
    try:
        shtab: Any = import_module("shtab")
    except ModuleNotFoundError:
        raise MissingExtra("Completion needs the package shtab: pip install 'trueloop[completion]'") from None
    print(shtab.complete(_all_verbs(shtab), shell=shell))
    return 0


def _all_verbs(shtab: Any) -> argparse.ArgumentParser:
    """One parser with a subparser per verb; every value says what the shell may offer for it."""
    root = argparse.ArgumentParser("trueloop")
    verbs = root.add_subparsers()
    rules = [name for rule in all_rules() for name in (rule.code, rule.name)]
    known = {"RECIPE": bundled(), "LAB": all_labs(), "RULES": rules, "RULE|WORD": rules}
    for verb, text in VERBS.items():
        own: Parser = import_module(f"trueloop.cli.{module_name(verb)}").parser()
        if verb in TAKE_SCRIPTS:
            own.add_argument("target", nargs="*", metavar="SCRIPT", help="a script, a recipe or a run")
        for action in own._actions:
            if words := _words(action) or known.get(str(action.metavar)):
                action.choices = list(words)
            elif action.metavar in FOLDERS or action.metavar in FILES:
                vars(action)["complete"] = shtab.DIR if action.metavar in FOLDERS else shtab.FILE
        verbs.add_parser(verb, help=text, parents=[own], add_help=False, prog=own.prog)
    return root


def _words(action: argparse.Action) -> Iterable[str]:
    """The values that an option declares."""
    if isinstance(action.type, OneOf):
        return action.type.words
    often = (words for name, words in OFTEN.items() if name in action.option_strings)
    return vars(action).get("offered") or next(often, ())
