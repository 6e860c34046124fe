"""Which verb opens which format of a stranger's file: the command of each cell, and the file that it is given.

A verb or a format that is not here fails `test_matrix.py`: whoever adds one says what it opens.
"""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.export.made import artifact
from tests.hostile.canary import Evil, code_of
from tests.hostile.pickles import PICKLES
from tests.hostile.verbs import reseal
from trueloop.checkpoint.contents import TRAINING
from trueloop.checkpoint.store import seal_json, unseal_json
from trueloop.export.catalogue import TARGETS, find_exporter
from trueloop.export.exporter import installed_version
from trueloop.export.folder import staged_folder
from trueloop.inference.read_inputs import TENSORS
from trueloop.inspection.files import ARRAYS, KNOWN, PICKLED
from trueloop.results.artifact import FILE

RUN, WEIGHTS = "run.json", "weights of a checkpoint"
ARTIFACTS = {f"artifact {target}": target for target in TARGETS}
FORMATS = (RUN, TRAINING, WEIGHTS, *KNOWN, *ARTIFACTS)

EVIL, PLACE = "runs/evil", "art"
_QUIET = ("--set", "epochs=1", "--quiet")
_RUN_VERBS: dict[str, tuple[str, ...]] = {
    "recheck": ("recheck", EVIL),
    "probe": ("probe", EVIL),
    "ready": ("ready", EVIL, "--fail-on", "error"),
    "train": ("train", "digits", "--name", "evil", *_QUIET),
    "resume": ("resume", EVIL, "--set", "epochs=2"),
    "runs": ("runs",),
    "evaluate": ("evaluate", EVIL),
    "predict": ("predict", EVIL, "--input", "x.npy"),
    "sample": ("sample", EVIL),
    "compare": ("compare", "good", "evil"),
    "ui": ("ui", "--export", "x.html", EVIL),
    "checkpoint": ("checkpoint", "verify", EVIL),
    "inspect": ("inspect", "model", EVIL),
    "profile": ("profile", EVIL),
    "tune": ("tune", EVIL, "--minutes", "0.1"),
    "export": ("export", EVIL, "--to", "safetensors"),
    "quantize": ("quantize", EVIL, "--scheme", "int8-dynamic"),
    "bench": ("bench", EVIL),
    "serve": ("serve", EVIL, "--port", "0"),
    "load": ("load", EVIL),
}
_CHECKPOINT_VERBS = {
    **{verb: _RUN_VERBS[verb] for verb in ("ready", "resume", "evaluate", "predict", "export")},
    **{verb: _RUN_VERBS[verb] for verb in ("quantize", "bench")},
    "inspect": ("inspect", "checkpoint", EVIL),
    "checkpoint": ("checkpoint", "convert", EVIL, "--to", "x.safetensors"),
}
_ARTIFACT_VERBS: dict[str, tuple[str, ...]] = {
    "serve": ("serve", PLACE, "--port", "0"),
    "load": ("load", PLACE, "--requests", "1"),
    "bench": ("bench", PLACE, "--seconds", "0.1"),
}


def _file_verbs(end: str) -> dict[str, tuple[str, ...]]:
    file = f"x{end}"
    found: dict[str, tuple[str, ...]] = {
        "inspect": ("inspect", "checkpoint", file),
        "inspect tensor": ("inspect", "tensor", file),
        "inspect activations": ("inspect", "model", "runs/good", "--activations", "0", "--inputs", file),
        "train start_from": ("train", "digits", "--name", "new", *_QUIET, "--set", f"start_from={file}"),
    }
    return found | ({"predict": ("predict", "runs/good", "--input", file)} if end in TENSORS else {})


