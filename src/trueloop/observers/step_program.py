"""Records the step program: what sampled steps and evaluation calls computed, as plain data."""

import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import torch
from torch import Tensor, nn

from trueloop.event import ModelUse, Operation, Option, StepProgram, Value
from trueloop.measure.parameters import Fingerprint, fingerprint, is_initial
from trueloop.measure.tensors import is_plain, is_readable, mean_of, memory_of, tensors_in
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BackwardCall, BatchDrawn, ModuleCall, OperationCall, ProgramStart, StateLoad

__all__ = ["StepProgramObserver"]

MOST_OPERATIONS: Final = 4000  # of one program
MOST_ELEMENTS: Final = 2**20  # of a value whose numbers are read
_SHORT: Final = 60  # characters of an argument
_UNREAD: Final = ("item", "__bool__", "__float__", "__int__", "__len__", "size", "dim", "numel", "backward", "stride")
_UNREAD_EITHER: Final = (
    "__set__",
    "requires_grad_",
    "is_floating_point",
    "type",
    "element_size",
    "data_ptr",
    "__hash__",
)


@dataclass(slots=True)
class _Program:
    values: list[Value]
    operations: list[Operation]
    models: list[ModelUse]
    losses: list[int]
    known: dict[int, tuple[weakref.ref[Tensor], int]]
    from_data: list[bool]  # of each value
    memories: dict[int, int]
    complete: bool = True


