"""save-and-load-on-other-device: weights saved on this device load on a second one, and the model works there.

A tensor that is a plain attribute does not follow `.to(device)`: on the next machine the forward fails, or mixes
devices. Where there is no second device, `meta` replaces it: it has shapes and no values, and a tensor that stays
behind shows there too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, final

import torch
from torch import Tensor, nn

from trueloop.claims.claim import Claim
from trueloop.claims.rebuild import save_and_load
from trueloop.claims.subject import RecipeSubject
from trueloop.claims.tensor_digest import differing_names
from trueloop.data.source import moved, tensors_in
from trueloop.engine.build_model import build_model
from trueloop.engine.call_model import call_model
from trueloop.engine.evaluate import evaluating
from trueloop.engine.layers import remove_after
from trueloop.engine.parts import Parts
from trueloop.event import Place
from trueloop.measure.randomness import fence
from trueloop.results.proof import Cause, Proof
from trueloop.taps.place import here
from trueloop.torch_private.dispatch import TorchDispatchMode
from trueloop.torch_private.modules import MEMBERS
from trueloop.usercode.ownership import class_place, layer_place

__all__ = ["SaveAndLoadOnOtherDevice"]

# Copies, and indexing with an index on the host
MIXED_DEVICE_OPERATIONS: Final = (
    *("aten::_to_copy", "aten::copy_", "aten::index"),
    *("aten::index_put", "aten::index_put_", "aten::_index_put_impl_"),
)

ATTRIBUTE = Cause("a plain attribute is a tensor: .to(device) does not move it", 'self.register_buffer("name", ...)')
CREATED = Cause("the forward creates a tensor on the host", "give the device: `torch.arange(n, device=x.device)`")
HARD_CODED = Cause("a device is hard-coded: .cuda(), device='cpu'", "use the device of the inputs: `x.device`")
CUSTOM = Cause("a custom state_dict holds tensors of one device only", "look at state_dict and load_state_dict")


@final
class SaveAndLoadOnOtherDevice(Claim):
    name = "save-and-load-on-other-device"
    healthy = "every weight is bit-identical after the round trip, and the forward uses only tensors on its device"
    causes: ClassVar[tuple[Cause, ...]] = (ATTRIBUTE, CREATED, HARD_CODED, CUSTOM)

    def try_recipe(self, subject: RecipeSubject) -> Proof:
        parts = subject.parts(compile="off")
        other = _other_device(parts.device)
        where = f"{other}, in place of a GPU" if other.type == "meta" else str(other)
        state = parts.model.state_dict()
        facts: dict[str, object] = {"device": str(parts.device), "other": str(other), "tensors": len(state)}
        differing = _round_trip(parts, state, other)
        if differing:
            said = f"{len(differing)} of {len(state)} tensors changed on the way to {where} and back"
            place = class_place(type(parts.model))
            facts |= {"differing": differing}
            return self.fails(f"{said}: {', '.join(differing[:3])}", facts, (CUSTOM,), place)
        stray, error = _forward(parts, subject, other)
        if stray is not None:
            facts |= {"layer": stray.layer, "attribute": stray.attribute}
            facts |= {"operation": stray.operation, "left_on": stray.device}
            what = f"{stray.attribute} stays" if stray.attribute else "the forward creates a tensor"
            said = f"{what} on {stray.device} when the model moves to {where}: {stray.operation} in"
            causes = (ATTRIBUTE, CREATED, HARD_CODED) if stray.attribute else (CREATED, HARD_CODED, ATTRIBUTE)
            return self.fails(f"{said} {stray.layer or 'the model'} cannot use it there", facts, causes, stray.place)
        loaded = f"{len(state)} tensors saved on {parts.device} load on {where}, and back, bit-identical"
        if error and other.type != "meta":
            causes = (HARD_CODED, ATTRIBUTE, CREATED)
            return self.fails(f"the forward fails on {other}: {error}", {**facts, "error": error}, causes)
        if error:
            return self.unproved(f"{loaded}; but the forward cannot run there ({error}): test it with a GPU", facts)
        return self.holds(f"{loaded}; the forward uses only tensors on that device", facts)


def _other_device(device: torch.device) -> torch.device:
    if device.type != "cpu":
        return torch.device("cpu")
    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("mps" if torch.backends.mps.is_available() else "meta")


# -- the weights --


def _round_trip(parts: Parts, state: Mapping[str, Any], other: torch.device) -> list[str]:
    """Names of tensors that are lost or changed. meta keeps only shapes: the way back is a load of the saved state."""
    there = _build(parts).to(other)
    there.load_state_dict(save_and_load(state, other))
    tensors = {name: value for name, value in there.state_dict().items() if isinstance(value, Tensor)}
    wrong = [name for name, value in tensors.items() if value.device.type != other.type]
    if other.type == "meta":
        there.load_state_dict(save_and_load(state, parts.device), assign=True)
        back = there.state_dict()
    else:
        fresh = _build(parts).to(parts.device)
        fresh.load_state_dict(save_and_load(there.state_dict(), parts.device))
        back = fresh.state_dict()
    return [*wrong, *differing_names(state, back)]


def _build(parts: Parts) -> nn.Module:
    with fence(parts.recipe.seed):
        return build_model(parts.recipe, parts.splits.facts)


# -- the forward --


@dataclass(frozen=True, slots=True)
class _Stray:
    """A tensor that a forward uses and that is not on the model's device."""

    layer: str
    attribute: str  # `layer.attribute` that holds it; empty: created in the forward
    operation: str
    device: str
    place: Place | None


