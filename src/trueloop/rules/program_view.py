"""Questions to a step program: what made a value, what it depends on, and what roles values and dimensions have.

Roles come from evidence, never from a name or a position alone. A question that the program cannot answer has the
answer None, and a rule that gets None stays silent.
"""

from collections.abc import Iterator
from functools import cached_property
from math import prod
from typing import Final

from trueloop.event import Operation, Place, StepProgram, Value
from trueloop.event.operation_names import (
    ANY_ADDITION,
    ANY_QUOTIENT,
    ANY_SCALING,
    ELEMENTWISE,
    LOSSES,
    RANDOM,
    RECURRENT,
    VIEWS,
)

__all__ = ["ProgramView", "number_in"]

_ROWWISE: Final = frozenset({
    "linear", "embedding", "layer_norm", "relu", "relu_", "gelu", "tanh", "sigmoid", "silu", "leaky_relu", "elu",
    "softplus", "exp", "log", "sqrt", "abs", "neg", "clamp", "float", "double", "long", "int", "to", "contiguous",
    "clone", "dropout", "dropout_", "batch_norm", "softmax", "log_softmax", "square", "sin", "cos", "detach", "cpu",
    "cuda", "type_as", "conv1d", "conv2d", "conv3d", "max_pool2d", "max_pool1d", "avg_pool1d", "avg_pool2d",
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "group_norm", "instance_norm", "rms_norm", "hardtanh", "mish",
})  # fmt: skip
"""Operations whose result has the samples of their first input where that has them."""
_CONSTANTS: Final = ("zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full", "fill_", "zero_")
_DISTRIBUTED: Final = 64  # numbers: fewer are often within the bounds of uniform ones, whatever they are
_MOST: Final = 24  # operations to follow back


