"""safetensors: the weights only, by name. To load them, build the recipe's model:

    model.load_state_dict(safetensors.torch.load_file("model.safetensors"))

Its runtime is that model, rebuilt from the recipe and the facts of the data in artifact.json. The recipe's
preprocessing is not in the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from trueloop.errors import BadArtifact
from trueloop.export.exporter import Example, Exporter, Runner
from trueloop.results.artifact import Artifact, Port
from trueloop.trust.artifacts import is_own
from trueloop.trust.made_here import is_trusted

if TYPE_CHECKING:
    from torch import nn

    from trueloop.export.program import Exportable

__all__ = ["Safetensors"]


@final
class Safetensors(Exporter):
    """The model's state dict; tied weights are written under each of their names."""

    target = "safetensors"
    file = "model.safetensors"
    runtime = "torch"
    inside = False
    notes = ("Weights only: load them into the recipe's model, and apply the recipe's `prepare` to raw samples.",)

    def write(self, program: Exportable, example: Example, file: Path) -> tuple[Port, ...]:
        from torch import Tensor

        from trueloop.checkpoint.safetensors_writer import write_tensors
        from trueloop.export.program import Program

        assert isinstance(program, Program), "a weights file has no layer outputs"
        state = {name: value for name, value in program.model.state_dict().items() if isinstance(value, Tensor)}
        with file.open("wb") as out:
            write_tensors(state, out, {"format": "pt"})
        return example.ports

    def open(self, artifact: Artifact, device: str = "cpu") -> Runner:
        from trueloop.checkpoint.contents import read_weights_file
        from trueloop.engine.call_model import call_model
        from trueloop.export.device import torch_device
        from trueloop.export.exporter import TorchRunner
        from trueloop.export.program import scores_of

        (model, layouts), place = _rebuild(artifact), torch_device(device)
        state = read_weights_file(artifact.file.read_bytes(), str(artifact.file))
        try:
            model.load_state_dict(state)
        except RuntimeError as error:
            detail = str(error).splitlines()[-1].strip()
            raise BadArtifact(f"{artifact.file} does not fit the recipe's model, which has changed: {detail}") from None
        model.eval().to(place)

        def run(*tensors: Any) -> Any:
            return layouts[1].split(scores_of(call_model(model, layouts[0].join(tensors))))

        return TorchRunner(run, place)


def _rebuild(artifact: Artifact) -> tuple[nn.Module, Any]:
    """The recipe's model, without its trained weights."""
    from trueloop.data.source import Facts
    from trueloop.engine.build_model import build_model
    from trueloop.export.program import Layout
    from trueloop.recipes.origin import recipe_of

    origin, plain = artifact.run.get("origin"), artifact.run.get("facts")
    if not isinstance(origin, dict) or not isinstance(plain, dict):
        raise BadArtifact(f"{artifact.folder} does not name the recipe of its weights: load them in your own code.")
    _refuse_companion(artifact, origin.get("recipe"))
    facts = Facts(**{**plain, "inputs": tuple(plain["inputs"]), "classes": tuple(plain["classes"])})
    layouts = [Layout(tuple(each["names"]), each["kind"]) for each in artifact.run["layouts"]]
    return build_model(recipe_of(origin), facts), layouts


def _refuse_companion(artifact: Artifact, recipe: Any) -> None:
    """A recipe is code: that of an own export is trusted, unless it lies in the artifact's folder."""
    named = isinstance(recipe, str)
    if named and (not recipe.endswith(".py") or is_trusted()):
        return
    if not named or Path(recipe).resolve().is_relative_to(artifact.folder.resolve()):
        why = f"{artifact.folder} is not safe to load and was refused; nothing in it was executed:"
        raise BadArtifact(f"{why} its recipe {recipe!r} is code that came with it.")
    if not is_own(artifact):
        why = f"{artifact.folder} was not exported by you on this machine, and opening it would execute {recipe}."
        raise BadArtifact(f"{why} Nothing was run: if you trust that file, add --trust.")
