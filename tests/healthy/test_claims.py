"""No claim that can be tried on a script fails on a healthy program: `make evidence`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))
CLAIMS = (
    "gradients-reach-every-layer",
    "optimizer-holds-every-parameter",
    "batch-independence",
    "evaluation-repeats",
    "reload-gives-same-output",
    "first-nonfinite",
    "no-memory-growth",
    "workers-draw-differently",
)


@pytest.mark.long
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_no_claim_fails(program: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "trueloop", "probe", "--format", "json", "--steps", "30", str(program), *CLAIMS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=tmp_path)
    said = json.loads(done.stdout)
    assert len(said["proofs"]) == len(CLAIMS)
    assert not [f"{proof['claim']}: {proof['measured']}" for proof in said["proofs"] if proof["result"] == "fails"]
    assert not said["failures"], said["failures"]
    assert [proof for proof in said["proofs"] if proof["result"] == "holds"], done.stdout
