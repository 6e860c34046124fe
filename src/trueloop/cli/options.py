"""The options that verbs share, and one parser for all verbs. Its errors say what is wrong and what to type."""

import argparse
import math
import os
import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, NoReturn, final

from trueloop.errors import Misuse, did_you_mean
from trueloop.finding import Severity
from trueloop.report import FORMATS
from trueloop.session.hang_timeout import HANG_AFTER, hang_after, parse_seconds
from trueloop.trust.made_here import TRUST
from trueloop.usercode.settings import Settings

__all__ = ["NO_COLOR", "OneOf", "Parser", "bandwidth", "duration", "number", "offer", "one_of", "shape", "share"]
__all__ += ["size", "whole_number"]

WIDEST: Final = 100  # Columns of help, at most
Parsed = tuple[argparse.Namespace, list[str]]  # Our options, and the other words
NO_COLOR: Final = "no colors; so does the variable NO_COLOR"
_DECIMAL: Final = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_BINARY: Final = {"ki": 2.0**10, "mi": 2.0**20, "gi": 2.0**30, "ti": 2.0**40}
_PREFIXES: Final[Mapping[str, float]] = {"": 1.0, **_DECIMAL, **_BINARY}
_TIMES: Final = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
_NUMBER: Final = r"[0-9][0-9_]*\.?[0-9]*(?:e[0-9]+)?|\.[0-9]+"
_QUANTITY: Final = re.compile(rf"\s*({_NUMBER})\s*([a-zµ]*?)(/s|ps)?\s*", re.IGNORECASE)


