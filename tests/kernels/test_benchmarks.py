"""The benchmark of GPT-2 runs: each contender in its own process, a table, a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def ran(*arguments: str) -> str:
    command = [sys.executable, str(ROOT / "benchmarks" / "gpt2.py"), "--tiny", "--steps", "2", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment)
    return done.stderr if done.returncode else done.stdout


@pytest.mark.long
@pytest.mark.parametrize("name", ["eager-fp32", "ours"])
def test_a_contender_is_measured_and_written_down(name: str, tmp_path: Path) -> None:
    shown = ran("--only", name, "--json", str(tmp_path / "found.json"))
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["found"]
    assert found.keys() == {name}
    assert found[name]["tokens_per_second"] > 0
    table = shown[shown.index("tokens/s") :]
    assert f"{found[name]['tokens_per_second']:,.0f}" in table


def test_a_name_that_nobody_has_is_refused_before_anything_runs() -> None:
    assert "There is no nobody. There are: eager-fp32, eager-tf32" in ran("--only", "ours,nobody")
