"""The commit of the code that a run executes, and whether files differ from it."""

import os
import subprocess
from pathlib import Path
from typing import Any, Final

__all__ = ["git_state"]

LONGEST: Final = 2.0  # seconds that git may take: a large repository must not delay the run


def git_state(folder: Path) -> dict[str, Any] | None:
    """None: not a repository, or git does not answer."""
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return None
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit.strip(), "dirty": None if changed is None else bool(changed.strip())}


def _git(folder: Path, *words: str) -> str | None:
    command = ["git", "-C", str(folder), *words]
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LONGEST, check=False, env=environment, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
