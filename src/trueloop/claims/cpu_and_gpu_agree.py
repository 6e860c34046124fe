"""cpu-and-gpu-agree: the model computes the same on the CPU and on the GPU.

The same weights and samples give the same loss, outputs and gradients on both, within float32 rounding; tf32 and
dropout are off. Of a failure, the first layer whose output differs is named. Such layers check the device, keep a plain
tensor on one of them, or use a kernel that is wrong on one.

Of a script, the first steps run with the GPU hidden and with it visible, from the same weights, batches and random
numbers. How much may differ is measured by a third run, whose weights are changed by a few roundings.
"""

import os
from collections.abc import Mapping
from typing import Any, ClassVar, Final, final

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
from trueloop.claims.device_comparison import (
    PERTURBATION,
    Limits,
    first_difference_of_devices,
    limits_of,
    why_incomparable,
)
from trueloop.claims.device_steps import PLAIN, DeviceSteps, read_device_steps
from trueloop.claims.subject import RecipeSubject, ScriptSubject
from trueloop.claims.training_step import first_samples
from trueloop.data.source import Batch, moved
from trueloop.engine.precision import Precision
from trueloop.results.proof import Cause, Proof
from trueloop.usercode.ownership import layer_place

__all__ = ["CpuAndGpuAgree"]

SAMPLES: Final = 16
STEPS: Final = 3  # of a script
FILE: Final = "steps.pt"
HIDDEN: Final = {"CUDA_VISIBLE_DEVICES": ""}
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

    def try_script(self, subject: ScriptSubject) -> Proof:
        if not torch.cuda.is_available():
            return self.unproved("there is no GPU here: run it where `torch.cuda.is_available()` is True")
        one_gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0]
        return self.compare_runs(subject, {"CUDA_VISIBLE_DEVICES": one_gpu}, "cuda")

    def compare_runs(self, subject: ScriptSubject, second: Mapping[str, str], device: str) -> Proof:
        """`second`: environment in which the script is expected to train on this device."""
        reference = _first_steps(subject, "cpu", HIDDEN)
        if reference.problem or not reference.steps:
            why = reference.problem or f"the script took no step without a GPU ({reference.error or 'it ended before'})"
            return self.unproved(why)
        perturbed = _first_steps(subject, "perturbed", HIDDEN, "cpu", PERTURBATION)
        if why := why_incomparable(reference, perturbed):
            return self.unproved(f"two runs without a GPU already differ: {why}")
        limits = limits_of(reference, perturbed)
        if limits.too_wide:
            share = max(limits.loss, min(limits.gradients, default=0.0))
            return self.unproved(
                f"a rounding of its weights changes a step by up to {share:.0%}: nothing would be seen"
            )
        found = _first_steps(subject, "second", second, "cpu")
        if not found.problem and found.steps and found.steps[0].device != device:
            return self.unproved(f"the script trains on the {found.steps[0].device.upper()} although a GPU is visible")
        if why := why_incomparable(reference, found):
            return self.unproved(why if why.startswith("not applicable") else f"with the GPU, {why}")
        return self._compared(reference, found, limits)

    def _compared(self, reference: DeviceSteps, found: DeviceSteps, limits: Limits) -> Proof:
        steps = min(len(reference.steps), len(found.steps))
        allowed: dict[str, object] = {"loss_limit": limits.loss, "gradient_limit": max(limits.gradients, default=0.0)}
        facts = {"steps": steps, **allowed}
        difference = first_difference_of_devices(reference, found, limits)
        if difference is None:
            said = f"losses and gradients of {steps} steps agree with and without the GPU"
            return self.holds(f"{said}, within {limits.loss:.0e} of the loss", facts)
        facts |= {"differs_at_step": difference.step, "losses": list(difference.losses)}
        facts |= {"loss_difference": difference.loss, "gradient_difference": difference.gradients}
        one, two = difference.losses
        said = f"in step {difference.step} the loss is {one:.6g} without the GPU and {two:.6g} with it"
        if difference.loss <= limits.loss:
            share = f"{difference.gradients:.2g} of its scale"
            said = f"the losses agree, but in step {difference.step} a gradient differs by {share}"
        layer = difference.layer
        if layer is None:
            return self.fails(f"{said}; all layer outputs are equal: it begins in the loss or in the backward", facts)
        name = f"{layer.name} ({layer.kind})" if layer.name else layer.kind
        if layer.name == "inputs":
            return self.fails(f"{said}; the inputs of {layer.kind} already differ", facts)
        return self.fails(f"{said}; the layer {name} is the first whose output differs", facts)

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


def _first_steps(
    subject: ScriptSubject, name: str, environment: Mapping[str, str], reference: str = "", perturbation: float = 0.0
) -> DeviceSteps:
    """`reference`: the name of the run whose weights each step starts from."""
    out, known = (subject.scratch / f"device-steps-{each}" for each in (name, reference))
    out.mkdir(parents=True, exist_ok=True)
    options = (str(out / FILE), str(STEPS), str(known / FILE) if reference else "-", str(perturbation))
    variables: dict[str, Any] = {**PLAIN, **environment}
    subject.run(out, "trueloop.claims.device_steps", *options, **variables)
    return read_device_steps(out / FILE)


def _result(subject: RecipeSubject, device: str, weights: dict[str, Tensor], batch: Batch) -> _Computed:
    parts = subject.parts(device=device, compile="off", precision="fp32")
    parts.model.load_state_dict(weights)
    batch = moved(batch, parts.device)
    with Precision("fp32", parts.device).matmul_precision():
        mode = disable_randomness(parts.model, parts.task, batch)
        return compute_result(parts.model, parts.task, batch, layers=True), mode, parts.model
