"""A model as an 8-bit graph, by torchao's PT2E: traced, calibrated on training samples, converted, cleaned up.

For ONNX the graph keeps QuantizeLinear and DequantizeLinear, which runtimes fuse into 8-bit kernels. Other targets get
the same arithmetic in plain torch operations, so that running the artifact does not need torchao.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, Final, final

import torch
from torch import Tensor, fx, nn
from torch.export import Dim

from trueloop.data.source import tensors_in
from trueloop.engine.call_model import call_model
from trueloop.export.compare import error_between
from trueloop.export.program import exportable, scores_of
from trueloop.export.trace import suppress_output
from trueloop.measure.randomness import fence
from trueloop.quantize.scheme import Calibration

__all__ = ["LAYERS", "REFUSES", "QuantizedGraph", "static_graph"]

LAYERS = (nn.Linear, nn.Conv2d)  # Layers with 8-bit kernels
REFUSES: Final = MappingProxyType({"torchscript": "it cannot trace the converted graph (use pt2 or onnx)"})
_LAYER_OPS: Final = (torch.ops.aten.conv2d.default, torch.ops.aten.linear.default)


@final
class _Scores(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Any) -> Any:
        return scores_of(call_model(self.model, inputs))


@final
class QuantizedGraph(nn.Module):
    """A converted graph, always in evaluation mode."""

    def __init__(self, graph: fx.GraphModule, rounding_error: float) -> None:
        super().__init__()
        self.graph = _fix_filename(graph)
        self.rounding_error = rounding_error  # The largest change of an output

    def __deepcopy__(self, memo: dict[int, Any]) -> QuantizedGraph:
        with suppress_output():  # torch warns when a graph is copied
            return QuantizedGraph(copy.deepcopy(self.graph, memo), self.rounding_error)

    def forward(self, inputs: Any) -> Any:
        return self.graph(inputs)

    def train(self, mode: bool = True) -> QuantizedGraph:
        return self

    def for_target(self, target: str) -> QuantizedGraph:
        """ONNX runtimes fuse the quantized operations; other targets get plain ones."""
        return self if target == "onnx" else self.plain()

    def plain(self) -> QuantizedGraph:
        """Without torchao's operations."""
        made = copy.deepcopy(self)
        for node in made.graph.graph.nodes:
            if node.op == "call_function" and str(node.target).startswith("quantized_decomposed."):
                node.target = _PLAIN[str(node.target).split(".")[1]]
                node.kwargs = {}
        made.graph.recompile()
        _fix_filename(made.graph)
        return made


def _fix_filename(graph: fx.GraphModule) -> fx.GraphModule:
    """torch numbers generated code, and exported files record it: two exports of one model would differ."""
    forward: Any = type(graph).forward
    forward.__code__ = forward.__code__.replace(co_filename="<quantized graph>")
    return graph


def static_graph(model: nn.Module, names: Sequence[str], calibration: Calibration) -> QuantizedGraph:
    """The model with these layers converted."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    batches = list(calibration.batches())
    with torch.no_grad(), fence(), suppress_output(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations between torchao and torch
        scores: Any = exportable(_Scores(model))  # type: ignore[arg-type]
        inputs = batches[0].inputs
        graph = torch.export.export(scores, (inputs,), dynamic_shapes=(_dynamic(inputs),)).module(check_guards=False)
        weights = _copy_shared_weights(graph, {f"model.{name}.weight" for name in names})
        prepared = prepare_pt2e(graph, _quantizer(weights))
        for batch in batches:
            prepared(batch.inputs)
        converted = convert_pt2e(prepared)
        _remove_unused(converted)
        pairs = zip(tensors_in(scores_of(call_model(model, inputs))), tensors_in(converted(inputs)), strict=True)
        return QuantizedGraph(converted, max(error_between(a, b) for a, b in pairs))


def _copy_shared_weights(graph: fx.GraphModule, weights: set[str]) -> set[str]:
    """Names of these weights, with a copy for each further call of a layer: torchao folds a BatchNorm into the weight
    of the convolution before it, once per call. `_remove_unused` merges the copies again."""
    made, seen = set(weights), set[str]()
    for node in [node for node in graph.graph.nodes if node.target in _LAYER_OPS]:
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
    """Quantizes inputs per tensor and weights per output channel. Layers are identified by their weights, so a layer
    that is called twice, or whose weight another layer reads, is quantized everywhere."""
    from torchao.quantization.pt2e import HistogramObserver, PerChannelMinMaxObserver
    from torchao.quantization.pt2e.quantizer import QuantizationAnnotation, QuantizationSpec, Quantizer

    entering = QuantizationSpec(torch.uint8, HistogramObserver.with_args(eps=2**-12), 0, 255, torch.per_tensor_affine)
    held = QuantizationSpec(
        torch.int8, PerChannelMinMaxObserver.with_args(eps=2**-20), -127, 127, torch.per_channel_symmetric, ch_axis=0
    )

    @final
    class Marks(Quantizer):  # type: ignore[misc]
        def annotate(self, model: fx.GraphModule) -> fx.GraphModule:
            for node in model.graph.nodes:
                weight = node.args[1] if node.target in _LAYER_OPS else None
                if isinstance(weight, fx.Node) and weight.target in weights:
                    node.meta["quantization_annotation"] = QuantizationAnnotation(
                        {node.args[0]: entering, weight: held}, _annotated=True
                    )
            return model

        def validate(self, model: fx.GraphModule) -> None:
            """Nothing to check."""

    return Marks()


def _dynamic(inputs: Any) -> Any:
    """Any batch size, and any length of token rows."""
    if isinstance(inputs, Tensor):
        tokens = inputs.dim() == 2 and not inputs.is_floating_point()
        return {0: Dim.AUTO, 1: Dim.AUTO} if tokens else {0: Dim.AUTO}
    if isinstance(inputs, dict):
        return {name: _dynamic(value) for name, value in inputs.items()}
    return type(inputs)(_dynamic(value) for value in inputs)


def _remove_unused(graph: fx.GraphModule) -> None:
    """Deletes float weights that are no longer read, and duplicates from layers that are called twice."""
    kept: dict[Any, str] = {}
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            value = _attribute(graph, node.target)
            if isinstance(value, Tensor):
                node.target = kept.setdefault((value.dtype, tuple(value.shape), value.numpy().tobytes()), node.target)
    read = {node.target for node in graph.graph.nodes if node.op == "get_attr"}
    named = (*graph.named_parameters(remove_duplicate=False), *graph.named_buffers(remove_duplicate=False))
    for name, _ in named:
        if name not in read:
            parent, _, last = name.rpartition(".")
            delattr(graph.get_submodule(parent), last)
    graph.recompile()


def _attribute(graph: nn.Module, name: str) -> Any:
    parent, _, last = name.rpartition(".")
    return getattr(graph.get_submodule(parent), last)


# -- the same arithmetic in plain torch operations --


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
