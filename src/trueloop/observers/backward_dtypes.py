"""The dtypes of each backward, what multiplied its loss, and whether an autocast region is still open.

The graph is walked on the first calls at each place, then on calls whose number is a power of two: 1 to 2 us per node.
"""

import weakref
from dataclasses import replace
from typing import Any, Final, Literal
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.amp import GradScaler

from trueloop.event import BackwardDtypes, Place
from trueloop.measure.parameters import parameters_of
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BackwardCall, BuiltScaler
from trueloop.taps.dtypes import DtypeSurvey, dtypes_in, manual_loss_scale
from trueloop.taps.graph_notes import SCALER_OFF, read_note

__all__ = ["BackwardDtypesObserver"]

FACTOR: Final = 8.0  # a larger constant factor is a manual loss scale: those in use are 128 and more
ENTRIES: Final = 1 << 20  # entries of one gradient that are checked for underflow
DEVICES: Final = ("cpu", "cuda", "mps", "xpu")  # device types that autocast knows


class BackwardDtypesObserver(Observer):
    emits = (BackwardDtypes,)

    def prepare(self) -> None:
        self._calls: dict[Place | None, list[int]] = {}  # backwards at each place, in a list of one: read every step
        self._built: WeakKeyDictionary[GradScaler, Place | None] = WeakKeyDictionary()
        self._pending: tuple[BackwardDtypes, frozenset[int]] | None = None
        """The event to emit when the backward has ended, and the gradients to measure first."""
        self._measured: set[Place | None] = set()

    def scaler_built(self, built: BuiltScaler) -> None:
        self._built[built.scaler] = built.place

    def backward_started(self, call: BackwardCall) -> None:
        self._pending = None
        count = self._calls.get(call.place) or self._calls.setdefault(call.place, [0])
        number, count[0] = count[0], count[0] + 1
        if number & (number - 1):
            return
        roots = [tensor.grad_fn for tensor in call.tensors if isinstance(tensor, Tensor) and tensor.grad_fn is not None]
        if roots:
            self._pending = self._look(call, roots)

    def backward_ended(self, call: BackwardCall) -> None:
        if self._pending is None:
            return
        event, leaves = self._pending
        self._pending = None
        unscaled = event.scaling == "none" and "float16" in event.dtypes
        if unscaled and event.place not in self._measured and (shares := self._underflow(leaves)) is not None:
            self._measured.add(event.place)
            event = replace(event, zeros=shares[0], subnormals=shares[1])
        self.bus.emit(event)

    # -- the graph --

    def _look(self, call: BackwardCall, roots: list[Any]) -> tuple[BackwardDtypes, frozenset[int]]:
        met = dtypes_in(roots)
        held = self.objects.held_ids()
        trained = {leaf: kind for leaf, kind in met.leaves.items() if leaf in held}
        off = next((ref for root in roots if (ref := read_note(root, SCALER_OFF)) is not None), None)
        scaler = _living(met.scaler or off)
        device = call.tensors[0].device.type
        event = BackwardDtypes(
            step=self.bus.step,
            place=call.place,
            device=device,
            dtypes=_names(met.formats),
            complete=met.whole,
            weights=_names(trained.values()),
            scaling=_scaling(call, met, roots),
            scaler=None if met.scaler is None or scaler is None else self.bus.ordinal("scaler", scaler),
            scaler_place=None if scaler is None else self._built.get(scaler),
            scaler_off=met.scaler is None and off is not None,
            autocast=_autocast(device),
        )
        return event, frozenset(trained)

    # -- the gradients --

    def _underflow(self, leaves: frozenset[int]) -> tuple[float, float] | None:
        """Shares of entries that are zero, and that are subnormal in float16."""
        held = (p for _, optimizer in self.objects.living_optimizers() for p in parameters_of(optimizer))
        found = {id(p): p.grad for p in held if id(p) in leaves}
        dense = [g for g in found.values() if type(g) is Tensor and g.layout is torch.strided and g.is_floating_point()]
        if not dense:
            return None
        smallest = torch.finfo(torch.float16).smallest_normal
        entries = zeros = small = 0
        with torch.no_grad():
            for gradient in dense:
                part = gradient.flatten()[:ENTRIES].abs()
                empty = int((part == 0).sum())
                entries, zeros = entries + part.numel(), zeros + empty
                small += int((part < smallest).sum()) - empty
        return (zeros / entries, small / entries) if entries else None


def _scaling(call: BackwardCall, met: DtypeSurvey, roots: list[Any]) -> Literal["scaler", "manual", "none"]:
    if met.scaler is not None:
        return "scaler"
    given = call.gradients not in (None, (None,))
    return "manual" if given or any(manual_loss_scale(root) >= FACTOR for root in roots) else "none"


def _autocast(device: str) -> str:
    """The dtype of the open autocast region of this device type."""
    return _name(torch.get_autocast_dtype(device)) if device in DEVICES and torch.is_autocast_enabled(device) else ""


def _living(reference: weakref.ref[GradScaler] | None) -> GradScaler | None:
    return None if reference is None else reference()


def _name(kind: torch.dtype) -> str:
    return str(kind).removeprefix("torch.")


def _names(kinds: Any) -> tuple[str, ...]:
    return tuple(sorted({_name(kind) for kind in kinds}))
