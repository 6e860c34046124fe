"""The OpenAPI document is the truth: hundreds of requests made from it, right and wrong ones, are answered as it
says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.serve.made import ROOT, served

pytest.importorskip("schemathesis")


def found_by_schemathesis(kind: str, examples: int, place: Path) -> tuple[int, str]:
    program = Path(sys.executable).with_name("st")
    with served(kind, timeout=5.0) as server:
        words = [
            str(program),
            "run",
            f"http://127.0.0.1:{server.port}/openapi.json",
            "--checks",
            "all",
            "-n",
            str(examples),
            "--seed",
            "1",
        ]
        asked = os.environ | {"SCHEMATHESIS_HOOKS": "tests.serve.hooks", "PYTHONPATH": str(ROOT)}
        done = subprocess.run(words, env=asked, cwd=place, capture_output=True, text=True, timeout=540)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.long
def test_nothing_is_found_in_a_few_hundred_requests(tmp_path: Path) -> None:
    code, said = found_by_schemathesis("image", 20, tmp_path)
    assert code == 0, said
    assert "5 passed" in said


@pytest.mark.long
@pytest.mark.parametrize("kind", ["image", "letters", "table", "tensors"])
def test_nothing_is_found_in_many_more(kind: str, tmp_path: Path) -> None:
    code, said = found_by_schemathesis(kind, 200, tmp_path)
    assert code == 0, said
