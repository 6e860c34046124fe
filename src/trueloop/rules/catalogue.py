"""All rules. The folder is the registry: every file in a family's folder is one rule."""

from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Final

from trueloop.errors import UnknownRule, did_you_mean
from trueloop.rules.rule import Rule

__all__ = ["ALWAYS_ON", "all_rules", "find_rule", "select"]

ALWAYS_ON: Final = (
    "vanishing-gradients", "exploding-gradients", "step-without-gradient", "loss-diverges", "nan-or-inf",
    "loss-detached-from-parameters", "softmax-before-cross-entropy", "sigmoid-before-bce-with-logits",
    "logits-passed-as-probabilities", "regression-loss-on-class-labels", "shapes-broadcast-in-loss",
    "wrong-target-format", "unused-parameters", "symmetric-initialization", "parameters-not-in-optimizer",
    "optimizer-holds-old-parameters",
)  # fmt: skip
"""The rules that `trueloop train` applies to its own loop. The others are about loops that the user writes."""


@lru_cache(maxsize=1)
def all_rules() -> tuple[type[Rule], ...]:
    """Every rule, by code."""
    files = [file for file in Path(__file__).parent.glob("*/*.py") if file.stem != "__init__"]
    rules = [_rule_in(f"trueloop.rules.{file.parent.name}.{file.stem}") for file in files]
    return tuple(sorted(rules, key=lambda rule: rule.code))


def _rule_in(module_name: str) -> type[Rule]:
    module = import_module(module_name)
    # Not issubclass: an abstract class asks all its subclasses, which took as long as reading the files.
    classes = [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == module_name]
    rules = [each for each in classes if Rule in each.mro()]
    if len(rules) != 1:
        raise TypeError(f"{module_name} must define exactly one rule, it defines {len(rules)}")
    return rules[0]


def find_rule(word: str) -> type[Rule]:
    """The rule with this code or name."""
    for rule in all_rules():
        if word.upper() == rule.code or word == rule.name:
            return rule
    known = [w for rule in all_rules() for w in (rule.code, rule.name, rule.code[:3])]
    raise UnknownRule(f"Unknown rule {word!r}.{did_you_mean(word, known)} `trueloop explain --all` lists them.")


def select(chosen: Iterable[str], ignored: Iterable[str]) -> tuple[type[Rule], ...]:
    """The rules with a code prefix or name in `chosen` (all if empty), without those in `ignored`."""
    chosen, ignored = tuple(chosen), tuple(ignored)
    for word in (*chosen, *ignored):
        if not any(_matches(rule, word) for rule in all_rules()):
            find_rule(word)
    return tuple(
        rule
        for rule in all_rules()
        if (not chosen or any(_matches(rule, word) for word in chosen))
        and not any(_matches(rule, word) for word in ignored)
    )


def _matches(rule: type[Rule], word: str) -> bool:
    return rule.code.startswith(word.upper()) or rule.name == word