class _Help(argparse.HelpFormatter):
    """Fills paragraphs to the terminal's width; keeps indented ones, such as lists and examples, as they are."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26, width=min(shutil.get_terminal_size().columns, WIDEST))

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.strip("\n").split("\n\n")
        return "\n\n".join(part if "\n " in f"\n{part}" else textwrap.fill(part, width) for part in paragraphs)


class _Trust(argparse.Action):
    """By the environment: the processes that a verb starts must know it, too."""

    def __call__(self, *_: object) -> None:
        os.environ[TRUST] = "1"


@final
class Parser(argparse.ArgumentParser):
    """Raises Misuse, and never exits by itself except after --help."""

    hint = ""  # Added when an option is unknown

    def __init__(self, verb: str, usage: str | Sequence[str], description: str) -> None:
        lines = [usage] if isinstance(usage, str) else usage
        shown = "\n       ".join(f"trueloop {verb} {line}" for line in lines)
        super().__init__(f"trueloop {verb}", shown, description, allow_abbrev=False, formatter_class=_Help)

    def error(self, message: str) -> NoReturn:
        message = re.sub(r"^argument (\S+): (?=cannot)", r"\1 ", message)
        message = re.sub(r"^argument (\S+): ", r"\1: ", message)
        raise Misuse(f"{message}. Nothing was run: `{self.prog} --help` shows the options.")

    def refuse(self, word: str) -> NoReturn:
        if not word.startswith("-"):
            raise Misuse(f"Unexpected argument {word!r}. Nothing was run: `{self.prog} --help` shows the usage.")
        name = word.partition("=")[0]
        near = did_you_mean(name, (option for option in self._option_string_actions if option.startswith("--")))
        raise Misuse(f"There is no option {name}.{near}{self.hint} Nothing was run: `{self.prog} --help` lists them.")

    # -- parsing --

    def parse_all(self, arguments: list[str]) -> argparse.Namespace:
        """Options and words in any order."""
        known, unknown = self.parse_known_intermixed_args(arguments)
        for word in unknown:
            self.refuse(word)
        return known

    def parse_words(self, arguments: list[str]) -> tuple[argparse.Namespace, list[str], list[str]]:
        """Options anywhere, the other words, and everything after `--`."""
        ours = list(takewhile(lambda word: word != "--", arguments))
        known, words = self.parse_known_args(ours)
        for word in words:
            if word.startswith("-") and word != "-":
                self.refuse(word)
        return known, words, arguments[len(ours) + 1 :]

    def split(
        self, words: list[str], is_script: Callable[[str], bool] = lambda _: True, *, strict: bool = False
    ) -> Parsed:
        """Our options, and the target. What follows a script is the script's; otherwise options stand anywhere.
        `strict`: one of our options after a script is refused, for verbs that write into the user's files."""
        at = 0
        while at < len(words) and words[at].startswith("-") and words[at] not in ("-", "--"):
            name, sign, _ = words[at].partition("=")
            if name not in self._option_string_actions:
                if not name.startswith("--") and name[:2] in self._option_string_actions:
                    break  # -mpackage.train
                self.refuse(name)
            if name == "-m":
                break
            at += 2 if self._takes_value(name) and not sign else 1
        own, target = words[:at], words[at:]
        if target[:1] == ["--"]:
            return self.parse_args(own), target[1:]
        if target and not target[0].startswith("-") and not is_script(target[0]):
            return self.parse_words(words)[:2]
        parsed = self.parse_args(own)
        self._check_order(own, target, strict)
        return parsed, target

    def _takes_value(self, name: str) -> bool:
        return name in self._option_string_actions and self._option_string_actions[name].nargs is None

    def _check_order(self, own: list[str], target: list[str], strict: bool) -> None:
        """An option of trueloop after the script goes to the script. It may be the script's own; the user must know."""
        at = 2 if target[:1] == ["-m"] else 1
        script, moved, kept = target[:at], [], []
        rest = iter(target[at:])
        for word in rest:
            name, sign, _ = word.partition("=")
            if word == "--":
                kept += [word, *rest]
            elif not name.startswith("--") or name == "--help" or name not in self._option_string_actions:
                kept.append(word)
            else:
                moved += [word, *([] if sign or not self._takes_value(name) else [next(rest, "")])]
        if not moved:
            return
        name, better = moved[0].partition("=")[0], shlex.join([*own, *moved, *script, *kept])
        if strict:
            escape = shlex.join([*own, "--", *target])
            meant = f"type `{self.prog} {better}`, or `{self.prog} {escape}` if {name} is an option of the script."
            raise Misuse(f"{name} is an option of trueloop and comes after {script[-1]}. Nothing was run: {meant}")
        if os.environ.get("RANK", "0") == "0":
            where = f"trueloop: {name} comes after {script[-1]}, so the script gets it. If it is meant for trueloop,"
            hint = f"type `{self.prog} {better}`; `--` before {script[0]} turns this message off."
            print(f"{where} {hint}", file=sys.stderr)

    # -- defaults --

    def settings(self, settings: Settings) -> dict[str, Any]:
        """The options of [tool.trueloop] that this verb has, by their attribute; raises Misuse for a wrong value."""
        actions = {name: self._option_string_actions.get(f"--{name}") for name in settings.options}
        return {
            action.dest: _setting(action, name, settings.options[name], settings.root)
            for name, action in actions.items()
            if action is not None
        }

    # -- options that verbs share --

    def add_report_options(self, formats: Sequence[str] = FORMATS, *, quiet: str = "print problems only") -> None:
        group = self.add_argument_group("report")
        group.add_argument("--format", metavar="NAME", type=one_of(formats), help=f"{' | '.join(formats)} (text)")
        self.set_defaults(formats=tuple(formats))
        suffixes = ".html, .json, .md and .sarif" if "sarif" in formats else ".html, .json and .md"
        help = f"write the report to this file; repeatable; {suffixes} set the format"
        group.add_argument("--output", metavar="FILE", action="append", default=[], help=help)
        if quiet:
            group.add_argument("-q", "--quiet", action="store_true", help=quiet)
        group.add_argument("--no-color", action="store_true", help=NO_COLOR)

    def add_fail_on(self, names: Sequence[str], default: str, help: str) -> None:
        self.add_argument("--fail-on", metavar="SEVERITY", type=_severity(names), default=default, help=help)

    def add_trust(self) -> None:
        self.add_argument("--trust", action=_Trust, nargs=0, help="execute code of a run or artifact not made here")

    def add_hang_after(self) -> None:
        help = f"find the cause when a rank makes no progress for this long: 60s, 5min ({HANG_AFTER:.0f}s)"
        seconds = partial(parse_seconds, said_by="--hang-after")
        self.add_argument("--hang-after", metavar="TIME", type=seconds, default=hang_after(), help=help)


# -- values --


def offer(action: argparse.Action, words: Iterable[str]) -> None:
    """Words that a shell completes, of an option whose verb checks them itself, with a message of its own."""
    vars(action)["offered"] = tuple(words)


def _setting(action: argparse.Action, name: str, value: object, root: str) -> object:
    """A value of pyproject.toml, read as that of the option; paths start at the folder of the file."""
    where = f"{root}{os.sep}pyproject.toml: {name!r} in [tool.trueloop]"
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise Misuse(f"{where} must be true or false. Nothing was run.")
        return value
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise Misuse(f"{where} must be text or a number. Nothing was run.")
    if action.type is Path:
        return Path(root, str(value))
    try:
        return action.type(str(value)) if callable(action.type) else str(value)
    except argparse.ArgumentTypeError as error:
        raise Misuse(f"{where} {error}. Nothing was run.") from None
    except Misuse as error:
        raise Misuse(f"{where}: {error}") from None


