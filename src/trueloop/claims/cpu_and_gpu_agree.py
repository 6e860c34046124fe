"""cpu-and-gpu-agree: the model computes the same on the CPU and on the GPU.

The same weights and samples give the same loss, outputs and gradients on both, within float32 rounding; tf32 and
dropout are off. Of a failure, the first layer whose output differs is named. Such layers check the device, keep a plain
tensor on one of them, or use a kernel that is wrong on one.
"""

from typing import ClassVar, Final, final

import torch
from torch import Tensor, nn

from trueloop.claims.batch_result import (
    DRAWS,
    ROUNDING,
    BatchResult,
    compare,
    compute_result,
    disable_randomness,
    first_differing_layer,
)
from trueloop.claims.claim import Claim
from trueloop.claims.subject import RecipeSubject
from trueloop.claims.training_step import first_samples
from trueloop.data.source import Batch, moved
from trueloop.engine.precision import Precision
from trueloop.results.proof import Cause, Proof
from trueloop.usercode.ownership import layer_place

__all__ = ["CpuAndGpuAgree"]

SAMPLES: Final = 16
_Computed = tuple[BatchResult, str, nn.Module]  # and the mode


@final
class CpuAndGpuAgree(Claim):
    name = "cpu-and-gpu-agree"
    healthy = f"loss and outputs differ by less than {ROUNDING:g} of their scale, gradients by less than ten times that"
    causes: ClassVar[tuple[Cause, ...]] = (
        Cause("a part of the model checks the device", "look for `.is_cuda`, `.device`, `cuda.is_available()` in it"),
        Cause("a tensor stays behind, or is drawn again on each device", "`register_buffer`; draw it once on the CPU"),
        Cause(
            "the order of a sum, or ties (argmax, sort, topk) decide", "compare in float64: `model.double()` on both"
        ),
        Cause(
            "a kernel is wrong on one of them", "run the named layer alone on both, and search the issues of PyTorch"
        ),
    )

    def try_recipe(self, subject: RecipeSubject) -> Proof:
        if not torch.cuda.is_available():
            return self.unproved("there is no GPU here: run it where `torch.cuda.is_available()` is True")
        return self.compare_devices(subject, "cpu", "cuda")

    def compare_devices(self, subject: RecipeSubject, one: str, two: str) -> Proof:
        """Weights and augmentation are drawn on the first device."""
        parts = subject.parts(device=one, compile="off", precision="fp32")
        batch, weights = first_samples(subject.batch(parts), SAMPLES), parts.model.state_dict()
        (first, mode, _), (second, _, model) = (_result(subject, device, weights, batch) for device in (one, two))
        difference = compare(first, second)
        facts = difference.evidence() | {"devices": [one, two], "samples": SAMPLES, "mode": mode}
        if difference.equal:
            return self.holds(f"{difference.agreement(f'on {one}', f'on {two}')} ({mode})", facts)
        if mode == DRAWS:
            said = "the forward draws random numbers, in eval mode too, and each device draws different ones"
            return self.unproved(f"not applicable: {said}", facts)
        said = difference.sentence(f"on {one}", f"on {two}")
        layer = first_differing_layer(first.layers, second.layers, ROUNDING)
        if layer is None:
            return self.fails(f"{said}; all layer outputs are equal: it begins in the loss or in the backward", facts)
        kind = type(model.get_submodule(layer)).__name__
        said += f"; the layer {layer} ({kind}) is the first whose output differs"
        return self.fails(said, facts | {"first_layer": layer}, place=layer_place(model, layer))


def _result(subject: RecipeSubject, device: str, weights: dict[str, Tensor], batch: Batch) -> _Computed:
    parts = subject.parts(device=device, compile="off", precision="fp32")
    parts.model.load_state_dict(weights)
    batch = moved(batch, parts.device)
    with Precision("fp32", parts.device).matmul_precision():
        mode = disable_randomness(parts.model, parts.task, batch)
        return compute_result(parts.model, parts.task, batch, layers=True), mode, parts.model
