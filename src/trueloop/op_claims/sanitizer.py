"""NVIDIA's compute-sanitizer on calls of an operation, where it is installed: every access of every kernel is checked
against what is allocated, so a write behind the operation's own result is found too.

The calls are made in a process of their own, with each tensor in an allocation of its own: in torch's pool of memory
the address behind a tensor is valid too.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import torch

from trueloop.op_claims.sample import Sample

__all__ = ["Sanitized", "parse_report", "sanitize", "sanitizer_path"]

TOOL: Final = "compute-sanitizer"
SECONDS: Final = 300.0
_LINE: Final = re.compile(r"^=+ ?(?P<said>.*)$", re.MULTILINE)
_WRONG: Final = re.compile(r"(Invalid|Misaligned|Unaligned) .*|.*out[- ]of[- ]bounds.*", re.IGNORECASE)
_SUMMARY: Final = re.compile(r"ERROR SUMMARY: (?P<count>\d+) error")
_ANSI: Final = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class Sanitized:
    """What it reported."""

    wrong: str = ""  # The first error, in one clause; empty: none
    errors: int = 0
    details: tuple[str, ...] = ()  # The lines of the first error
    not_run: str = ""  # Why it says nothing, as a clause; empty: it was run


def sanitizer_path() -> str | None:
    """On PATH, or in the folder of the CUDA toolkit."""
    homes = [Path(home) for name in ("CUDA_HOME", "CUDA_PATH") if (home := os.environ.get(name))]
    homes.append(Path("/usr/local/cuda"))
    folders = [str(home / inner) for home in homes for inner in ("bin", "compute-sanitizer")]
    return shutil.which(TOOL) or shutil.which(TOOL, path=os.pathsep.join(folders))


def sanitize(target: str, samples: Iterable[Sample], tool: str | None = None) -> Sanitized:
    """Forward and backward of each sample, of the operation that `FILE.py:NAME` names. `tool`: None: the installed."""
    tool = tool or sanitizer_path()
    if tool is None:
        return Sanitized(not_run=f"{TOOL} is not installed")
    if not target:
        return Sanitized(not_run=f"{TOOL} needs an operation that is in a file")
    with TemporaryDirectory() as folder:
        file = Path(folder) / "samples.pt"
        torch.save([(sample.args, dict(sample.kwargs)) for sample in samples], file)
        words = ["--tool", "memcheck", "--report-api-errors", "no", "--show-backtrace", "no", "--print-limit", "10"]
        words += ["--target-processes", "application-only", sys.executable, "-m", "trueloop.op_claims.sanitized_calls"]
        source = str(Path(__file__).parents[2])
        paths = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "PYTHONPATH": paths}
        try:
            done = subprocess.run(
                [tool, *words, target, str(file)], capture_output=True, text=True, errors="replace", env=environment,
                timeout=SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Sanitized(not_run=f"{TOOL} was not done after {SECONDS:.0f} s")
        except OSError as error:
            return Sanitized(not_run=f"{TOOL} cannot be started ({error})")
    return parse_report(done.stdout + "\n" + done.stderr)


def parse_report(text: str) -> Sanitized:
    """Without its summary, or without the last line of the calls, it has not seen them all."""
    text = _ANSI.sub("", text)
    lines = [found["said"].strip() for found in _LINE.finditer(text)]
    summary = _SUMMARY.search(text)
    first = next((number for number, line in enumerate(lines) if _WRONG.fullmatch(line)), None)
    if first is not None:
        details = _details(lines[first:])
        count = int(summary["count"]) if summary else 1
        return Sanitized(_clause(details), max(count, 1), details)
    if summary is None or "calls done" not in text:
        why = next((line for line in lines if line.startswith("Error")), "") or _last(text)
        return Sanitized(not_run=f"{TOOL} did not finish ({why.rstrip('.')})")
    if int(summary["count"]):
        count = int(summary["count"])
        return Sanitized(f"{TOOL} counts {count} errors", count, tuple(lines[1:6]))
    return Sanitized()


def _details(lines: list[str]) -> tuple[str, ...]:
    """Of one error: up to the next empty line of the report."""
    end = next((number for number, line in enumerate(lines) if not line or "SUMMARY" in line), len(lines))
    return tuple(lines[:end])


def _clause(details: tuple[str, ...]) -> str:
    where = next((line for line in details if line.startswith("at ")), "")
    near = next((line.removeprefix("and is ") for line in details if "nearest allocation" in line), "")
    near = re.sub(r"nearest allocation at 0x[0-9a-f]+ of size", "nearest allocation, of", near)
    said = f"{details[0].rstrip('.')[:1].lower()}{details[0].rstrip('.')[1:]}"
    return " ".join(filter(None, [said, where])) + (f", {near}" if near else "")


def _last(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("=====")]
    return lines[-1].strip()[:160] if lines else "it printed nothing"
