"""Measured figures of the README and the site: where each comes from, and whether its code has changed since.

python -m tests.site.figures    # `make figures`: writes into each line whether its code has changed since, lists all
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import Final

from trueloop.cli.main import VERBS

ROOT: Final = Path(__file__).parent.parent.parent
# Rule pages have no figures, and decisions record what was measured on the day of the decision.
LEFT_OUT: Final = ("rules", "decisions")
LINE: Final = re.compile(
    r"Measured by `(?P<command>[^`]+)`(?: \((?P<part>[^)]+)\))?"
    r" on (?P<day>\d{4}-\d\d-\d\d) at (?P<commit>[0-9a-f]{8})(?P<older>; the measured code has changed since)?\."
)
OLDER: Final = "; the measured code has changed since"
COUNTED: Final = re.compile(r"Counted by `(?P<command>[^`]+)`; a test compares\.")
# The share of cells, beside the first of each row, that begin with a number: 0.3 separates measurements from lists.
NUMBERS: Final = 0.3
FIGURE: Final = re.compile(r"(?<![\w.])\d[\d,]*\.\d+ ?(?:ms|µs|s|MB|GB|%|x|times)(?!\w)")

# Folders of src/trueloop that a command measures. A folder that all of them use (cli, report, event) is not listed.
LOOP: Final = ("engine", "session", "data", "checkpoint", "recipe", "recipes", "track", "measure")
WATCHING: Final = ("doctor", "taps", "observers", "rules", "event", "measure", "usercode")
SERVING: Final = ("serve", "export", "inference")
CODE: Final[dict[str, tuple[str, ...]]] = {
    "make ecosystem": WATCHING,
    "make engine-cost": LOOP,
    "make mutate": WATCHING,
    "make overhead": WATCHING,
    "make peers": WATCHING,
    "make serving": SERVING,
    "make ship": ("export", "recipes"),
    "make test": ("rules",),
    "make torture": LOOP,
    "make wrappers": LOOP,
    "benchmarks.peers.pages": WATCHING,
    "benchmarks.serving_peers": SERVING,
    "benchmarks.ui_peers": ("ui",),
    "benchmarks/accuracy.py": LOOP,
    "benchmarks/compiled_step.py": ("engine",),
    "benchmarks/confined.py": ("export", "trust"),
    "benchmarks/cpu.py": LOOP,
    "benchmarks/fashion.py": LOOP,
    "benchmarks/first_steps.py": (".",),
    "benchmarks/foreign_suite.py": (*WATCHING, "dropins"),
    "benchmarks/generation.py": SERVING,
    "benchmarks/gpt2.py": ("engine", "kernels"),
    "benchmarks/kernels.py": ("kernels",),
    "benchmarks/linear_cross_entropy.py": ("kernels",),
    "benchmarks/memory_limit.py": ("parallel", "checkpoint", "engine"),
    "benchmarks/package.py": (".",),
    "benchmarks/plan.py": ("parallel",),
    "benchmarks/quantizing.py": ("quantize", "export"),
    "benchmarks/serving.py": SERVING,
    "benchmarks/ui.py": ("ui",),
    "benchmarks/verdicts.py": ("profile",),
    "tests.blind.peers": WATCHING,
    "tests.blind.run": WATCHING,
    "trueloop bench": ("bench",),
    "trueloop export": ("export",),
    "trueloop probe": ("claims",),
    "trueloop quantize": ("quantize",),
    "trueloop tune": ("tune", "engine"),
}


@dataclass(frozen=True)
class Figure:
    page: Path
    command: str
    part: str
    day: date
    commit: str
    says_older: bool = False  # the line tells its reader that the code is younger

    @property
    def folders(self) -> list[str]:
        return [f"src/trueloop/{folder}" for folder in CODE[what_runs(self.command)]]

    @property
    def is_older(self) -> bool:
        """Whether the code that was measured, also as it is here uncommitted, differs from that of the commit."""
        folders = {Path(folder) for folder in self.folders}
        return any(folders.intersection(Path(name).parents) for name in changed_since(self.commit))


def measured_line(command: str, part: str = "") -> str:
    """The line for a page that a command writes now."""
    words = f" ({part})" if part else ""
    return f"Measured by `{command}`{words} on {datetime.now(UTC).date()} at {git('rev-parse', 'HEAD')[:8]}."


def pages() -> list[Path]:
    docs = ROOT / "docs"
    return [
        ROOT / "README.md",
        *(p for p in sorted(docs.rglob("*.md")) if p.relative_to(docs).parts[0] not in LEFT_OUT),
    ]


def figures() -> list[Figure]:
    return [figure(page, found) for page in pages() for found in LINE.finditer(page.read_text(encoding="utf-8"))]


def figure(page: Path, found: re.Match[str]) -> Figure:
    day = date.fromisoformat(found["day"])
    return Figure(page, found["command"], found["part"] or "", day, found["commit"], bool(found["older"]))


def write_ages() -> None:
    """Each line says whether the code that it measured has changed since."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        aged = LINE.sub(with_age, text)
        if aged != text:
            page.write_text(aged, encoding="utf-8")