def _forward(parts: Parts, subject: RecipeSubject, other: torch.device) -> tuple[_Stray | None, str]:
    """The first stray tensor; or the error of the forward."""
    model = _build(parts).to(other)
    inputs = moved(subject.batch(parts).inputs, other)
    watch = _DeviceWatch(model, other.type)
    hooks = (hook for name, module in model.named_modules() for hook in watch.follow(name, module))
    try:
        with remove_after(hooks), evaluating(model), watch:
            call_model(model, inputs)
    except _Found:
        return watch.stray, ""
    except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
        # A forward that reads values cannot run on meta.
        return None, f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return None, ""


class _Found(Exception):
    """Ends the forward."""


@final
class _DeviceWatch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Ends a forward at the first operation with an input on a different device."""

    def __init__(self, model: nn.Module, device: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.model, self.device = model, device
        self.stray: _Stray | None = None
        self._running: list[str] = []

    def follow(self, name: str, module: nn.Module) -> Iterator[Any]:
        def leave(*_: Any) -> None:
            self._running.pop()

        yield module.register_forward_pre_hook(lambda *_: self._running.append(name))
        yield module.register_forward_hook(leave)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        named = kwargs or {}
        name = str(func.name()).partition(".")[0]
        used = list(tensors_in((args, named)))
        strays = [tensor for tensor in used if tensor.device.type != self.device and tensor.dim() > 0]
        if strays and len(strays) < len(used) and name not in MIXED_DEVICE_OPERATIONS:
            attribute = _attribute(self.model, strays[0])
            place = (layer_place(self.model, attribute) if attribute else None) or here(2)
            layer = self._running[-1] if self._running else ""
            self.stray = _Stray(layer, attribute, name.partition("::")[2], strays[0].device.type, place)
            raise _Found
        return func(*args, **named)


def _attribute(model: nn.Module, tensor: Tensor) -> str:
    """`layer.attribute` of the module that holds it; empty: none does."""
    memory = tensor.untyped_storage().data_ptr()
    for name, module in model.named_modules():
        for attribute, value in vars(module).items():
            tensors = () if attribute in MEMBERS else (each for each in tensors_in(value) if not each.is_meta)
            if any(each.untyped_storage().data_ptr() == memory for each in tensors):
                return f"{name}.{attribute}" if name else attribute
    return ""
