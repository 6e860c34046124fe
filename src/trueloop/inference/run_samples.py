"""A few validation samples of the run that an artifact was exported from, for the page of `trueloop serve`.

They are read from the run's own data, when somebody opens the page, in a process of their own: the server loads neither
the data nor the recipe. Nothing of them is stored with the artifact, which may be given away.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trueloop.errors import Misuse, TrueloopError
from trueloop.export.folder import read_artifact
from trueloop.results.artifact import Artifact
from trueloop.trust.artifacts import is_own
from trueloop.usercode.child_python import child_python

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["has_samples", "read_samples", "samples_for_page"]

LARGEST: Final = 2**18  # Bytes of one sample: a picture of 224 x 224 has 150,528
SECONDS: Final = 120.0  # For the process that reads the data
NOT_READ: Final = "The run's validation data could not be read: see the server's log."


def has_samples(artifact: Artifact) -> bool:
    """Exported here, and still inside its run. Of a stranger's artifact nothing is read."""
    return is_own(artifact) and (_run_of(artifact) / "run.json").is_file()


def samples_for_page(artifact: Artifact, count: int) -> dict[str, Any]:
    """`samples`: each the JSON of a request and its target in words; `why`: a sentence where there are none."""
    if not has_samples(artifact):
        return {"samples": [], "why": ""}
    words = child_python("-m", __name__, str(artifact.folder), str(count))
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return {"samples": [], "why": f"The run's validation data could not be read within {SECONDS:g} seconds."}
    if done.returncode:
        print(done.stderr, file=sys.stderr, flush=True)  # noqa: T201 - the server's log
        return {"samples": [], "why": NOT_READ}
    made: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])  # a recipe may print before
    return made


def read_samples(artifact: Artifact, count: int) -> list[dict[str, Any]]:
    """Spread over the validation data. Raises TrueloopError."""
    import torch

    from trueloop.engine.read_data import read_data
    from trueloop.export.program import layout_of
    from trueloop.export.trained_model import Origin
    from trueloop.session.folder import read_about

    run = _run_of(artifact)
    origin = Origin.of_run(run, read_about(run), "its recipe is unknown.")
    splits = read_data(origin.recipe, origin.request)
    if splits.valid is None or not splits.valid.by_index:
        raise Misuse("The run has no validation data that can be read by number.")
    total = len(splits.valid)
    numbers = torch.arange(min(count, total)) * total // min(count, total)
    torch.manual_seed(origin.recipe.seed)  # this process does nothing else
    inputs, targets = splits.valid.fetch(numbers)
    if splits.prepare is not None and not artifact.preprocessing.get("inside"):
        inputs = splits.prepare(inputs)
    layout = layout_of(inputs, "input")
    tensors = dict(zip(layout.names, layout.split(inputs), strict=True))
    if not {port.name for port in artifact.inputs} <= tensors.keys():
        raise Misuse("The run's data have changed since the export.")
    return [
        {"number": number, "target": _words(targets, at, artifact.classes), "input": _input(artifact, tensors, at)}
        for at, number in enumerate(numbers.tolist())
    ]


def _run_of(artifact: Artifact) -> Path:
    """RUN/export/TARGET -> RUN."""
    return artifact.folder.resolve().parent.parent


def _input(artifact: Artifact, tensors: Mapping[str, Tensor], at: int) -> Any:
    """As a request has it: exact, and a third of the size of JSON's numbers."""
    arrays = {port.name: tensors[port.name][at].numpy() for port in artifact.inputs}
    if sum(array.nbytes for array in arrays.values()) > LARGEST:
        raise Misuse(f"The run's samples have more than {LARGEST:,} bytes: too many for the page.")
    coded = {name: _coded(array) for name, array in arrays.items()}
    return coded if len(coded) > 1 else next(iter(coded.values()))


def _coded(array: Any) -> dict[str, Any]:
    data = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    return {"base64": base64.b64encode(data).decode("ascii"), "shape": list(array.shape)}


def _words(targets: Any, at: int, classes: Sequence[str]) -> str:
    """Empty: the target is not one number."""
    try:
        value = targets[at].item()
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError):
        return ""
    known = isinstance(value, int) and 0 <= value < len(classes)
    return classes[value] if known else f"{value:g}"


def main() -> None:
    """The process that reads."""
    folder, count = sys.argv[1:]
    try:
        told: dict[str, Any] = {"samples": read_samples(read_artifact(folder), int(count)), "why": ""}
    except TrueloopError as error:
        told = {"samples": [], "why": str(error)}
    print(json.dumps(told))  # noqa: T201 - what its caller reads


if __name__ == "__main__":
    main()
