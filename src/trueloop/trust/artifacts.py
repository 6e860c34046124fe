"""Machine code and TorchScript are code: opening such an artifact executes it."""

from typing import Any, Final

from trueloop.errors import BadArtifact
from trueloop.results.artifact import Artifact
from trueloop.trust.made_here import is_made_here, is_trusted, stamp

__all__ = ["CARRY_CODE", "artifact_stamp", "check_artifact", "is_own"]

CARRY_CODE: Final = {"aoti": "machine code", "torchscript": "a program of TorchScript"}
"""Target -> what opening it executes. No check can show that this is harmless."""


def artifact_stamp(artifact: Artifact) -> str:
    """For artifact.json."""
    return stamp(_facts(artifact))


def is_own(artifact: Artifact) -> bool:
    """Exported by this user, on a machine with this home folder."""
    return is_made_here(_facts(artifact), artifact.made_here)


def check_artifact(artifact: Artifact) -> None:
    """Raises BadArtifact before a stranger's code runs."""
    code = CARRY_CODE.get(artifact.target)
    if code is None or is_trusted() or is_own(artifact):
        return
    what = f"{artifact.folder} was not exported by you on this machine, and opening it executes {code}."
    raise BadArtifact(f"{what} Nothing was run: if you trust its author, add --trust; or ask for --to onnx or pt2.")


def _facts(artifact: Artifact) -> dict[str, Any]:
    files = {name: entry["sha256"] for name, entry in artifact.files.items()}
    origin = artifact.run.get("origin")  # of weights alone: the recipe that builds their model
    recipe = origin.get("recipe") if isinstance(origin, dict) else None
    return {"kind": "artifact", "target": artifact.target, "files": files, "recipe": recipe}
