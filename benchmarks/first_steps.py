"""The walk of a new user, each step timed: `python benchmarks/first_steps.py [--only wheel|clone] [--python PATH]`.

wheel: an empty environment, torch, the built wheel; then the version, a first finding, a first training.
clone: a clone of this repository's HEAD, `make venv`, `make demo`.

Wall seconds, as a user waits; with pip's cache as it is (`--fresh` ignores it). Everything is in a temporary folder.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
TIMEOUT = 1200  # seconds of one step


def wheel(folder: Path, python: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", folder, ROOT], check=True, capture_output=True
    )
    (built,) = folder.glob("*.whl")
    pinned = re.search(r"^torch==\S+", CONSTRAINTS.read_text(encoding="utf-8"), re.M)
    assert pinned
    script = folder / "broken_training.py"
    script.write_bytes((ROOT / "examples" / "broken_training.py").read_bytes())
    pip = "empty/bin/python -m pip install -q -c " + str(CONSTRAINTS)
    step("python -m venv empty", f"{python} -m venv empty", folder)
    step(f"pip install {pinned[0]}", f"{pip} {pinned[0]}", folder)
    step("pip install trueloop", f"{pip} {built}", folder)
    step("trueloop --version", "empty/bin/trueloop --version", folder)
    step("trueloop check broken_training.py", f"empty/bin/trueloop check {script.name}", folder, code=1)
    step("pip install 'trueloop[digits]'", f"{pip} '{built}[digits]'", folder)
    step("trueloop train digits", "empty/bin/trueloop train digits", folder)


def clone(folder: Path, python: str) -> None:
    step("git clone", f"git clone -q {ROOT} trueloop", folder)
    step("make venv", f"make venv PYTHON={python}", folder / "trueloop")
    step("make demo", "make demo", folder / "trueloop")


def step(shown: str, command: str, folder: Path, code: int = 0) -> None:
    """Runs one command as the user would, without what this process has set for Python, and prints its row."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    begin = time.perf_counter()
    ended = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=outside, capture_output=True, text=True, timeout=TIMEOUT
    )
    seconds = time.perf_counter() - begin
    if ended.returncode != code:
        raise SystemExit(f"`{command}` ended with {ended.returncode}, not {code}:\n{ended.stdout}{ended.stderr}")
    print(f"| `{shown}` | {seconds:.1f} s |", flush=True)


WALKS: dict[str, Callable[[Path, str], None]] = {"wheel": wheel, "clone": clone}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=WALKS, help="this walk alone")
    parser.add_argument("--python", default="python3", help="the Python that makes the environments")
    parser.add_argument("--fresh", action="store_true", help="download again what pip has in its cache")
    options = parser.parse_args()
    if options.fresh:
        os.environ["PIP_NO_CACHE_DIR"] = "1"
    print("| step | |\n|---|---|")
    for name in [options.only] if options.only else WALKS:
        with tempfile.TemporaryDirectory(prefix="trueloop-") as folder:
            WALKS[name](Path(folder), options.python)


if __name__ == "__main__":
    main()
