"""safetensors: the weights alone, by name, in a file that can hold nothing but numbers. To load them one needs the
recipe's model:

    model.load_state_dict(safetensors.torch.load_file("model.safetensors"))

Its runtime is that model, built again in a fresh process from the recipe and the facts of the data that artifact.json
keeps. What the recipe does to raw samples is not inside: the caller does it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from trueloop.errors import BadArtifact
from trueloop.export.exporter import Exporter, Given, Runner
from trueloop.results.artifact import Artifact, Port

if TYPE_CHECKING:
    from torch import nn

    from trueloop.export.program import Exportable

__all__ = ["Safetensors"]


@final
class Safetensors(Exporter):
    """The state dict of the recipe's model; tied weights are written under each of their names."""

    target = "safetensors"
    file = "model.safetensors"
    runtime = "torch"
    inside = False
    notes = (
        "Weights only: load them into the recipe's model, and give it what the recipe's `prepare` makes of raw samples.",
    )

    def write(self, program: Exportable, given: Given, file: Path) -> tuple[Port, ...]:
        import safetensors.torch
        from torch import Tensor

        from trueloop.export.program import Program

        assert isinstance(program, Program), "there are no layers to look at in weights"
        state = {name: value for name, value in program.model.state_dict().items() if isinstance(value, Tensor)}
        whole = {name: value.detach().clone().contiguous() for name, value in state.items()}
        file.write_bytes(
            safetensors.torch.save(whole, {"format": "pt"})
        )  # by itself it would make a file that only its owner can read
        return given.ports

    def open(self, artifact: Artifact, device: str = "cpu") -> Runner:
        from trueloop.checkpoint.contents import read_weights_file
        from trueloop.export.device import TorchRunner, torch_device
        from trueloop.export.program import scores_of

        (model, layouts), place = _rebuilt(artifact), torch_device(device)
        state = read_weights_file(artifact.file.read_bytes(), str(artifact.file))
        try:
            model.load_state_dict(state)
        except RuntimeError as error:
            raise BadArtifact(
                f"{artifact.file} does not fit the recipe's model: it has changed since. {str(error).splitlines()[-1].strip()}"
            ) from None
        model.eval().to(place)
        return TorchRunner(lambda *tensors: layouts[1].parted(scores_of(model(layouts[0].joined(tensors)))), place)


def _rebuilt(artifact: Artifact) -> tuple[nn.Module, Any]:
    """The recipe's model with no weights of its own yet."""
    from trueloop.data.source import Facts
    from trueloop.export.program import Layout
    from trueloop.recipe.model import build_model
    from trueloop.recipe.overrides import apply_overrides
    from trueloop.recipes.catalogue import find_recipe

    origin, told = artifact.run.get("origin"), artifact.run.get("facts")
    if not isinstance(origin, dict) or not isinstance(told, dict):
        raise BadArtifact(
            f"{artifact.folder} does not name the recipe whose model its weights fit: load them into that model yourself."
        )
    _refuse_companion(artifact, origin.get("recipe"))
    recipe = apply_overrides(find_recipe(origin["recipe"], origin["arguments"]), origin["settings"])
    facts = Facts(**{**told, "inputs": tuple(told["inputs"]), "classes": tuple(told["classes"])})
    layouts = [Layout(tuple(each["names"]), each["kind"]) for each in artifact.run["layouts"]]
    return build_model(recipe, facts), layouts


def _refuse_companion(artifact: Artifact, recipe: Any) -> None:
    """A recipe is code: the user's own, which lies with the user. One that came along with the weights is a
    stranger's."""
    inside = (
        isinstance(recipe, str)
        and recipe.endswith(".py")
        and Path(recipe).resolve().is_relative_to(artifact.folder.resolve())
    )
    if not isinstance(recipe, str) or inside:
        raise BadArtifact(
            f"{artifact.folder} is not safe to load and was refused; nothing in it was run: its recipe is to be {recipe!r}, code that came "
            "along with it."
        )
