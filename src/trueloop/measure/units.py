"""Equal units: a layer whose units are all equal and receive equal gradients can never tell them apart.

Looked at in the first, third and sixth step, between backward and update. Zero weights alone mean nothing (last layers
of residual branches and LoRA's B start so, and differ after one step). Zero gradients mean nothing either (a gate that
is still closed), unless some such layer also receives only zeros: then nothing can ever change it.
"""

import ast
import weakref
from collections.abc import Iterator
from typing import Any, Final, Literal

import torch
from torch import Tensor, nn

from trueloop.event import IdenticalUnits, Place
from trueloop.measure.tensors import on_host, tensors_in
from trueloop.torch_private.modules import ConvNd, ConvTransposeNd
from trueloop.usercode.ownership import class_place, layer_place, users_classes
from trueloop.usercode.source import called_name, calls_in, source_of

__all__ = ["LAYERS", "LOOKS", "EqualUnits", "equal_units", "is_fed", "units_equal_at_ends"]

LOOKS: Final = (0, 2, 5)
"""Steps taken before each look. At the second, equal units under equal, nonzero gradients will stay equal. At the last,
zero gradients no longer come from a chain of zero-initialized layers, each of which opens the next in one step."""
LAYERS: Final = (nn.Linear, ConvNd)
TOLERANCE: Final = 1e-4  # Relative to the largest value: equal rows of a matrix product may differ in their last bits
_SETTERS: Final = frozenset({"constant_", "zeros_", "ones_", "fill_", "zero_"})


class EqualUnits:
    """A weight whose units were equal at the first look, under equal gradients."""

    __slots__ = ("dim", "name", "ref", "unmoved")

    def __init__(self, name: str, weight: Tensor, dim: int) -> None:
        self.name, self.dim = name, dim  # `dim`: the dimension that counts the units
        self.ref = weakref.ref(weight)
        self.unmoved = weight.grad is None or not bool(weight.grad.any())  # Its gradient has been zero at every look

    @property
    def layer(self) -> str:
        return self.name.rpartition(".")[0]

    @torch.no_grad()
    def look(self, look: int) -> Literal["report", "keep", "drop"]:
        """At the second or the last look. Kept: all gradients so far were zero."""
        weight = self.ref()
        if weight is None or weight.grad is None or weight.grad.is_sparse:
            return "drop"
        if not _units_equal(weight, self.dim) or not _units_equal(weight.grad, self.dim):
            return "drop"
        if not bool(weight.grad.any()):
            return "keep" if self.unmoved else "drop"
        return "drop" if self.unmoved and look == LOOKS[-1] else "report"  # dropped: it has only just begun to move

    @torch.no_grad()
    def compared(
        self,
        model: nn.Module,
        weight: Tensor,
        *,
        step: int,
        place: Place | None,
        number: int,
        look: int,
        built: Place | None,
    ) -> IdenticalUnits:
        """The event. `built`: where the optimizer was built."""
        return IdenticalUnits(
            step=step,
            place=place,
            model=number,
            name=type(model).__name__,
            parameter=self.name,
            units=weight.shape[self.dim],
            value=float(weight.reshape(-1)[0]),
            gradient_norm=0.0 if weight.grad is None else float(weight.grad.norm()),
            steps=look + 1,
            defined=_where_set(model, self.name, built),
        )


@torch.no_grad()
def equal_units(model: nn.Module, held: set[int]) -> Iterator[EqualUnits]:
    """The first look. `held`: identities of the parameters to look at; those looked at are removed."""
    if isinstance(model, torch.jit.ScriptModule):
        return  # it does not say what its layers are
    for name, weight in model.named_parameters():
        if id(weight) not in held or weight.grad is None or weight.dim() < 2 or not weight.is_floating_point():
            continue
        held.discard(id(weight))
        for dim in _dims_of_units(model, name, weight):
            same = units_equal_at_ends(weight, dim) and _units_equal(weight, dim, 0.0)
            if same and _units_equal(weight.grad, dim):
                yield EqualUnits(name, weight, dim)
                break


def is_fed(given: Any) -> bool | None:
    """Does the first input of a layer hold anything but zeros? None: no tensor was passed."""
    first = next(tensors_in(given, 1), None)
    return None if first is None else bool(first.any())


def units_equal_at_ends(weight: Tensor, dim: int) -> bool:
    """The first and the last unit: nearly always enough to say no."""
    return weight.device.type != "meta" and torch.equal(on_host(weight.select(dim, 0)), on_host(weight.select(dim, -1)))


def _units_equal(values: Tensor, dim: int, tolerance: float = TOLERANCE) -> bool:
    if values.is_sparse:
        return False
    largest = values.abs().max()
    difference = (values - values.narrow(dim, 0, 1)).abs().max()
    return bool(torch.isfinite(largest) & (difference <= tolerance * largest))


def _dims_of_units(model: nn.Module, name: str, weight: Tensor) -> tuple[int, ...]:
    """The dimension that counts the units of a layer; for a matrix of the user's own class, either of the two."""
    owner = model.get_submodule(name.rpartition(".")[0])
    if isinstance(owner, ConvTransposeNd):
        return (1,) if weight.shape[1] > 1 else ()
    if isinstance(owner, LAYERS):
        return (0,) if weight.shape[0] > 1 else ()
    if weight.dim() == 2 and min(weight.shape) > 1 and next(users_classes(owner), None) is not None:
        return (0, 1)
    return ()


# -- where the weight got its value --


def _where_set(model: nn.Module, name: str, optimizer_place: Place | None) -> Place | None:
    """The user's only line that sets the weight to a constant; else the line that makes the layer."""
    path = name.rpartition(".")[0]
    if next(users_classes(model.get_submodule(path)), None) is not None:
        return layer_place(model, name)  # a parameter of the user's own class: made and set in one line
    places = [class_place(type(module)) for module in model.modules()]
    files = dict.fromkeys(place.path for place in (*places, optimizer_place) if place is not None)
    setters = [(file, call.lineno, source_of(file).text(call)) for file in files for call in _setters_in(file)]
    own = path.rpartition(".")[2]
    named = [entry for entry in setters if own and own in entry[2]]
    for entries in (named, setters):
        if len({entry[:2] for entry in entries}) == 1:
            return Place(entries[0][0], entries[0][1])
    return layer_place(model, path or name)


def _setters_in(file: str) -> Iterator[ast.Call]:
    """Calls that fill a weight with one value."""
    source = source_of(file)
    for call in calls_in(source.tree):
        text = source.text(call)
        if called_name(call) in _SETTERS and "bias" not in text and "grad" not in text:
            yield call
