"""A script fixed by a diff, with the real `patch`, and checked again."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

from tests.conftest import Checked, check_script
from trueloop.finding import Severity

__all__ = ["apply", "assert_fixed"]


def apply(folder: Path, text: str, diff: str, ranks: int = 1) -> Checked:
    """The script with the diff applied, checked again; read byte by byte, so that no line end changes on the way."""
    script = folder / "train.py"
    script.write_bytes(text.encode())
    done = subprocess.run(["patch", "-p0"], input=diff.encode(), cwd=folder, capture_output=True)
    assert done.returncode == 0, f"{done.stdout.decode()}\n{diff}"
    assert b"fuzz" not in done.stdout, f"{done.stdout.decode()}\n{diff}"
    return check_script(folder, script.read_bytes().decode(), ranks=ranks)


def loud(result: Checked) -> Counter[str]:
    return Counter(finding.name for finding in result.findings if finding.severity > Severity.ADVICE)


def assert_fixed(before: Checked, after: Checked, rule: str, diff: str, gone: int = 1) -> None:
    assert after.verdict.outcome.reason == "finished", f"{diff}\n{after.output}"
    assert not after.verdict.failures, f"{diff}\n{after.verdict.failures}"
    left = [finding for finding in after.findings if finding.name == rule]
    count = sum(finding.name == rule for finding in before.findings)
    assert len(left) == count - gone, f"{diff}\n{[finding.message for finding in left]}"
    new = loud(after) - loud(before)
    assert not new, (
        f"{diff}\n{[(f.name, f.place and f.place.line, f.message) for f in after.findings if f.name in new]}"
    )