def _refused(text: str, expected: str) -> argparse.ArgumentTypeError:
    return argparse.ArgumentTypeError(f"cannot be {text!r}: expected {expected}")


def whole_number(least: int = 1, most: int | None = None, *, also: str = "") -> Callable[[str], int | None]:
    """A whole number; `also`: a word that stands for no limit, and gives None."""
    expected = f"a whole number, {least} or more" if most is None else f"a whole number from {least} to {most}"

    def read(text: str) -> int | None:
        if also and text == also:
            return None
        if not (text.isascii() and text.isdecimal() and least <= int(text) <= (most or math.inf)):
            raise _refused(text, expected + (f", or {also}" if also else ""))
        return int(text)

    return read


def number(expected: str, *, above: float = -math.inf, least: float = -math.inf) -> Callable[[str], float]:
    """A finite number; `expected` says which, for the error."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (above < value < math.inf and value >= least):
            raise _refused(text, expected)
        return value

    return read


def share(*, zero: bool = False, whole: bool = False) -> Callable[[str], float]:
    """5% or 0.05. `whole`: 100% is allowed too; `zero`: 0% and 100%."""

    def read(text: str) -> float:
        try:
            value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            value = math.nan
        if not (0 <= value <= 1) or (value == 0 and not zero) or (value == 1 and not (zero or whole)):
            raise _refused(text, "a share such as 5% or 0.05")
        return value

    return read


@final
@dataclass(frozen=True, slots=True)
class OneOf:
    """A word of a fixed set, which a shell completes."""

    words: tuple[str, ...]
    value: Callable[[str], Any] = str

    def __call__(self, word: str) -> Any:
        if word not in self.words:
            near = did_you_mean(word, self.words)
            raise argparse.ArgumentTypeError(f"cannot be {word!r}.{near} Choose: {', '.join(self.words)}")
        return self.value(word)


def one_of(names: Iterable[str]) -> OneOf:
    return OneOf(tuple(names))


def _severity(names: Sequence[str]) -> OneOf:
    """None: never."""
    return OneOf(tuple(names), lambda word: None if word == "never" else Severity[word.upper()])


def size(text: str) -> float:
    """Bytes: GB is 10^9, GiB 2^30."""
    number, unit, per_second = _parts(text)
    factor = _prefix(unit, "B")
    if number is None or factor is None or per_second:
        raise _refused(text, "a size such as 80GB or 24GiB")
    return number * factor


def bandwidth(text: str) -> float:
    """Bytes per second: B is a byte, b (or bit) a bit."""
    number, unit, per_second = _parts(text)
    in_bytes, in_bits = _prefix(unit, "B"), _prefix(unit.removesuffix("it"), "b")
    if number is None or not per_second or (in_bytes is None and in_bits is None):
        raise _refused(text, "a bandwidth such as 600GB/s, or 25Gb/s for bits")
    return number * in_bytes if in_bytes is not None else number * (in_bits or 0.0) / 8


def duration(text: str) -> float:
    """Seconds."""
    number, unit, per_second = _parts(text)
    if number is None or unit not in _TIMES or per_second:
        raise _refused(text, "a time such as 45ms or 1.2s")
    return number * _TIMES[unit]


def shape(text: str) -> tuple[tuple[int, ...], str]:
    """Sizes and dtype: 3x224x224 (float32), 1024:int64."""
    sizes, _, dtype = text.partition(":")
    if not all(each.isdecimal() and int(each) for each in sizes.split("x")) or dtype not in ("", "float32", "int64"):
        raise _refused(text, "a shape such as 3x224x224 or 1024:int64")
    return tuple(map(int, sizes.split("x"))), dtype or "float32"


def _parts(text: str) -> tuple[float | None, str, bool]:
    """(a number above zero, its unit, is it per second)"""
    found = _QUANTITY.fullmatch(text)
    number = float(found[1].replace("_", "")) if found else 0.0
    if found is None or not 0.0 < number < math.inf:
        return None, "", False
    return number, found[2], bool(found[3])


def _prefix(unit: str, letter: str) -> float | None:
    """The factor of the letters before the B, or the b."""
    return _PREFIXES.get(unit[:-1].lower()) if unit.endswith(letter) else None
