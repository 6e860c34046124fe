"""A repository's files at one commit, from a folder of mirrors, into a folder of ours.

A mirror holds `owner+name/`: a work tree, a bare repository in `repo/`, or a clone whose `.git` is in `repo/.git`.
Large files may be absent from it: they are left out.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

__all__ = ["NotMirrored", "check_out"]


class NotMirrored(Exception):
    """The repository, or the commit, is not in the folder of mirrors."""


def check_out(mirror: Path, repository: str, commit: str, folder: str, into: Path) -> None:
    """Write what lies under `folder` of the repository ('.': everything)."""
    git = _git_folder(mirror, repository)
    listed = _git(git, "ls-tree", "-r", "-z", commit, "--", folder)
    if listed is None:
        raise NotMirrored(f"{git} does not hold the commit {commit}")
    for entry in filter(None, listed.split(b"\0")):
        about, _, name = entry.partition(b"\t")
        mode, kind, digest = about.decode().split()
        content = _git(git, "cat-file", "blob", digest) if kind == "blob" and mode != "120000" else None
        if content is not None:
            path = into / os.fsdecode(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def _git_folder(mirror: Path, repository: str) -> Path:
    home = mirror / repository.replace("/", "+")
    for git in (home / "repo" / ".git", home / "repo", home / ".git"):
        if (git / "HEAD").is_file():
            return git
    raise NotMirrored(f"{repository} is not under {mirror}")


def _git(folder: Path, *arguments: str) -> bytes | None:
    environment = {**os.environ, "GIT_NO_LAZY_FETCH": "1"}
    done = subprocess.run(["git", f"--git-dir={folder}", *arguments], env=environment, capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else None
