"""A checkpoint that this user wrote on this machine is read as it is; every other one in a confined process."""

from collections.abc import Mapping
from typing import Any, Final

from trueloop.trust.made_here import is_made_here, stamp

__all__ = ["MADE_HERE", "checkpoint_stamp", "is_own_checkpoint"]

MADE_HERE: Final = "made_here"  # The field of manifest.json


def checkpoint_stamp(files: Mapping[str, Mapping[str, Any]]) -> str:
    """For manifest.json. `files`: name -> its hash, which every reader compares with the file."""
    return stamp(_facts(files))


def is_own_checkpoint(manifest: Mapping[str, Any]) -> bool:
    return is_made_here(_facts(manifest["files"]), manifest.get(MADE_HERE))


def _facts(files: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {"kind": "checkpoint", "files": {name: entry.get("sha256") for name, entry in files.items()}}
