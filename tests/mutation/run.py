"""Mechanical bugs in healthy scripts: how many are caught, missed, or behave as the original.

    python -m tests.mutation.run [--only WORD ...] [--write docs/mutation.md] [--processes 2]

Each mutant runs plain, for its final weights (parameters and buffers of every model), and checked, for what is found.
It is *caught* when one of the rules that are named for its mutation speaks; *same* when its weights are the original's,
bit for bit, and nothing is found; *fails* when it ends with an exception, plain: such a bug is not silent. Everything
else is *missed*.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import os
import runpy
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import nn

from tests.conftest import check_script, in_child
from tests.mutation.mutations import MUTATIONS, Mutation
from tests.site.figures import measured_line
from trueloop.finding import Severity

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("[a-z]*.py"))
GOAL = 0.95
"""Of the mutants whose weights differ from the original's, so many are to be caught."""

Fate = Literal["caught", "missed", "same", "fails"]


@dataclass(frozen=True)
class Mutant:
    script: str
    mutation: Mutation
    number: int
    text: str

    @property
    def name(self) -> str:
        return f"{self.script}: {self.mutation.name} #{self.number}"


@dataclass(frozen=True)
class Answer:
    mutant: Mutant
    fate: Fate
    differs: bool
    found: tuple[str, ...]


def mutants(script: Path) -> Iterator[Mutant]:
    tree = ast.parse(script.read_text(encoding="utf-8"))
    original = ast.unparse(tree)
    for mutation in MUTATIONS:
        for number, mutated in enumerate(mutation.mutants(tree), 1):
            text = ast.unparse(mutated)
            if text != original:
                yield Mutant(script.stem, mutation, number, text + "\n")


def final_weights(text: str) -> str:
    """A digest of every model's parameters and buffers at the script's end; empty if it ends with an exception."""

    def work() -> str:
        with tempfile.TemporaryDirectory() as folder, Path(os.devnull).open("w", encoding="utf-8") as nowhere:
            path = Path(folder) / "train.py"
            path.write_text(text, encoding="utf-8")
            sys.stdout = sys.stderr = nowhere
            warnings.simplefilter("ignore")
            try:
                namespace = runpy.run_path(str(path), run_name="__main__")
            except Exception:
                return ""
        digest = hashlib.sha256()
        for name, value in sorted(namespace.items()):
            if isinstance(value, nn.Module):
                for key, tensor in value.state_dict().items():
                    digest.update(
                        f"{name}.{key}".encode() + tensor.detach().reshape(-1).view(torch.uint8).numpy().tobytes()
                    )
        return digest.hexdigest()

    return str(in_child(work))


def findings(text: str) -> tuple[str, ...]:
    """Names of the errors and warnings, and of what broke in trueloop."""
    with tempfile.TemporaryDirectory() as folder:
        checked = check_script(Path(folder), text)
    loud = {finding.name for finding in checked.findings if finding.severity > Severity.ADVICE}
    return (*sorted(loud), *(f"BROKE: {failure.splitlines()[-1]}" for failure in checked.verdict.failures))


def judge(mutant: Mutant, original: str) -> Answer:
    weights, found = final_weights(mutant.text), findings(mutant.text)
    caught = bool(set(found) & set(mutant.mutation.rules))
    fate: Fate = (
        "caught" if caught else "fails" if not weights else "same" if weights == original and not found else "missed"
    )
    return Answer(mutant, fate, weights not in ("", original), found)


def matrix(answers: list[Answer], originals: dict[str, tuple[str, ...]]) -> str:
    scripts = list(originals)
    rows = ["| mutation | " + " | ".join(scripts) + " |", "|---" * (len(scripts) + 1) + "|"]
    signs = {"caught": "●", "missed": "○", "same": "=", "fails": "×"}
    for mutation in MUTATIONS:
        cells = []
        for script in scripts:
            mine = [a for a in answers if a.mutant.script == script and a.mutant.mutation is mutation]
            cells.append("".join(signs[a.fate] for a in mine))
        rows.append(f"| {mutation.name} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def summary(answers: list[Answer], originals: dict[str, tuple[str, ...]]) -> tuple[str, bool]:
    fates = Counter(answer.fate for answer in answers)
    differing = [answer for answer in answers if answer.differs]
    caught = sum(answer.fate == "caught" for answer in differing)
    flagged = [script for script, found in originals.items() if found]
    share = caught / max(1, len(differing))
    text = (
        f"{len(answers)} mutants of {len(originals)} scripts: {fates['caught']} caught, {fates['missed']} missed, "
        f"{fates['same']} behave "
        f"as the original, {fates['fails']} fail by themselves. "
        f"Of the {len(differing)} whose weights differ, {caught} are caught ({share:.1%}). "
        f"{len(flagged)} of the {len(originals)} originals are flagged."
    )
    return text, share >= GOAL and not flagged


def page(answers: list[Answer], originals: dict[str, tuple[str, ...]]) -> str:
    text, _ = summary(answers, originals)
    missed = [
        f"- {a.mutant.name} (found instead: {', '.join(a.found) or 'nothing'})" for a in answers if a.fate == "missed"
    ]
    rules = "\n".join(f"| {m.name} | {', '.join(m.rules)} |" for m in MUTATIONS)
    return (
        "# Mutation proof\n\nWritten by `make mutate`: mechanical bugs, put into healthy scripts by rewriting their "
        "syntax trees.\n\n"
        f"{text} {measured_line('make mutate')}\n\n"
        "● caught · ○ missed · = same weights as the original and nothing found · × fails by itself. One "
        "sign for each place "
        f"where the mutation can be made.\n\n{matrix(answers, originals)}\n\n## Missed\n\n"
        + ("\n".join(missed) or "None.")
        + "\n\n"
        f"## Which rule has to speak\n\n| mutation | any of |\n|---|---|\n{rules}\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="mutants whose name holds one of these words")
    parser.add_argument("--write", type=Path, help="write the page with the matrix there")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    originals: dict[str, tuple[str, ...]] = {}
    weights: dict[str, str] = {}
    for script in SCRIPTS:
        text = ast.unparse(ast.parse(script.read_text(encoding="utf-8"))) + "\n"
        originals[script.stem], weights[script.stem] = findings(text), final_weights(text)
        assert weights[script.stem] == final_weights(text), f"{script.stem} does not repeat itself"
        if originals[script.stem]:
            print(f"FLAGGED {script.stem}: {', '.join(originals[script.stem])}", flush=True)
    chosen = [
        m
        for script in SCRIPTS
        for m in mutants(script)
        if not options.only or any(word in m.name for word in options.only)
    ]
    answers = []
    with ThreadPoolExecutor(options.processes) as pool:  # each works in a forked child and waits for it
        for answer in pool.map(lambda mutant: judge(mutant, weights[mutant.script]), chosen):
            answers.append(answer)
            if answer.fate != "caught":
                same = "" if answer.differs else " (same weights)"
                print(f"{answer.fate:7} {answer.mutant.name}{same}: {', '.join(answer.found)}", flush=True)
    text, good = summary(answers, originals)
    print(matrix(answers, originals), text, sep="\n\n")
    if options.write:
        options.write.write_text(page(answers, originals), encoding="utf-8")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
