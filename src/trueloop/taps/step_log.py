"""The curve of a watched run: loss, learning rates and gradient norm of each step, and the values of evaluations.

The taps call it at every step, also while the bus sleeps, so it does little: a loss on the CPU is read at once, one on
a device is copied there, and a batch of copies is read about once a second, without making the host wait.

A row covers the backward calls since the last row and the optimizer steps after them. It is complete at the next
backward.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic
from types import CodeType
from typing import Any, Final, Literal, final

import torch
from torch import Tensor
from torch.optim import Optimizer

from trueloop.event import Event, GradientsMeasured, Place, PlateauStepped
from trueloop.hook import Row
from trueloop.measure.tensors import is_plain, is_readable
from trueloop.taps.bus import Bus
from trueloop.taps.deferred_rows import DeferredRows, Number, Part, Unread
from trueloop.taps.graph import reduction_of, scaler_of
from trueloop.taps.names import names_of
from trueloop.taps.place import here
from trueloop.torch_private.dispatch import dispatch_modes, is_transformed, tracing_state
from trueloop.usercode.printed import split_of, validation_metrics
from trueloop.usercode.source import source_of

__all__ = ["StepLog"]

PAUSE: Final = 1.0  # seconds between two writes
MOST_ROWS: Final = 512  # rows that wait for a write
MOST_RATES: Final = 4  # learning rates of one optimizer in a row
MOST_NAMES: Final = 24  # names of printed values in a run
_Site = tuple[CodeType, int]  # A line that calls backward
_TENSOR_BACKWARD: Final = Tensor.backward.__code__
_item: Final = Tensor.item  # as it is before a tap wraps it
_NAME: Final = re.compile(r"[\w.\[\]'\"]{1,24}")  # An expression that is short enough for the name of a loss


@final
class StepLog:
    def __init__(self, bus: Bus, write: Callable[[list[Row]], None]) -> None:
        self.bus = bus
        self._rows = DeferredRows(write)
        self._began = self._now = self._written = monotonic()
        self._written -= PAUSE  # the first row is written at once
        self._losses: dict[_Site, list[Number]] = {}
        self._steps: dict[int, list[tuple[str, Number]]] = {}  # optimizer -> its learning rates, by name
        self._norm: Number | None = None
        self._own: dict[str, list[Number]] = {}
        self._valid: dict[str, Part] = {}
        self._valid_step, self._valid_epoch = 0, 0.0
        self._how: dict[_Site, Literal["mean", "sum", "first"]] = {}  # Of a line that calls backward again in a step
        self._places: dict[_Site, Place | None] = {}
        self._loss_names: dict[_Site, str] = {}
        self._labels: dict[int, str] = {}
        self._shared: dict[frozenset[int], bool] = {}
        self._printed_names: set[str] = set()
        self._drawn: dict[int, int] = {}  # loader -> batches so far
        self._lengths: dict[int, int] = {}  # loader -> batches of a pass
        self._epoch = 0.0
        self._loader = -1
        self._ones: dict[torch.device, Tensor] = {}
        self.complaint = ""  # A value of `trueloop.log` that is not a number

    # -- called by taps --

    def backward(self, tensors: Any, gradients: Any) -> None:
        """At each backward of the script, before it. `_getframe`: the caller of `Tensor.backward`, which calls us."""
        bus = self.bus
        frame = sys._getframe(2)
        if frame.f_code is _TENSOR_BACKWARD and frame.f_back is not None:
            frame = frame.f_back
        bus.busy = True  # no tap may see what is computed here
        try:
            self._add_loss((frame.f_code, frame.f_lineno), tensors, gradients)
        except Exception:  # noqa: BLE001 - watching never breaks the run
            self._fail()
        bus.busy = False

    def stepped(self, optimizer: Optimizer) -> None:
        """After each optimizer step."""
        bus = self.bus
        bus.busy = True
        try:
            self._add_step(optimizer)
        except Exception:  # noqa: BLE001 - as above
            self._fail()
        bus.busy = False

    def clipped(self, norm: Any) -> None:
        if isinstance(norm, Tensor):
            self._guarded(self._add_norm, norm)

    def pass_started(self, loader: Any, number: int) -> None:
        try:
            self._lengths[number] = len(loader)
        except TypeError:  # an iterable dataset
            self._lengths.pop(number, None)

    def batch_drawn(self, number: int) -> None:
        self._drawn[number] = self._drawn.get(number, 0) + 1
        self._loader = number

    def evaluated(self, losses: Sequence[Number], samples: Sequence[int], words: Sequence[str]) -> None:
        """The mean losses of an evaluation's batches. `words`: what the script calls its data."""
        split = split_of(words)
        self._guarded(self._add_valid, f"{split}_loss" if split in ("train", "test") else "loss", losses, samples)

    def printed(self, line: str) -> None:
        if self.bus.is_foreign():
            return
        for name, value in validation_metrics(line).items():
            if name in self._printed_names or len(self._printed_names) < MOST_NAMES:
                self._printed_names.add(name)
                self._guarded(self._add_valid, name, [value])

    def log(self, values: Mapping[str, Any]) -> None:
        """`trueloop.log(name=value)`."""
        if not self.bus.is_foreign():
            self._guarded(self._add_own, values)

    def hear(self, event: Event) -> None:
        """Values that observers have read anyway."""
        if isinstance(event, GradientsMeasured) and self._norm is None:
            self._norm = event.total
        elif isinstance(event, PlateauStepped) and not self._valid:
            self._guarded(self._add_valid, _plateau_name(event), [event.value])

    def finish(self) -> None:
        """Write everything; waits for the device."""
        self._guarded(self._end)

    def _end(self) -> None:
        self._close()
        self._close_valid()
        self._rows.flush(wait=True)

    def _guarded(self, act: Callable[..., None], *arguments: Any) -> None:
        busy, self.bus.busy = self.bus.busy, True
        try:
            act(*arguments)
        except Exception:  # noqa: BLE001 - as above
            self._fail()
        finally:
            self.bus.busy = busy

    def _fail(self) -> None:
        """What torch traces or transforms cannot be read: that is no failure."""
        if is_transformed() is None and tracing_state() is None and not dispatch_modes():
            self.bus.fail("the curve of the run could not be read any further")
            self.bus.step_log = None

    # -- numbers --

    def _number(self, tensor: Tensor) -> Number | None:
        """Read on the CPU; on a device a copy that is read later. None: not one readable number."""
        if not is_plain(tensor) or tensor.numel() != 1 or not is_readable(tensor):
            return None
        if tensor.is_cpu:
            return float(_item(tensor))
        # A copy: the script may write into it, and a replayed graph does.
        return tensor.detach().reshape(()).to(torch.float32, copy=True)

    def _loss(self, loss: Tensor) -> Number | None:
        """Without a GradScaler's factor."""
        value = self._number(loss) if loss.is_floating_point() else None
        scaler = scaler_of(loss) if value is not None and self.bus.scaler_used else None
        if scaler is None or value is None:
            return value
        if isinstance(value, float):
            return value / float(scaler.get_scale())
        one = self._ones.get(value.device)
        if one is None:
            one = self._ones[value.device] = torch.ones((), device=value.device)
        return value / scaler.scale(one)  # type: ignore[no-any-return]

    # -- one row --

    def _add_loss(self, site: _Site, tensors: Any, gradients: Any) -> None:
        if self._steps:
            self._close()
        loss = tensors[0] if isinstance(tensors, (tuple, list)) and len(tensors) == 1 else tensors
        if not isinstance(loss, Tensor) or (value := self._loss(loss)) is None:
            return
        known = self._losses.get(site)
        if known is None:
            self._losses[site] = [value]
        else:
            known.append(value)
        if site not in self._places:
            self._places[site] = here(4)
        if known is not None and site not in self._how:
            divided = (gradients is not None and gradients != (None,)) or reduction_of(loss).divided
            self._how[site] = "first" if self.bus.in_step else "sum" if divided else "mean"
        number = self._loader
        if number in self._lengths:
            self._epoch = self._drawn[number] / (self._lengths[number] or 1)

    def _add_step(self, optimizer: Optimizer) -> None:
        self._now = monotonic()
        number = self.bus.ordinal("optimizer", optimizer)
        label = self._labels.get(number)
        if label is None:
            label = self._labels[number] = self._label(optimizer, number)
        groups = optimizer.param_groups
        rate = groups[0].get("lr") if groups else None
        if len(groups) == 1 and type(rate) is float:
            self._steps[number] = [(label, rate)]
        else:
            self._steps[number] = list(self._rates(groups, label))

    def _rates(self, groups: Sequence[Mapping[str, Any]], label: str) -> Iterator[tuple[str, Number]]:
        """Those that differ from the first group's."""
        known: list[Number] = []
        for index, group in enumerate(groups):
            rate = group.get("lr")
            rate = self._number(rate) if isinstance(rate, Tensor) else rate
            if rate is not None and (not known or rate != known[0]) and len(known) < MOST_RATES:
                known.append(rate)
                yield (f"{label}/{group.get('name', index)}" if index else label), rate

    def _label(self, optimizer: Optimizer, number: int) -> str:
        """The name of its learning rate; of one among several with what the script calls it."""
        if self.bus.living("optimizer") < 2:
            return "lr"
        return "lr/" + ("_".join(names_of((optimizer,), 4)[:3]) or f"{type(optimizer).__name__}{number}")

    def _add_norm(self, norm: Tensor) -> None:
        value = self._number(norm)
        self._norm = self._norm if value is None else value

    def _add_own(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            number = self._number(value) if isinstance(value, Tensor) else _float(value)
            if number is None:
                self.complaint = self.complaint or f"trueloop.log({name}=...) got a {type(value).__name__}"
                continue
            split, _, rest = name.partition("_")
            if rest and split_of([split]) in ("valid", "test"):
                self._add_valid(name if split_of([split]) == "test" else rest, [number])
            else:
                self._own.setdefault(name, []).append(number)

    def _add_valid(self, name: str, values: Sequence[Number], weights: Sequence[int] | None = None) -> None:
        if self._steps:
            self._close()
        if self._valid and self._valid_step != self.bus.step:
            self._close_valid()
        self._valid_step, self._valid_epoch = self.bus.step, self._epoch
        self._valid[name] = Part(name, list(values), weights=None if weights is None else list(weights))

    def _close_valid(self) -> None:
        if self._valid:
            parts, self._valid = list(self._valid.values()), {}
            at = (self._valid_step, self._valid_epoch, self._seconds(monotonic()))
            self._rows.add(Unread("valid", *at, parts))

    def _close(self) -> None:
        """The row that the steps since the last one make."""
        if self._valid and self._valid_step < self.bus.step:
            self._close_valid()
        if not self._steps and not self._own:
            self._losses = {}
            return
        self._rows.add(self._plain_row() or self._unread_row())
        self._losses, self._steps, self._norm = {}, {}, None
        if self._now - self._written >= PAUSE or len(self._rows) >= MOST_ROWS:
            self._written = self._now
            self._rows.flush()

    def _plain_row(self) -> Row | None:
        """Of most runs: one loss, one optimizer, all on the CPU. None: something else."""
        if len(self._losses) != 1 or len(self._steps) != 1 or self._own:
            return None
        (losses,), (rates,) = self._losses.values(), self._steps.values()
        if len(losses) != 1 or not self._is_shared(frozenset(self._steps)):
            return None
        values: dict[str, Any] = {"loss": losses[0]}
        values.update(rates)
        if self._norm is not None:
            values["gradient_norm"] = self._norm
        if any(type(value) is not float for value in values.values()):
            return None
        values["seconds"] = self._seconds(self._now)
        return Row("train", self.bus.step, self._epoch, values)

    def _unread_row(self) -> Unread:
        parts: list[Part] = [*self._loss_parts()]
        parts += [Part(name, [rate]) for rates in self._steps.values() for name, rate in rates]
        if self._norm is not None:
            parts.append(Part("gradient_norm", [self._norm]))
        parts += [Part(name, values) for name, values in self._own.items()]
        self._own = {}
        return Unread("train", self.bus.step, self._epoch, self._seconds(self._now), parts)

    def _seconds(self, moment: float) -> float:
        seconds = moment - self._began
        return round(seconds, 2 if seconds < 10 else 1)

    # -- names of losses --

    def _loss_parts(self) -> list[Part]:
        """`loss`; where optimizers have losses of their own, each by the expression whose backward was called."""
        shared = self._is_shared(frozenset(self._steps))
        if shared and len(self._losses) == 1:
            (site, values), *_ = self._losses.items()
            return [Part("loss", values, self._how.get(site, "mean"))]
        named = [
            Part(self._loss_name(site, distinct=not shared), values, self._how.get(site, "mean"))
            for site, values in self._losses.items()
        ]
        return [Part("loss", [], "total", members=named), *named] if shared and named else named

    def _is_shared(self, optimizers: frozenset[int]) -> bool:
        """Do all optimizers step on these losses? A GAN's do not."""
        if optimizers not in self._shared:
            self._shared[optimizers] = len(optimizers) >= self.bus.living("optimizer")
        return self._shared[optimizers]

    def _loss_name(self, site: _Site, *, distinct: bool) -> str:
        name = self._loss_names.get(site)
        if name is None:
            place = self._places.get(site)
            source = None if place is None else source_of(place.path)
            target = None if source is None or place is None else source.backward_target(place.line)
            text = "loss" if source is None or target is None else source.text(target)
            name = text if _NAME.fullmatch(text) and (distinct or text != "loss") else "loss"
            taken = name in self._loss_names.values() or (name == "loss" and not distinct)
            name = f"{name}:{place.line}" if taken and place is not None else name
            self._loss_names[site] = name
        return name


def _float(value: Any) -> float | None:
    return float(value) if hasattr(value, "__float__") and not isinstance(value, Tensor) else None


def _plateau_name(event: PlateauStepped) -> str:
    """`scheduler.step(val_loss)` -> loss."""
    source = None if event.place is None else source_of(event.place.path)
    statement = None if source is None or event.place is None else source.statement(event.place.line)
    text = "" if source is None or statement is None else source.text(statement)
    found = re.search(r"\.step\(\s*(?:metrics\s*=\s*)?([A-Za-z_]\w*)\s*[,)]", text)
    words = found.group(1).split("_") if found else ["plateau", "value"]
    kept = [word for word in words if split_of([word]) != "valid"]
    return "_".join(kept) or "value"
