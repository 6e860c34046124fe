"""Tutorials: scripts in docs/tutorials that list steps; running the steps for real writes the pages.

python -m tests.site.tutorial [NAME ...]            # runs them and writes docs/tutorials/NAME.md
"""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent.parent
FOLDER: Final = ROOT / "docs" / "tutorials"
NAMES: Final = tuple(sorted(file.stem for file in FOLDER.glob("*.py")))
LANGUAGES: Final = {".py": "python", ".toml": "toml"}


@dataclass(frozen=True)
class Text:
    """Prose of the page."""

    text: str


@dataclass(frozen=True)
class File:
    """A file that the reader writes."""

    name: str
    text: str


@dataclass(frozen=True)
class Command:
    """What the reader types; what it printed becomes part of the page."""

    line: str
    code: int
    shows: Sequence[str]
    """Each of these must be in what it prints."""


@dataclass
class Tutorial:
    """The steps of a page, in order."""

    title: str
    steps: list[Text | File | Command] = field(default_factory=list)

    def say(self, text: str) -> None:
        self.steps.append(Text(re.sub(r"(?<!\n)\n(?!\n)", " ", text.strip())))

    def file(self, name: str, text: str) -> None:
        self.steps.append(File(name, text.strip("\n") + "\n"))

    def run(self, line: str, *, code: int = 0, shows: Sequence[str] = ()) -> None:
        self.steps.append(Command(line, code, shows))

    def skeleton(self) -> list[str]:
        """The page without what was printed."""
        return [part for step in self.steps if (part := before_output(step))]


def before_output(step: Text | File | Command) -> str:
    if isinstance(step, Text):
        return step.text
    if isinstance(step, File):
        language = LANGUAGES.get(Path(step.name).suffix, "text")
        return f"`{step.name}`:\n\n```{language}\n{step.text}```"
    return f"```text\n$ {step.line}\n"


def load(name: str) -> Tutorial:
    made: Tutorial = runpy.run_path(str(FOLDER / f"{name}.py"))["tutorial"]
    return made


def page(name: str) -> str:
    """Runs all steps in an empty folder; raises if a command does not end or print as its step says."""
    tutorial = load(name)
    day = datetime.now(UTC).date().isoformat()
    parts = [f"# {tutorial.title}", f"Written by `make tutorials` on {day}: all output below is real."]
    with tempfile.TemporaryDirectory(prefix="tutorial-") as scratch:
        environment = prepare(Path(scratch))
        for step in tutorial.steps:
            text = before_output(step)
            if isinstance(step, File):
                (Path(scratch) / "work" / step.name).write_text(step.text, encoding="utf-8")
            if isinstance(step, Command):
                text += f"{execute(step, Path(scratch) / 'work', environment)}```"
            parts.append(text)
    return "\n\n".join(parts) + "\n"


def prepare(scratch: Path) -> dict[str, str]:
    """The reader's folder `work`, and commands `trueloop` and `python` that are those of this environment."""
    (scratch / "work").mkdir()
    (scratch / "bin").mkdir()
    for name, words in {"python": "", "trueloop": "-m trueloop "}.items():
        command = scratch / "bin" / name
        command.write_text(f'#!/bin/sh\nexec {sys.executable} {words}"$@"\n', encoding="utf-8")
        command.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{scratch / 'bin'}:{os.environ['PATH']}",
        "XDG_DATA_HOME": str(scratch / "data"),
        "XDG_CACHE_HOME": str(scratch / "cache"),
        "PYTHONPATH": str(ROOT / "src"),
        "NO_COLOR": "1",
        "OMP_NUM_THREADS": "1",
    }


def execute(step: Command, folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-c", step.line],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
    )
    printed = done.stdout.replace(f"{folder}/", "").replace(str(folder), ".")
    missing = [text for text in step.shows if text not in printed]
    if done.returncode != step.code or missing:
        wrong = f"without {missing}" if missing else f"not with {step.code}"
        raise SystemExit(f"`{step.line}` ended with {done.returncode}, {wrong}:\n{printed}")
    return printed.rstrip() + "\n" if printed.strip() else ""


def main(names: Sequence[str]) -> None:
    for name in names or NAMES:
        (FOLDER / f"{name}.md").write_text(page(name), encoding="utf-8")


if __name__ == "__main__":
    import_module("tests.site.tutorial").main(sys.argv[1:])  # the module that the scripts import, not a second one
