"""`profile.json` in the folder of a run: what `trueloop profile ... --format json --output RUN/profile.json` wrote."""

from pathlib import Path
from typing import Any, Final

from trueloop.errors import NotARun
from trueloop.ui.bounded_files import read_json

__all__ = ["FILE", "TRACE", "read_profile"]

FILE: Final = "profile.json"
TRACE: Final = "trace.json"  # of --trace


def read_profile(folder: Path) -> dict[str, Any] | None:
    """None: there is none. Raises NotARun."""
    profile = read_json(folder, FILE)
    if profile is None:
        return None
    if not isinstance(profile, dict) or not isinstance(profile.get("machine"), dict):
        raise NotARun(f"{FILE} is not a result of `trueloop profile`.")
    return profile
