"""A stranger's install: build sdist and wheel, install each into an empty environment, check a script there.

By default with this Python and the torch of constraints.txt, as CI does. `make wheel-test PYTHONS=all TORCH=all` takes
every Python from 3.11 to 3.13 that is here, and the oldest and the newest torch besides (gigabytes for each).
The sdist is installed where the wheel was: trueloop is removed and installed anew, torch stays.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT = Path(__file__).parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
VERSIONS: Final = ("3.11", "3.12", "3.13")


def pythons() -> dict[str, str]:
    """Version and path of each Python to try."""
    if os.environ.get("TRUELOOP_WHEEL_PYTHONS") != "all":
        return {f"{sys.version_info.major}.{sys.version_info.minor}": sys.executable}
    return {version: found for version in VERSIONS if (found := next(_named(version), ""))}


def _named(version: str) -> Iterator[str]:
    """On PATH, or a version of pyenv that is not switched on: its command on PATH then fails."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for path in (shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python"))):
        if path and subprocess.run([path, "--version"], capture_output=True).returncode == 0:
            yield str(path)


def torches() -> list[str]:
    """What to ask pip for: the tested torch, and with `all` also the oldest that is allowed and the newest."""
    pinned = re.search(r"^torch==\S+", CONSTRAINTS.read_text(encoding="utf-8"), re.M)
    assert pinned
    asked = os.environ.get("TRUELOOP_WHEEL_TORCH", "")
    if asked and asked != "all":
        return [f"torch=={asked}"]
    oldest = next(need for need in PROJECT["dependencies"] if re.match(r"torch\W", need)).replace(">=", "==")
    return [pinned[0]] if not asked else [f"{oldest}.*", pinned[0], "torch"]


@pytest.fixture(scope="session")
def builds(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The wheel and the sdist of this checkout."""
    folder = tmp_path_factory.mktemp("builds")
    command = [sys.executable, "-m", "build", "--wheel", "--sdist", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return [wheel, sdist]


@pytest.mark.long
@pytest.mark.parametrize("torch", torches())
@pytest.mark.parametrize("python", pythons().values(), ids=pythons().keys())
def test_wheel_and_sdist_check_a_script_in_an_empty_environment(
    python: str, torch: str, builds: list[Path], tmp_path: Path
) -> None:
    environment = tmp_path / "empty"
    subprocess.run([python, "-m", "venv", str(environment)], check=True)
    pip = [str(environment / "bin" / "python"), "-m", "pip"]
    constraints = ["-c", str(CONSTRAINTS)] if torch in CONSTRAINTS.read_text(encoding="utf-8").split() else []
    subprocess.run([*pip, "install", "--quiet", *constraints, torch], check=True, capture_output=True)
    installed = []
    for built in builds:
        subprocess.run([*pip, "uninstall", "--quiet", "--yes", "trueloop"], check=True, capture_output=True)
        subprocess.run([*pip, "install", "--quiet", *constraints, str(built)], check=True, capture_output=True)
        installed.append(_installed_files(environment))
        _assert_that_it_checks_a_script(environment / "bin" / "trueloop", tmp_path)
    assert installed[0] == installed[1]  # a file that the sdist leaves out is missed here, not by a user
    assert "trueloop/rules/gradient/gradients_never_cleared.py" in installed[0]
    shutil.rmtree(environment)  # pytest keeps folders of the last runs; these are large


def _installed_files(environment: Path) -> set[str]:
    (packages,) = environment.glob("lib/python*/site-packages")
    files = (path for path in (packages / "trueloop").rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {str(path.relative_to(packages)) for path in files}


def _assert_that_it_checks_a_script(trueloop: Path, folder: Path) -> None:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    version = subprocess.run([str(trueloop), "--version"], cwd=folder, env=plain, capture_output=True, text=True)
    print(version.stdout, end="")  # shown with -rP: which versions were tried
    assert version.returncode == 0, version.stderr

    report = folder / "report.json"
    script = ROOT / "examples" / "broken_training.py"
    command = [str(trueloop), "check", "--format", "json", "--output", str(report), str(script)]
    result = subprocess.run(command, cwd=folder, env=plain, capture_output=True, text=True, timeout=300)
    assert result.returncode == 1, result.stderr
    assert "validation accuracy" in result.stdout
    assert "gradients-never-cleared" in {finding["name"] for finding in json.loads(report.read_text())["findings"]}
    report.unlink()


def test_one_python_and_one_torch_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRUELOOP_WHEEL_PYTHONS", raising=False)
    monkeypatch.delenv("TRUELOOP_WHEEL_TORCH", raising=False)
    assert list(pythons().values()) == [sys.executable]
    assert len(torches()) == 1
    monkeypatch.setenv("TRUELOOP_WHEEL_TORCH", "all")
    assert torches() == ["torch==2.11.*", *torches()[1:2], "torch"]
    monkeypatch.setenv("TRUELOOP_WHEEL_PYTHONS", "all")
    assert set(pythons()) <= set(VERSIONS)
