"""The files that differ from a commit: what `check --changed` asks git."""

import os
import subprocess
from pathlib import Path

from trueloop.errors import Misuse

__all__ = ["changed_files"]


def changed_files(folder: Path, ref: str) -> frozenset[str]:
    """Full paths of the files that changed since the working tree left `ref`, committed or not, new ones too."""
    top = _git(folder, "rev-parse", "--show-toplevel")
    if top is None:
        raise Misuse(f"--changed needs a git repository, and {folder} is in none. Nothing was run: drop --changed.")
    root = Path(top.rstrip("\n"))
    commit = None if ref.startswith("-") else _git(root, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    if commit is None:
        hint = "in CI the whole history is needed (`fetch-depth: 0`)"
        raise Misuse(f"--changed={ref}: there is no commit {ref!r} here. Nothing was run: {hint}.")
    base = _git(root, "merge-base", commit.strip(), "HEAD")
    if base is None:
        raise Misuse(
            f"--changed={ref}: {ref} and HEAD have no common commit here. Nothing was run: fetch the whole history."
        )
    tracked = _git(root, "diff", "--name-only", "--no-renames", "-z", base.strip(), "--") or ""
    new = _git(root, "ls-files", "--others", "--exclude-standard", "-z") or ""
    return frozenset(os.path.realpath(root / name) for name in (tracked + new).split("\0") if name)


def _git(folder: Path, *words: str) -> str | None:
    """None: git failed, or is not installed."""
    command = ["git", "-C", str(folder), *words]
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(command, capture_output=True, check=False, env=environment)
    except OSError:
        return None
    return os.fsdecode(done.stdout) if done.returncode == 0 else None