def with_age(found: re.Match[str]) -> str:
    return found[0].replace(OLDER, "").removesuffix(".") + (OLDER if figure(ROOT, found).is_older else "") + "."


def without_origin(text: str) -> Iterator[str]:
    """First lines of measured tables and paragraphs that no origin follows: at once, or before the next heading."""
    for section in re.split(r"^(?=#)", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), flags=re.M):
        blocks = [block for block in re.split(r"\n{2,}", section) if block and not block.startswith("<!--")]
        for place, block in enumerate(blocks):
            below = blocks[place + 1 : place + 2] if is_measured_table(block) else blocks[place:]
            if (is_measured_table(block) or is_measured_paragraph(block)) and not has_origin(" ".join(below)):
                yield block.partition("\n")[0]


def has_origin(text: str) -> bool:
    return bool(LINE.search(text) or COUNTED.search(text))


def is_measured_table(block: str) -> bool:
    rows = block.strip().splitlines()[2:]
    cells = [cell.strip() for row in rows for cell in row.strip("|").split("|")[1:]]
    numbers = [cell for cell in cells if re.match(r"\**[+-]?\d", cell)]
    return block.startswith("|") and len(numbers) >= NUMBERS * len(cells) > 0


def is_measured_paragraph(block: str) -> bool:
    return not block.startswith(("|", "    ", "#")) and bool(FIGURE.search(re.sub(r"`[^`]*`", "", block)))


def what_runs(command: str) -> str:
    """`make X`, `trueloop VERB`, a module after `python -m`, or a file."""
    program, *words = command.split()
    if program == "python":
        return words[1] if words[0] == "-m" else words[0]
    return f"{program} {words[0]}"


def is_here(command: str) -> bool:
    """Whether this repository has the target, verb, module or file, and every Python file that the command names."""
    runs = what_runs(command)
    program, _, name = runs.rpartition(" ")
    if program == "make":
        here = f"\n{name}:" in (ROOT / "Makefile").read_text(encoding="utf-8")
    elif program == "trueloop":
        here = name in VERBS
    else:
        here = (ROOT / (runs if runs.endswith(".py") else runs.replace(".", "/") + ".py")).is_file()
    return here and all((ROOT / word).is_file() for word in command.split() if word.endswith(".py"))


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


@cache
def changed_since(commit: str) -> list[str]:
    """Files of src that differ from those of the commit: in HEAD, or here and uncommitted."""
    if commit == "HEAD":
        return git("diff", "--name-only", "HEAD", "--", "src/trueloop").splitlines()
    committed = git("diff-tree", "-r", "--name-only", commit, "HEAD", "--", "src/trueloop").splitlines()
    return [*committed, *changed_since("HEAD")]


def has_history() -> bool:
    """False in an exported copy and in a shallow clone."""
    try:
        return git("rev-parse", "--is-shallow-repository") == "false"
    except (subprocess.CalledProcessError, FileNotFoundError):
        return False


def main() -> None:
    if not has_history():
        raise SystemExit("`make figures` needs the history: use a clone that is not shallow")
    write_ages()
    rows = [(int(git("rev-list", "--count", f"{each.commit}..HEAD", "--", *each.folders)), each) for each in figures()]
    print("later commits  day         commit    page: command")
    for later, each in sorted(rows, key=lambda row: -row[0]):
        part = f" ({each.part})" if each.part else ""
        page = each.page.relative_to(ROOT)
        print(f"{later:13}  {each.day}  {each.commit}  {page}: {each.command}{part}")


if __name__ == "__main__":
    main()