class StepProgramObserver(Observer):
    emits = (StepProgram,)
    rarely = ("module_call_started", "module_call_ended", "backward_started")

    def prepare(self) -> None:
        self._program: _Program | None = None
        self._batch: set[int] = set()
        """Addresses of the storages of the latest batch."""
        self._buffers: dict[int, str] = {}
        self._inputs: tuple[int, ...] | None = None  # of the call under way; None: it began before the program
        self._loaded: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        self._initial: dict[int, tuple[weakref.ref[Tensor], Fingerprint]] = {}  # of parameters that no optimizer holds
        self._elsewhere: set[int] = set()
        self._held: set[int] = set()
        self._modules = False
        self._behind: dict[int, bool] = {}  # by model: its first call had inputs with a graph

    # -- where tensors come from --

    def batch_drawn(self, drawn: BatchDrawn) -> None:
        self._batch = {memory_of(t) for t in tensors_in(drawn.batch, 64)} if drawn.stacked else set()
        if self._program is not None and drawn.stacked:
            for tensor in tensors_in(drawn.batch, 64):  # stacked in this process, which was seen as operations
                self._add(self._program, tensor, "batch", True)

    def state_loading(self, load: StateLoad) -> None:
        self._loaded.add(load.module)

    def program_started(self, start: ProgramStart) -> None:
        self._elsewhere = {id(p) for module in self._loaded for p in module.parameters()}
        self._held = self.objects.held_ids().union(*(known.ids for known in self.objects.optimizers.values()))
        self._program = _Program([], [], [], [], {}, [], {})
        self._inputs = None
        models = [model for _, model in self.objects.living_models()]
        self._modules = bool(models)
        self._buffers = {id(b): name for model in models for name, b in model.named_buffers()}

    # -- what ran --

    def operation_ended(self, call: OperationCall) -> None:
        program = self._program
        if program is None or call.name in _UNREAD_EITHER:
            return
        if len(program.operations) >= MOST_OPERATIONS:
            program.complete = False
            return
        inputs = tuple(self._value(program, t) for t in _tensors((call.args, call.kwargs)))
        data = any(program.from_data[index] for index in inputs)
        made = () if call.name in _UNREAD else tuple(tensors_in(call.output, 64))
        options = tuple(_options(call.args, call.kwargs))
        number = float(call.output) if isinstance(call.output, (float, int)) and made == () and inputs else None
        if not inputs and not made:
            return
        outputs = tuple(self._add(program, tensor, "operation", data) for tensor in made)
        model = -1 if self.bus.call is None else self.bus.ordinal("model", self.bus.call.module)
        program.operations.append(
            Operation(call.name, inputs, outputs, options, call.place, model, self.bus.grad, number, call.direct)
        )

    def module_call_started(self, call: ModuleCall) -> None:
        known = self.objects.model(call.module)
        if known is not None and known.number not in self._behind:
            given = (*tensors_in(call.args, 64), *tensors_in(call.kwargs, 64))
            seen = known.first_step == self.bus.step
            self._behind[known.number] = seen and call.grad and any(t.grad_fn is not None for t in given)
        if self._program is not None:
            self._inputs = self._input_values(self._program, call)

    def module_call_ended(self, call: ModuleCall) -> None:
        known = self.objects.model(call.module)
        if self._program is None or call.failed or known is None:
            return
        outputs = tuple(self._value(self._program, tensor) for tensor in tensors_in(call.output, 64))
        number, name = known.number, known.name
        inputs = self._input_values(self._program, call) if self._inputs is None else self._inputs
        self._program.models.append(ModelUse(number, name, inputs, outputs, call.place, call.training, call.grad,
                                       self._behind.get(number, False)))  # fmt: skip

    def _input_values(self, program: _Program, call: ModuleCall) -> tuple[int, ...]:
        return tuple(self._value(program, t) for t in (*tensors_in(call.args, 64), *tensors_in(call.kwargs, 64)))

    def backward_started(self, call: BackwardCall) -> None:
        if self._program is not None:
            self._program.losses += [self._value(self._program, t) for t in call.tensors if isinstance(t, Tensor)]

    def program_ended(self, start: ProgramStart) -> None:
        program, self._program = self._program, None
        if program is not None and program.operations:
            place = program.models[0].place if program.models else None
            self.emit(
                StepProgram,
                place,
                start.phase,
                tuple(program.values),
                tuple(program.operations),
                tuple(program.models),
                tuple(program.losses),
                program.complete,
            )

    # -- values --

    def _value(self, program: _Program, tensor: Tensor) -> int:
        """The number of a tensor; a new one for a tensor from before the program."""
        entry = program.known.get(id(tensor))
        if entry is not None and entry[0]() is tensor:
            return entry[1]
        if isinstance(tensor, nn.Parameter) or self._is_weight(tensor):
            number = self._add(program, tensor, "parameter", False, self.objects.name_of(tensor))
            trainer = self._trainer(tensor)
            initial = trainer == "nobody" and is_initial(tensor)
            program.values[number] = replace(program.values[number], trainer=trainer, initial=initial)
            return number
        if id(tensor) in self._buffers:
            return self._add(program, tensor, "buffer", False, self._buffers[id(tensor)])
        if memory_of(tensor) in self._batch:
            return self._add(program, tensor, "batch", True)
        return self._add(program, tensor, "outside", True)

    def _is_weight(self, tensor: Tensor) -> bool:
        """A tensor that an optimizer trains in a script without modules: `w = torch.randn(8, 4, requires_grad=True)`.
        Beside modules it may be anything: a picture that is optimized."""
        return not self._modules and tensor.is_leaf and tensor.requires_grad and id(tensor) in self._held

    def _trainer(self, parameter: Tensor) -> Literal["optimizer", "elsewhere", "nobody"]:
        if id(parameter) in self._held:
            return "optimizer"
        if id(parameter) in self._elsewhere or not is_plain(parameter) or not is_readable(parameter):
            return "elsewhere"
        now, known = fingerprint(parameter), self._initial.get(id(parameter))
        if known is None or known[0]() is not parameter:
            self._initial[id(parameter)] = (weakref.ref(parameter), now)
            return "elsewhere"  # not known before the next program: it may be made anew for each step
        return "nobody" if known[1] == now else "elsewhere"

    def _add(self, program: _Program, tensor: Tensor, origin: Any, data: bool, name: str = "") -> int:
        number = len(program.values)
        memory = program.memories.setdefault(memory_of(tensor), len(program.memories))
        value = Value(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), origin, name,
                      tensor.requires_grad, memory)  # fmt: skip
        program.values.append(_measured(value, tensor))
        program.from_data.append(data)
        program.known[id(tensor)] = (weakref.ref(tensor), number)
        return number


def _tensors(value: Any) -> Iterator[Tensor]:
    return tensors_in(value, 64)


@torch.no_grad()
def _measured(value: Value, tensor: Tensor) -> Value:
    if not is_plain(tensor) or not is_readable(tensor) or tensor.numel() > MOST_ELEMENTS or not tensor.is_cpu:
        return value
    plain = tensor.detach()
    if plain.dtype is torch.bool:
        share = plain.float().mean().item()
        return replace(value, smallest=float(share == 1), largest=float(share > 0), mean=share)
    low, high = torch.aminmax(plain)
    mean = mean_of(plain)
    return replace(value, smallest=float(low), largest=float(high), mean=mean, constant=bool(low == high))


# -- arguments that are no tensors --


def _options(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[Option]:
    for position, value in enumerate(args):
        if not isinstance(value, Tensor) and (text := _text(value)) is not None:
            yield str(position), text
    for name, value in kwargs.items():
        if not isinstance(value, Tensor) and (text := _text(value)) is not None:
            yield name, text


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, (bool, int, float, str, slice, torch.dtype)) or value is Ellipsis:
        return repr(value)[:_SHORT] if not isinstance(value, str) else value[:_SHORT]
    if isinstance(value, (tuple, list)) and len(value) <= 8:
        return "(" + ", ".join(_text(item) or "tensor" for item in value) + ")"
    return None