OPENED: dict[str, dict[str, tuple[str, ...]]] = {
    RUN: _RUN_VERBS,
    TRAINING: _CHECKPOINT_VERBS,
    WEIGHTS: _CHECKPOINT_VERBS,
    **{end: _file_verbs(end) for end in KNOWN},
    **dict.fromkeys(ARTIFACTS, _ARTIFACT_VERBS),
}
"""Format -> verb (and a word more, where it opens files in several ways) -> what is typed."""
OPENS_NOTHING = {
    "check": "executes the script that the user names",
    "fix": "the same",
    "try": "the same",
    "launch": "the same, on several processes",
    "sweep": "trains recipes that the user names, into folders of its own",
    "plan": "builds the model of a recipe that the user names",
    "explain": "prints pages of rules",
    "lab": "prints questions",
    "completion": "prints a script",
    "env": "prints versions",
    "mcp": "calls other verbs",
}
"""Verb -> why it opens no file of a stranger."""
READ = {(RUN, verb) for verb in ("runs", "ui", "compare", "checkpoint", "train", "ready", "recheck")}
"""Cells that may end well: they read text."""


def put(kind: str, canary: Path) -> None:
    """The hostile file, in the current folder, where the commands of its column look for it."""
    np.save("x.npy", np.zeros((1, 1, 8, 8), np.uint8))  # an innocent input
    if kind in ARTIFACTS:
        _put_artifact(ARTIFACTS[kind], canary)
    elif kind in KNOWN:
        Path(f"x{kind}").write_bytes(_file(kind, canary))
    else:
        {RUN: _put_recipe, TRAINING: _put_training, WEIGHTS: _put_weights}[kind](canary)


def _put_recipe(canary: Path) -> None:
    """A run whose recipe is a file that came with it."""
    recipe, file = Path(EVIL, "recipe.py").resolve(), Path(EVIL, "run.json")
    recipe.write_text(code_of(canary), encoding="utf-8")
    about = json.loads(file.read_bytes())
    about["origin"] = {**about["origin"], "recipe": str(recipe)}
    file.write_text(json.dumps(about), encoding="utf-8")


def _put_training(canary: Path) -> None:
    for checkpoint in Path(EVIL, "checkpoints").iterdir():
        (checkpoint / TRAINING).write_bytes(PICKLES["evil"](canary))
        reseal(checkpoint)


def _put_weights(canary: Path) -> None:
    """A pickle under the name of a plain file."""
    for checkpoint in Path(EVIL, "checkpoints").iterdir():
        for file in checkpoint.glob("*.safetensors"):
            file.write_bytes(PICKLES["evil"](canary))
        reseal(checkpoint)


def _file(end: str, canary: Path) -> bytes:
    if end in PICKLED:
        return PICKLES["evil"](canary)
    if end not in ARRAYS:
        return PICKLES["evil_without_archive"](canary)
    out, objects = io.BytesIO(), np.array([Evil(canary)], dtype=object)
    write: Callable[..., None] = np.save if end == ".npy" else np.savez
    write(out, objects, allow_pickle=True)
    return out.getvalue()


def _put_artifact(target: str, canary: Path) -> None:
    """As a stranger would seal it: all hashes fit, and there is no stamp of this machine."""
    exporter = find_exporter(target)
    package = exporter.runtime
    version = installed_version(package) or "1.0.0"
    runtime = {"package": package, "version": version, "match": "major", "machine": ""}
    recipe = Path(PLACE).resolve() / "recipe.py"
    origin = {"recipe": str(recipe), "arguments": {}, "settings": {}}
    with staged_folder(Path(PLACE)) as folder:
        (folder.aside / exporter.file).write_bytes(_model(target, canary))
        made = artifact(target=target, runtime=runtime, files={exporter.file: {"bytes": 0, "sha256": ""}})
        folder.seal(made)
        folder.publish()
    recipe.write_text(code_of(canary), encoding="utf-8")
    plain = unseal_json((Path(PLACE) / FILE).read_bytes(), "it")
    plain["run"] = {**plain["run"], "origin": origin, "facts": {"inputs": [1], "classes": []}}
    (Path(PLACE) / FILE).write_bytes(seal_json({**plain, "made_here": ""}))


def _model(target: str, canary: Path) -> bytes:
    """Archives of torch hold a pickle that leaves the canary; other formats cannot hold one, and get it bare."""
    return PICKLES["evil"](canary) if target in ("pt2", "aoti", "torchscript") else pickle.dumps(Evil(canary), 2)
