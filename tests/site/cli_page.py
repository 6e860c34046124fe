"""docs/reference/cli.md: every verb with its usage and options, from the parsers.

python -m tests.site.cli_page            # writes the page
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

from trueloop.cli.main import GROUPS, VERBS, module_name

PAGE: Final = Path(__file__).parent.parent.parent / "docs" / "reference" / "cli.md"
HEAD: Final = """# Commands

Written by `make docs` from the parsers. `trueloop VERB --help` prints the same.
What each verb is for: [verbs](../verbs.md); how it ends: [exit codes](../exit-codes.md)."""


def page() -> str:
    parts = [HEAD]
    for heading, verbs in GROUPS.items():
        parts.append(f"## {heading}")
        for verb in verbs:
            parts += section(verb)
    return "\n\n".join(parts) + "\n"


def section(verb: str) -> Iterator[str]:
    parser: argparse.ArgumentParser = import_module(f"trueloop.cli.{module_name(verb)}").parser()
    usage = re.sub(r"\n +", "\n", parser.usage or "")
    yield f"### {verb}"
    yield f"{VERBS[verb][0].upper()}{VERBS[verb][1:]}."
    yield f"```text\n{usage}\n```"
    rows = [row(action) for group in parser._action_groups for action in group._group_actions if is_shown(action)]
    if rows:
        yield "\n".join(["| word or option | |", "|---|---|", *rows])


def is_shown(action: argparse.Action) -> bool:
    return action.help != argparse.SUPPRESS and "--help" not in action.option_strings


def row(action: argparse.Action) -> str:
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    value = "" if action.nargs == 0 or not action.option_strings else f" {metavar}"
    words = [f"`{option}{value}`" for option in action.option_strings] or [f"`{metavar}`"]
    return f"| {', '.join(map(cell, words))} | {cell(action.help or '')} |"


def cell(text: str) -> str:
    return " ".join(text.replace("%%", "%").split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
