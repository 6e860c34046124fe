"""Writes changed lines into a file of the user's, if it still is what it was when the change was made."""

import os
from pathlib import Path

__all__ = ["rewrite_file"]


def rewrite_file(path: str, before: list[str], after: list[str]) -> str:
    """Returns why it was not written; empty if it was. The new text stands aside first: no half-written file."""
    real = Path(os.path.realpath(path))
    aside = real.with_name(f".{real.name}.trueloop")
    try:
        if real.read_bytes() != "".join(before).encode("utf-8"):
            return "it has changed meanwhile"
        aside.write_bytes("".join(after).encode("utf-8"))
        aside.chmod(real.stat().st_mode & 0o7777)
        aside.replace(real)
    except OSError as error:
        aside.unlink(missing_ok=True)
        return str(error.strerror or error)
    return ""
