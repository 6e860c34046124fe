"""cpu-and-gpu-agree: the model computes the same on the CPU and on the GPU.

The same weights and the same samples give the same loss, answers and gradients on both, to the rounding of float32;
tf32 is off for it, and so is what draws (dropout). A layer that is found to differ is named: the first whose output
lies apart. Such layers ask for a device, keep a tensor of their own on one of them, or use a kernel that is wrong on
one.
"""

from __future__ import annotations

from typing import ClassVar, Final, final

import torch
from torch import Tensor, nn

from trueloop.claims.claim import Claim
from trueloop.claims.numbers import ROUNDING, Numbers, compared, first_apart, numbers_of, quieted
from trueloop.claims.steps import few
from trueloop.claims.subject import RecipeSubject
from trueloop.data.source import Batch, moved
from trueloop.engine.precision import Precision
from trueloop.results.proof import Cause, Proof
from trueloop.usercode.ownership import birthplace

__all__ = ["CpuAndGpuAgree"]

SAMPLES: Final = 16
"""Enough for every layer to have something to add up, and quick on a CPU."""


@final
class CpuAndGpuAgree(Claim):
    name = "cpu-and-gpu-agree"
    healthy = f"loss and answers lie less than {ROUNDING:g} of their scale apart, gradients less than ten times that"
    causes: ClassVar[tuple[Cause, ...]] = (
        Cause(
            "a part of the model asks on which device it is",
            "look for .is_cuda, .device and torch.cuda.is_available() in its forward",
        ),
        Cause(
            "a tensor that is no buffer stays behind, or is made anew on each device",
            "register_buffer, and draw it once on the CPU",
        ),
        Cause(
            "the answer hangs on the order of a sum, or on ties (argmax, sort, topk)",
            "compare in float64: model.double() on both",
        ),
        Cause(
            "a kernel is wrong on one of them",
            "compute the named layer alone on both, and look for it in torch's issues",
        ),
    )

    def of_recipe(self, subject: RecipeSubject) -> Proof:
        if not torch.cuda.is_available():
            return self.unproved("there is no GPU here: try it where `torch.cuda.is_available()` is True")
        return self.on_both(subject, "cpu", "cuda")

    def on_both(self, subject: RecipeSubject, one: str, two: str) -> Proof:
        """The same on any two devices. What is drawn (weights, augmentation) is drawn on the first."""
        parts = subject.parts(device=one, compile="off", precision="fp32")
        batch, weights = few(subject.batch(parts), SAMPLES), parts.model.state_dict()
        (first, mode, _), (second, _, model) = (self._numbers(subject, device, weights, batch) for device in (one, two))
        apart = compared(first, second)
        facts = apart.facts() | {"devices": [one, two], "samples": SAMPLES, "mode": mode}
        if apart.alike:
            said = f"loss {apart.one:.6g} on {one} and {apart.two:.6g} on {two}; answers at most {apart.answers:.0e} of their scale apart, "
            return self.holds(f"{said}gradients {apart.gradients:.0e} ({mode})", facts)
        said = apart.sentence(f"on {one}", f"on {two}")
        layer = first_apart(first.layers, second.layers, ROUNDING)
        if layer is None:
            return self.fails(
                f"{said}; every layer's output is the same on both: it begins in the loss or in the backward", facts
            )
        kind = type(model.get_submodule(layer)).__name__
        said += f"; the layer {layer} ({kind}) is the first whose output differs"
        return self.fails(said, facts | {"first_layer": layer}, place=birthplace(model, layer))

    def _numbers(
        self, subject: RecipeSubject, device: str, weights: dict[str, Tensor], batch: Batch
    ) -> tuple[Numbers, str, nn.Module]:
        parts = subject.parts(device=device, compile="off", precision="fp32")
        parts.model.load_state_dict(weights)
        batch = moved(batch, parts.device)
        with Precision("fp32", parts.device).matmul_precision():
            mode = quieted(parts.model, parts.task, batch)
            return numbers_of(parts.model, parts.task, batch, layers=True), mode, parts.model
