"""Selects the rules; `trueloop.usercode.allow` says which findings the user has allowed."""

from collections.abc import Iterable

from trueloop.errors import Misuse, UnknownRule
from trueloop.rules.catalogue import select
from trueloop.rules.rule import Rule
from trueloop.usercode.allow import filter_findings, is_allowed, is_suppressed
from trueloop.usercode.settings import Settings

__all__ = ["chosen_rules", "filter_findings", "is_allowed", "is_suppressed"]


def chosen_rules(settings: Settings, chosen: Iterable[str] = (), ignored: Iterable[str] = ()) -> tuple[type[Rule], ...]:
    """The rules to apply. A command's --select replaces that of the settings; its --ignore is added to theirs."""
    for where, word in settings.words():
        try:
            select((word,), ())
        except UnknownRule as error:
            raise UnknownRule(f"[tool.trueloop] {where} in {settings.root}/pyproject.toml: {error}") from None
    chosen, ignored = tuple(chosen), tuple(ignored)
    rules = select(chosen, ignored) if chosen else select(settings.select, (*settings.ignore, *ignored))
    if not rules:
        raise Misuse("No rule is left: everything that is selected is also ignored. Nothing was run.")
    return rules
