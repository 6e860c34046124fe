"""save-and-load-on-other-device: weights saved on this device load on another, and the model works there.

A tensor that a layer keeps as a plain attribute does not follow `.to(device)`: on the next machine the forward fails,
or mixes devices. Where there is no other device, `meta` stands for one: it has shapes and no numbers, and whatever is
left behind shows there just the same.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, final

import torch
from torch import Tensor, nn

from trueloop.claims.claim import Claim
from trueloop.claims.digest import differing
from trueloop.claims.subject import RecipeSubject
from trueloop.data.source import moved, tensors_in
from trueloop.engine.evaluate import evaluating
from trueloop.engine.parts import Parts
from trueloop.event import Place
from trueloop.measure.randomness import fence
from trueloop.recipe.model import build_model
from trueloop.results.proof import Cause, Proof
from trueloop.taps.place import here
from trueloop.torch_private.dispatch import TorchDispatchMode
from trueloop.torch_private.modules import MEMBERS
from trueloop.usercode.ownership import birthplace, class_place

__all__ = ["SaveAndLoadOnOtherDevice"]

MAY_MIX: Final = (
    "aten::_to_copy",
    "aten::copy_",
    "aten::index",
    "aten::index_put",
    "aten::index_put_",
    "aten::_index_put_impl_",
)
"""Operations that take tensors of two devices: those that copy, and those that are indexed from the host."""

LOOSE: Final = Cause(
    "a tensor is a plain attribute, and is left behind by .to(device)", 'self.register_buffer("name", ...)'
)
MADE: Final = Cause("the forward makes a tensor on the host", "say where: torch.arange(n, device=x.device)")
NAMED: Final = Cause(
    "a device is written out in the code: .cuda(), device='cpu'", "use the device of the inputs: x.device"
)
HELD: Final = Cause(
    "the state_dict is written by hand and holds tensors of one device only", "look at state_dict and load_state_dict"
)


@final
class SaveAndLoadOnOtherDevice(Claim):
    name = "save-and-load-on-other-device"
    healthy = "every weight has the same bits after the way there and back, and all that the forward uses is on the model's device"
    causes: ClassVar[tuple[Cause, ...]] = (LOOSE, MADE, NAMED, HELD)

    def of_recipe(self, subject: RecipeSubject) -> Proof:
        parts = subject.parts(compile="off")
        other = _other_than(parts.device)
        where = f"{other}, which stands for a GPU that is not here" if other.type == "meta" else str(other)
        state = parts.model.state_dict()
        facts: dict[str, object] = {"device": str(parts.device), "other": str(other), "tensors": len(state)}
        unlike = _there_and_back(parts, state, other)
        if unlike:
            said = f"{len(unlike)} of {len(state)} tensors are not what was saved after the way to {where} and back: {', '.join(unlike[:3])}"
            return self.fails(said, {**facts, "unlike": unlike}, (HELD,), class_place(type(parts.model)))
        stray = _used(parts, subject, other)
        if isinstance(stray, _Stray):
            facts |= {
                "layer": stray.layer,
                "attribute": stray.attribute,
                "operation": stray.operation,
                "left_on": stray.device,
            }
            what = (
                f"{stray.attribute} is left on {stray.device}"
                if stray.attribute
                else f"a tensor is made on {stray.device}"
            )
            said = f"{what} when the model is brought to {where}: {stray.operation} in {stray.layer or 'the model'} cannot use it there"
            return self.fails(
                said, facts, (LOOSE, MADE, NAMED) if stray.attribute else (MADE, NAMED, LOOSE), stray.place
            )
        loaded = f"{len(state)} tensors saved on {parts.device} load on {where}, and back, with the same bits"
        if stray and other.type != "meta":
            return self.fails(f"the forward fails on {other}: {stray}", {**facts, "error": stray}, (NAMED, LOOSE, MADE))
        if stray:
            return self.unproved(
                f"{loaded}; but the forward could not be tried there ({stray}): try it where there is a GPU", facts
            )
        return self.holds(f"{loaded}; all that the forward uses is there", facts)


def _other_than(device: torch.device) -> torch.device:
    if device.type != "cpu":
        return torch.device("cpu")
    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("mps" if torch.backends.mps.is_available() else "meta")


# -- the weights --


def _there_and_back(parts: Parts, state: Mapping[str, Any], other: torch.device) -> list[str]:
    """Names of tensors that are lost or changed. To meta only shapes can go, so that the way back is a load of what was
    saved."""
    there = _fresh(parts).to(other)
    there.load_state_dict(_through_a_file(state, other))
    wrong = [
        name
        for name, value in there.state_dict().items()
        if isinstance(value, Tensor) and value.device.type != other.type
    ]
    if other.type == "meta":
        there.load_state_dict(_through_a_file(state, parts.device), assign=True)
        back = there.state_dict()
    else:
        fresh = _fresh(parts).to(parts.device)
        fresh.load_state_dict(_through_a_file(there.state_dict(), parts.device))
        back = fresh.state_dict()
    return [*wrong, *differing(state, back)]


def _fresh(parts: Parts) -> nn.Module:
    with fence(parts.recipe.seed):
        return build_model(parts.recipe, parts.splits.facts)


def _through_a_file(state: Mapping[str, Any], device: torch.device) -> dict[str, Any]:
    file = io.BytesIO()
    torch.save(dict(state), file)
    file.seek(0)
    read: dict[str, Any] = torch.load(file, map_location=device, weights_only=True)
    return read


# -- the forward --


@dataclass(frozen=True, slots=True)
class _Stray:
    """A tensor that a forward uses and that is not where the model is."""

    layer: str
    attribute: str
    """`layer.attribute` that holds it; empty: it was made on the way."""
    operation: str
    device: str
    place: Place | None


def _used(parts: Parts, subject: RecipeSubject, other: torch.device) -> _Stray | str:
    """The first stray; a text: why the forward could not be tried; empty: it went through, and everything was there."""
    model = _fresh(parts).to(other)
    inputs = moved(subject.batch(parts).inputs, other)
    watch = _Mixing(model, other.type)
    hooks = [hook for name, module in model.named_modules() for hook in watch.follow(name, module)]
    try:
        with evaluating(model), watch:
            model(inputs)
    except _Found:
        return watch.stray or ""
    except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
        # What looks at values cannot be tried on a device that has none.
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    finally:
        for hook in hooks:
            hook.remove()
    return ""


class _Found(Exception):
    """Enough was seen."""


@final
class _Mixing(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Told of every operation of a forward; ends it at the first that is given a tensor of another device."""

    def __init__(self, model: nn.Module, device: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.model, self.device = model, device
        self.stray: _Stray | None = None
        self._running: list[str] = []

    def follow(self, name: str, module: nn.Module) -> Iterator[Any]:
        yield module.register_forward_pre_hook(lambda *_: self._running.append(name))
        yield module.register_forward_hook(lambda *_: self._left())

    def _left(self) -> None:
        self._running.pop()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        name = str(func.name()).partition(".")[0]
        used = list(tensors_in((args, given)))
        strays = [tensor for tensor in used if tensor.device.type != self.device and tensor.dim() > 0]
        if strays and len(strays) < len(used) and name not in MAY_MIX:
            operation = name.partition("::")[2]
            layer = self._running[-1] if self._running else ""
            attribute = _attribute(self.model, strays[0])
            line = birthplace(self.model, attribute) if attribute else None
            self.stray = _Stray(layer, attribute, operation, strays[0].device.type, line or here(2))
            raise _Found
        return func(*args, **given)


def _attribute(model: nn.Module, tensor: Tensor) -> str:
    """`layer.attribute` of the module that keeps it; empty: none does."""
    memory = tensor.untyped_storage().data_ptr()
    for name, module in model.named_modules():
        for attribute, value in vars(module).items():
            if attribute not in MEMBERS and any(map(_lies_in(memory), tensors_in(value))):
                return f"{name}.{attribute}" if name else attribute
    return ""


def _lies_in(memory: int) -> Callable[[Tensor], bool]:
    return lambda tensor: not tensor.is_meta and tensor.untyped_storage().data_ptr() == memory
