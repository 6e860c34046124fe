"""One virtual environment per peer, under .venv-peers: their dependencies contradict one another and ours."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = ["ENVIRONMENTS", "install", "program"]

ENVIRONMENTS: Final = Path(__file__).parent.parent.parent / ".venv-peers"


def program(peer: str, name: str = "python") -> Path:
    return ENVIRONMENTS / peer / "bin" / name


def install(peer: str, *stages: Sequence[str | Path]) -> str:
    """Make the environment, unless it is complete: what to give to `pip install`, one call after the other. Returns the
    last line of what failed, or nothing."""
    ready = ENVIRONMENTS / peer / "ready"
    if ready.exists():
        return ""
    subprocess.run([sys.executable, "-m", "venv", ENVIRONMENTS / peer], check=True)
    for packages in stages:
        command = [program(peer, "pip"), "install", "--quiet", "--disable-pip-version-check", *packages]
        done = subprocess.run(command, text=True, stderr=subprocess.PIPE, check=False)
        if done.returncode:
            return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"pip ended with {done.returncode}"
    ready.touch()
    return ""