class ProgramView:
    """One recorded program, indexed."""

    def __init__(self, program: StepProgram) -> None:
        self.program = program
        self.values = program.values
        self.operations = program.operations

    # -- structure --

    @cached_property
    def _maker(self) -> dict[int, Operation]:
        return {output: operation for operation in self.operations for output in operation.outputs}

    @cached_property
    def readers(self) -> dict[int, list[Operation]]:
        """The operations that read each value."""
        found: dict[int, list[Operation]] = {}
        for operation in self.operations:
            for index in dict.fromkeys(operation.inputs):
                found.setdefault(index, []).append(operation)
        return found

    def maker(self, value: int) -> Operation | None:
        """The operation that made a value; None if it was there before."""
        return self._maker.get(value)

    def behind(self, value: int) -> Iterator[int]:
        """The value and everything that it was computed from, nearest first."""
        seen, waiting = {value}, [value]
        while waiting:
            index = waiting.pop(0)
            yield index
            maker = self.maker(index)
            for source in () if maker is None else maker.inputs:
                if source not in seen:
                    seen.add(source)
                    waiting.append(source)

    def contents(self, value: int) -> list[int]:
        """The value and what its numbers come from: `randn_like(x)` has only the shape of `x`."""
        found, waiting = [value], [value]
        while waiting:
            maker = self.maker(waiting.pop())
            if maker is None or maker.name.endswith("_like") or maker.name in RANDOM:
                continue
            new = [index for index in dict.fromkeys(maker.inputs) if index not in found]
            found += new
            waiting += new
        return found

    def is_data(self, value: int) -> bool:
        """Rows of a batch or of the script's tensors, without noise."""
        sources = self.contents(value)
        makers = [m for index in sources if (m := self.maker(index)) is not None]
        random = any(m.name in RANDOM and "int" not in self.values[m.outputs[0]].dtype for m in makers)
        return not random and any(self.values[index].origin in ("batch", "outside") for index in sources)

    def through_views(self, value: int) -> int:
        """The value behind reshapes, casts, copies and dropout."""
        for _ in range(_MOST):
            maker = self.maker(value)
            if maker is None or maker.name not in VIEWS or not maker.inputs:
                return value
            value = maker.inputs[0]
        return value

    @cached_property
    def on_loss_path(self) -> frozenset[int]:
        """The values from which a loss was computed."""
        return frozenset(index for loss in self.program.losses for index in self.behind(loss))

    # -- what a value depends on --

    def _depending(self, origin: tuple[str, ...], also: frozenset[int] = frozenset()) -> frozenset[int]:
        found = {index for index, value in enumerate(self.values) if value.origin in origin} | also
        for operation in self.operations:
            if not found.isdisjoint(operation.inputs):
                found.update(operation.outputs)
        for use in self.program.models:  # a compiled or scripted model computes without operations that are seen
            if "parameter" in origin:
                found.update(use.outputs)
        return frozenset(found)

    @cached_property
    def learned(self) -> frozenset[int]:
        """Values that were computed with a parameter."""
        return self._depending(("parameter",))

    @cached_property
    def from_data(self) -> frozenset[int]:
        """Values that were computed from a batch, from an input of a model, or from tensors from before the step."""
        return self._depending(("batch", "outside"), self.inputs)

    # -- roles --

    @cached_property
    def predictions(self) -> frozenset[int]:
        """The outputs of models."""
        return frozenset(index for use in self.program.models for index in use.outputs)

    @cached_property
    def inputs(self) -> frozenset[int]:
        """The inputs of models."""
        return frozenset(index for use in self.program.models for index in use.inputs)

    @cached_property
    def sizes_of_samples(self) -> frozenset[int]:
        """First sizes of the inputs of models: numbers of samples, most likely."""
        return frozenset(self.values[index].shape[0] for index in self.inputs if self.values[index].shape)

    @cached_property
    def comparisons(self) -> tuple[tuple[Operation, int, int], ...]:
        """Where a prediction meets a target outside of models: the operation, the prediction and the target."""
        found = []
        for operation in self.operations:
            if operation.model >= 0 or len(operation.inputs) < 2:
                continue
            if operation.name not in ELEMENTWISE and operation.name not in LOSSES and operation.name != "gather":
                continue
            one, other = operation.inputs[:2]
            if (one in self.learned) != (other in self.learned):
                found.append((operation, one, other) if one in self.learned else (operation, other, one))
        return tuple(found)

    def sample_dim(self, value: int) -> int | None:
        """The dimension of the samples, if it is certain: of a batch that PyTorch stacked, of rows picked by an index
        of samples, of windows of a series that were stacked; followed through operations that keep it."""
        for _ in range(_MOST):
            if self.values[value].origin == "batch":
                return 0
            maker = self.maker(value)
            if maker is None or not maker.inputs:
                return None
            if maker.name == "stack":
                return 0 if self._stacks_windows(maker) else None
            if maker.name == "__getitem__" and self._picks_rows(maker):
                return 0
            source = maker.inputs[0]
            cut = maker.name in ("chunk", "split") and self.values[source].shape[:1] == self.values[value].shape[:1]
            if cut or maker.name in _ROWWISE or (maker.name in ELEMENTWISE and self._same_shape(source, value)):
                value = source
                continue
            if maker.name in ELEMENTWISE and len(maker.inputs) > 1 and self._same_shape(maker.inputs[1], value):
                value = maker.inputs[1]
                continue
            return None
        return None

    def is_sampled(self, value: int) -> bool:
        """From a loader, or computed from a tensor of the script: not that tensor itself, which may be a constant, and
        not the output of a model."""
        waiting, seen = [(value, False)], {value}
        while waiting and value not in self.learned:
            index, computed = waiting.pop()
            origin, maker = self.values[index].origin, self.maker(index)
            if origin == "batch" or (origin == "outside" and computed):
                return True
            if maker is not None and maker.name not in _CONSTANTS:
                waiting += [(i, computed or maker.name not in VIEWS) for i in maker.inputs if i not in seen]
                seen.update(maker.inputs)
        return False

    def sample_dim_by_use(self, value: int) -> int | None:
        """The dimension of the samples by the attention or recurrent layer that the value goes into."""
        for _ in range(_MOST):
            readers = self.readers.get(value, [])
            for reader in readers:
                if reader.name == "multi_head_attention_forward" and value in reader.inputs[:1]:
                    return 1
                if reader.name in ("transpose", "swapaxes") and {o[1] for o in reader.options} == {"0", "1"}:
                    then = self.readers.get(reader.outputs[0], [])
                    if any(operation.name == "multi_head_attention_forward" for operation in then):
                        return 0
                if reader.name in RECURRENT:
                    return {"True": 0, "False": 1}.get(self.option(reader, "batch_first", 8) or "")
            following = [o for o in readers if o.name in _ROWWISE or o.name in ELEMENTWISE or o.name in VIEWS]
            if not following or not following[0].outputs or not self._same_shape(value, following[0].outputs[0]):
                return None
            value = following[0].outputs[0]
        return None

    def _same_shape(self, one: int, other: int) -> bool:
        return self.values[one].shape == self.values[other].shape

    def _picks_rows(self, operation: Operation) -> bool:
        """`X[idx]` with a tensor of indices."""
        index = [self.values[i] for i in operation.inputs[1:]]
        picked = self.values[operation.outputs[0]].shape if operation.outputs else ()
        return (
            len(index) == 1
            and not operation.options
            and index[0].dtype == "int64"
            and len(index[0].shape) == 1
            and index[0].shape == picked[:1]
        )

    def _stacks_windows(self, operation: Operation) -> bool:
        """`stack([data[i:i + n] for i in starts])`: a list of time steps looks the same but is not cut by a slice."""
        makers = [self.maker(index) for index in operation.inputs]
        windows = all(m is not None and m.name == "__getitem__" and _slices(m) for m in makers)
        sources = {m.inputs[0] for m in makers if m is not None and m.inputs}
        return windows and len(sources) == 1 and (self.option(operation, "dim", 1) or "0") == "0"

    def value(self, index: int) -> Value:
        return self.values[index]

    @cached_property
    def _with_parameters(self) -> frozenset[int]:
        reading = (o for o in self.operations if o.model >= 0)
        return frozenset(o.model for o in reading if any(self.values[i].origin == "parameter" for i in o.inputs))

    def is_large_matrix(self, value: int) -> bool:
        """A matrix with enough numbers to show how they are distributed (`Value.initial`)."""
        shape = self.values[value].shape
        return len(shape) > 1 and prod(shape) >= _DISTRIBUTED

    def in_model(self, operation: Operation) -> bool:
        """It ran in the forward of a module with parameters; a loss module has none."""
        return operation.model in self._with_parameters

    def terms(self, loss: int) -> list[int]:
        """The numbers that were added up to a loss; the loss itself if nothing was added."""
        found: list[int] = []
        waiting = [loss]
        while waiting:
            value = waiting.pop()
            maker = self.maker(value)
            scalars = maker is not None and maker.name in ANY_ADDITION and self.values[value].shape == ()
            if maker is None or not scalars or len(found) > _MOST:
                found.append(value)
            else:
                waiting += maker.inputs[::-1]
        return found

    def place_of(self, value: int) -> Place | None:
        """The line that made a value."""
        maker = self.maker(value)
        return None if maker is None else maker.place

    @staticmethod
    def option(operation: Operation, name: str, position: int) -> str | None:
        """An argument by its name or position; None if it was not given."""
        given = dict(operation.options)
        return given.get(name, given.get(str(position)))

    def factor(self, operation: Operation) -> float | None:
        """The size of the one number by which an operation multiplies its first input; None where it does not."""
        if operation.name not in ANY_SCALING:
            return None
        numbers = [abs(number) for _, text in operation.options if (number := number_in(text)) is not None]
        others = [self.values[index] for index in operation.inputs[1:]]
        numbers += [abs(other.mean) for other in others if other.shape == () and not other.grad and other.mean]
        if len(numbers) != 1 or not numbers[0]:
            return None
        return 1 / numbers[0] if operation.name in ANY_QUOTIENT else numbers[0]

    def dim_of(self, operation: Operation) -> int | None:
        """The dimension over which softmax, argmax, sum ... run, counted from 0."""
        text = self.option(operation, "dim", 1)
        if text is None or not operation.inputs or not text.lstrip("-").isdigit():
            return None
        rank = len(self.values[operation.inputs[0]].shape)
        return int(text) % rank if rank else None


def number_in(text: str | None) -> float | None:
    """The number that an option holds; None if it holds something else."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _slices(operation: Operation) -> bool:
    """`data[a:b]`, with both ends."""
    texts = [text for _, text in operation.options]
    return len(texts) == 1 and texts[0].startswith("slice(") and "None, None" not in texts[0]
