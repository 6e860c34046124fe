"""`trueloop ready SCRIPT`: one checked and recorded run in its own process; the evidence is kept beside the report."""

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from trueloop.claims.catalogue import names
from trueloop.errors import CannotSave, Misuse
from trueloop.readiness.question import Run
from trueloop.readiness.record import Record
from trueloop.readiness.script import PROBE, readiness_of_script
from trueloop.results.readiness import Readiness
from trueloop.usercode.settings import load_settings

__all__ = ["EVIDENCE", "drop_old_proofs", "review"]

EVIDENCE: Final = Path("training-readiness")  # The folder of the evidence, beside the report
PROOFS: Final = "proofs.json"


def review(words: list[str], steps: int | None) -> Readiness:
    """`words`: SCRIPT or -m MODULE, and its arguments."""
    script = Path(words[0])
    if words[0] != "-m" and not script.is_file():
        raise Misuse(f"There is no file {script}. Nothing was run.")
    settings = load_settings(Path.cwd())
    _record(words, steps)
    drop_old_proofs(script)
    run = Run(Record(EVIDENCE, f"{EVIDENCE}/"), shlex.join(words), claims=names(), probe=PROBE)
    return readiness_of_script(run, settings)


def _record(words: list[str], steps: int | None) -> None:
    """The script prints to stderr: stdout is for the report."""
    with tempfile.TemporaryDirectory(prefix="trueloop-ready-") as scratch:
        folder = Path(scratch) / "run"
        report = Path(scratch) / "report.json"
        options = ["--record", str(folder), "--format", "json", "--output", str(report), "--fail-on", "never"]
        limit = [] if steps is None else ["--steps", str(steps)]
        command = [sys.executable, "-m", "trueloop", "check", *options, *limit, "--", *words]
        done = subprocess.run(command, stdout=2, check=False)
        if not report.is_file():
            code = done.returncode
            raise Misuse(
                f"`{shlex.join(words)}` could not be checked: exit code {code}, output above. Nothing was written."
            )
        try:
            EVIDENCE.mkdir(exist_ok=True)
            for file in (folder / "run.json", folder / "events.jsonl", report):
                (EVIDENCE / file.name).write_bytes(file.read_bytes())
        except OSError as error:
            raise CannotSave(f"{EVIDENCE} could not be written ({error.strerror or error}).") from None


def drop_old_proofs(script: Path) -> None:
    """Results for an older version of the script say nothing about this one."""
    proofs = EVIDENCE / PROOFS
    if script.is_file() and proofs.is_file() and proofs.stat().st_mtime < script.stat().st_mtime:
        os.replace(proofs, EVIDENCE / f"{PROOFS}.old")
        print(f"trueloop: {proofs} is older than {script}: renamed to {PROOFS}.old", file=sys.stderr)
