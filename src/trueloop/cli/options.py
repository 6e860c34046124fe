"""The options that verbs share, and a parser whose refusals teach: what is wrong, what did not happen, what to type."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, final

from trueloop.errors import Misuse, did_you_mean
from trueloop.finding import Severity
from trueloop.report import FINDINGS_FORMATS as FORMATS
from trueloop.usercode.settings import severity_named

__all__ = ["Parser", "ReportOptions", "add_report_options", "report_options"]


@final
class Parser(argparse.ArgumentParser):
    """Raises Misuse, and never exits by itself except after --help."""

    def __init__(self, verb: str, usage: str, description: str) -> None:
        super().__init__(
            prog=f"trueloop {verb}",
            usage=f"trueloop {verb} {usage}",
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def error(self, message: str) -> NoReturn:
        raise Misuse(f"{message}. Nothing was run: `{self.prog} --help` shows the options.")

    def parse_all(self, arguments: list[str]) -> argparse.Namespace:
        """Options and words in any order."""
        known, unknown = self.parse_known_args(arguments)
        for word in unknown:
            self.refuse(word)
        return known

    def split(self, arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
        """Our options, and what follows from the first word that is none: that belongs to somebody else, whatever it
        looks like."""
        takes_value = {name for action in self._actions if action.nargs is None for name in action.option_strings}
        known = {name for action in self._actions for name in action.option_strings}
        at = 0
        while at < len(arguments) and arguments[at].startswith("-") and arguments[at] not in ("-", "--"):
            name, glued, _ = arguments[at].partition("=")
            if name not in known:
                if not name.startswith("--") and name[:2] in known:
                    break  # -mpackage.train
                self.refuse(name)
            if name == "-m":
                break
            at += 2 if name in takes_value and not glued else 1
        own, rest = arguments[:at], arguments[at:]
        return self.parse_args(own), rest[1:] if rest[:1] == ["--"] else rest

    def refuse(self, word: str) -> NoReturn:
        if not word.startswith("-"):
            raise Misuse(f"{word!r} is one word too many. Nothing was run: `{self.prog} --help` shows the usage.")
        name = word.partition("=")[0]
        known = [option for action in self._actions for option in action.option_strings if option.startswith("--")]
        raise Misuse(
            f"There is no option {name}.{did_you_mean(name, known)} Nothing was run: `{self.prog} --help` lists the options."
        )


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """By what to judge, and how to show it."""

    select: tuple[str, ...]
    ignore: tuple[str, ...]
    format: str
    output: Path | None
    fail_on: Severity | None
    """None: never."""
    diff: bool
    colour: bool

    @property
    def for_people(self) -> bool:
        """Text that is read in the terminal as it comes; everything else is a document that must stand alone."""
        return self.format == "text" and not self.diff and self.output is None


def add_report_options(parser: Parser) -> None:
    rules = parser.add_argument_group(
        "rules", "by code, by the start of a code, or by name; [tool.trueloop] in pyproject.toml holds defaults"
    )
    rules.add_argument(
        "--select", metavar="RULES", type=_rules, action="extend", default=[], help="only these: GRD,LOS101"
    )
    rules.add_argument("--ignore", metavar="RULES", type=_rules, action="extend", default=[], help="all but these")
    shown = parser.add_argument_group("report")
    shown.add_argument("--format", metavar="NAME", type=_format, default="text", help=" | ".join(FORMATS))
    shown.add_argument(
        "--output", metavar="FILE", type=Path, help="write the report there; the script's own output is left alone"
    )
    shown.add_argument(
        "--diff", action="store_true", help="print only a patch of the fixes: `... --diff train.py | patch -p0`"
    )
    shown.add_argument(
        "--fail-on",
        metavar="SEVERITY",
        type=_fail_on,
        default=Severity.ERROR,
        help="error (default) | warning | advice | never",
    )
    shown.add_argument("--no-color", action="store_true", help="no colours; the variable NO_COLOR does the same")


def report_options(parsed: argparse.Namespace) -> ReportOptions:
    if parsed.diff and parsed.format != "text":
        raise Misuse(f"--diff prints a patch and --format {parsed.format} a report: choose one. Nothing was run.")
    return ReportOptions(
        select=tuple(parsed.select),
        ignore=tuple(parsed.ignore),
        format=parsed.format,
        output=parsed.output,
        fail_on=parsed.fail_on,
        diff=parsed.diff,
        colour=not parsed.no_color,
    )


def _rules(text: str) -> list[str]:
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise Misuse(
            f"{text!r} is no list of rules. Nothing was run: write codes or names, with commas between them, as in GRD,LOS101."
        )
    return words


def _format(word: str) -> str:
    if word not in FORMATS:
        raise Misuse(
            f"There is no format {word!r}.{did_you_mean(word, FORMATS)} Nothing was run. There are: {', '.join(FORMATS)}."
        )
    return word


def _fail_on(word: str) -> Severity | None:
    try:
        return None if word == "never" else severity_named(word)
    except Misuse:
        known = [*(severity.word for severity in sorted(Severity, reverse=True)), "never"]
        raise Misuse(
            f"--fail-on cannot be {word!r}.{did_you_mean(word, known)} Nothing was run. There are: {', '.join(known)}."
        ) from None
