"""A model as a graph in 8 bits, by PT2E of torchao: traced, observed on training samples, converted, tidied.

ONNX is given the steps as QuantizeLinear and DequantizeLinear, which its runtimes join into 8-bit kernels; other
targets are given the same arithmetic in plain operations of torch, so that whoever runs the artifact needs no torchao.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from typing import Any, Final, final

import torch
from torch import Tensor, fx, nn
from torch.export import Dim

from trueloop.data.source import tensors_in
from trueloop.export.compare import error_between
from trueloop.export.program import exportable, scores_of
from trueloop.export.traced import quietly
from trueloop.measure.randomness import fence
from trueloop.quantize.scheme import Calibration

__all__ = ["LAYERS", "Graphed", "static_graph"]

LAYERS = (nn.Linear, nn.Conv2d)
"""Those whose runtimes have 8-bit kernels."""
_TAKERS: Final = (torch.ops.aten.conv2d.default, torch.ops.aten.linear.default)
"""What these layers are in a graph."""


@final
class _Scores(nn.Module):
    """The model, and scores where it answers with something that is not multiplied out."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Any) -> Any:
        return scores_of(self.model(inputs))


@final
class Graphed(nn.Module):
    """A converted graph in place of a model. It has no modes: it is always in evaluation."""

    def __init__(self, graph: fx.GraphModule, apart: float) -> None:
        super().__init__()
        self.graph = _always_called_alike(graph)
        self.apart = apart
        """The largest difference of an output that rounding has made."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Graphed:
        with quietly():  # copying a graph, torch warns of how it keeps the shape of its inputs
            return Graphed(copy.deepcopy(self.graph, memo), self.apart)

    def forward(self, inputs: Any) -> Any:
        return self.graph(inputs)

    def train(self, mode: bool = True) -> Graphed:
        return self

    def plain(self) -> Graphed:
        """Without operations that only torchao's graphs know."""
        made = copy.deepcopy(self)
        for node in made.graph.graph.nodes:
            if node.op == "call_function" and str(node.target).startswith("quantized_decomposed."):
                node.target = _PLAIN[str(node.target).split(".")[1]]
                node.kwargs = {}
        made.graph.recompile()
        _always_called_alike(made.graph)
        return made


def _always_called_alike(graph: fx.GraphModule) -> fx.GraphModule:
    """torch numbers the code of its graphs as they are made, and exported files say where each operation came from: two
    files of the same model would differ."""
    forward: Any = type(graph).forward
    forward.__code__ = forward.__code__.replace(co_filename="<quantized graph>")
    return graph


def static_graph(model: nn.Module, names: Sequence[str], calibration: Calibration) -> Graphed:
    """The model with these layers converted."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    batches = list(calibration.batches())
    with torch.no_grad(), fence(), quietly(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torchao and torch warn of each other's next versions
        whole: Any = _Scores(model)
        traced = torch.export.export(
            exportable(whole), (batches[0].inputs,), dynamic_shapes=(_free(batches[0].inputs),)
        )
        graph = traced.module(check_guards=False)
        weights = _apart_for_each_call(graph, {f"model.{name}.weight" for name in names})
        prepared = prepare_pt2e(graph, _quantizer(weights))
        for batch in batches:
            prepared(batch.inputs)
        converted = convert_pt2e(prepared)
    _tidy(converted)
    return Graphed(converted, _apart(model, converted, batches[0].inputs))


def _apart_for_each_call(graph: fx.GraphModule, weights: set[str]) -> set[str]:
    """Names of these weights, with a copy for each further call of a layer: torchao folds a norm into the convolution
    before it, and would fold it into the same weight once for each call. `_tidy` joins the copies again."""
    made, seen = set(weights), set[str]()
    for node in [node for node in graph.graph.nodes if node.target in _TAKERS]:
        for part in [part for part in node.args[1:3] if isinstance(part, fx.Node) and part.op == "get_attr"]:
            name = str(part.target)
            if name in seen:
                copied = f"{name}_{len(made)}_{len(seen)}"
                parent, _, last = copied.rpartition(".")
                held = nn.Parameter(_attribute(graph, name).detach().clone(), requires_grad=False)
                graph.get_submodule(parent).register_parameter(last, held)
                with graph.graph.inserting_before(node):
                    node.replace_input_with(part, graph.graph.get_attr(copied))
                made |= {copied} if name in weights else set()
                seen.add(copied)
            seen.add(name)
    graph.recompile()
    return made


def _quantizer(weights: set[str]) -> Any:
    """Marks what is read together with these weights: inputs in 255 steps of one range, weights in 255 steps for each
    output. Layers are known by their weights, so one that is called twice, or whose weight another one reads, is marked
    wherever it is used."""
    from torchao.quantization.pt2e import HistogramObserver, PerChannelMinMaxObserver
    from torchao.quantization.pt2e.quantizer import QuantizationAnnotation, QuantizationSpec, Quantizer

    entering = QuantizationSpec(torch.uint8, HistogramObserver.with_args(eps=2**-12), 0, 255, torch.per_tensor_affine)
    held = QuantizationSpec(
        torch.int8, PerChannelMinMaxObserver.with_args(eps=2**-20), -127, 127, torch.per_channel_symmetric, ch_axis=0
    )

    @final
    class Marks(Quantizer):  # type: ignore[misc]
        """torchao's seam."""

        def annotate(self, model: fx.GraphModule) -> fx.GraphModule:
            for node in model.graph.nodes:
                weight = node.args[1] if node.target in _TAKERS else None
                if isinstance(weight, fx.Node) and weight.target in weights:
                    node.meta["quantization_annotation"] = QuantizationAnnotation(
                        {node.args[0]: entering, weight: held}, _annotated=True
                    )
            return model

        def validate(self, model: fx.GraphModule) -> None:
            """What is marked is marked rightly."""

    return Marks()


