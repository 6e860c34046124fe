"""A stranger's install: build the wheel, install it into an empty environment, check a script there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.long
def test_the_built_wheel_checks_a_script_in_an_empty_environment(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(ROOT)],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    environment = tmp_path / "empty"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = environment / "bin" / "python"
    constraints = str(ROOT / "constraints.txt")
    torch = next(line for line in Path(constraints).read_text().splitlines() if line.startswith("torch=="))
    for what in (torch, str(wheel)):
        subprocess.run(
            [str(python), "-m", "pip", "install", "--quiet", "-c", constraints, what], check=True, capture_output=True
        )

    report = tmp_path / "report.json"
    script = ROOT / "examples" / "broken_training.py"
    command = [str(environment / "bin" / "trueloop"), "check", "--format", "json", "--output", str(report), str(script)]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    result = subprocess.run(command, cwd=tmp_path, env=plain, capture_output=True, text=True, timeout=300)
    assert result.returncode == 1, result.stderr
    assert "validation accuracy" in result.stdout
    assert "gradients-never-cleared" in {finding["name"] for finding in json.loads(report.read_text())["findings"]}