@torch.no_grad()
def _apart(model: nn.Module, converted: fx.GraphModule, inputs: Any) -> float:
    answers = zip(tensors_in(scores_of(model(inputs))), tensors_in(converted(inputs)), strict=True)
    return max(error_between(a, b) for a, b in answers)


def _free(inputs: Any) -> Any:
    """The batch may have any size, and rows of tokens any length."""
    if isinstance(inputs, Tensor):
        tokens = inputs.dim() == 2 and not inputs.is_floating_point()
        return {0: Dim.AUTO, 1: Dim.AUTO} if tokens else {0: Dim.AUTO}
    if isinstance(inputs, dict):
        return {name: _free(value) for name, value in inputs.items()}
    return type(inputs)(_free(value) for value in inputs)


def _tidy(graph: fx.GraphModule) -> None:
    """Away with float weights that nothing reads any more, and with second copies: a layer that is called twice was
    converted twice."""
    kept: dict[Any, str] = {}
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            value = _attribute(graph, node.target)
            if isinstance(value, Tensor):
                node.target = kept.setdefault((value.dtype, tuple(value.shape), value.numpy().tobytes()), node.target)
    read = {node.target for node in graph.graph.nodes if node.op == "get_attr"}
    for name in [
        name
        for name, _ in (*graph.named_parameters(remove_duplicate=False), *graph.named_buffers(remove_duplicate=False))
    ]:
        if name not in read:
            parent, _, last = name.rpartition(".")
            delattr(graph.get_submodule(parent), last)
    graph.recompile()


def _attribute(graph: nn.Module, name: str) -> Any:
    parent, _, last = name.rpartition(".")
    return getattr(graph.get_submodule(parent), last)


# -- the same arithmetic in operations that every torch knows --


def _quantize(x: Tensor, scale: float, zero: int, low: int, high: int, dtype: torch.dtype) -> Tensor:
    return (torch.round(x * (1.0 / scale)) + zero).clamp(low, high).to(dtype)


def _dequantize(x: Tensor, scale: float, zero: int, low: int, high: int, dtype: torch.dtype) -> Tensor:
    return (x.to(torch.float32) - zero) * scale


def _dequantize_outputs(
    x: Tensor, scales: Tensor, zeros: Tensor | None, axis: int, low: int, high: int, dtype: torch.dtype
) -> Tensor:
    shape = [-1 if place == axis else 1 for place in range(x.dim())]
    numbers = x.to(torch.float32)
    return (numbers if zeros is None else numbers - zeros.reshape(shape)) * scales.reshape(shape)


_PLAIN = {
    "quantize_per_tensor": _quantize,
    "dequantize_per_tensor": _dequantize,
    "dequantize_per_channel": _dequantize_outputs,
}
