"""The likelihood of a normalizing flow: the squares of its latent, and the learned factors on the way there."""

from math import prod
from typing import Final, NamedTuple

from trueloop.event import Operation
from trueloop.event.operation_names import (
    ANY_ADDITION,
    ANY_PRODUCT,
    ANY_QUOTIENT,
    ANY_SUBTRACTION,
    JOINS,
    NEGATIONS,
    PICKS,
    POWERS,
    PRODUCTS,
    RANDOM,
    REVERSED_SUBTRACTIONS,
    TRANSPOSES,
    VIEWS,
)
from trueloop.rules.program_view import ProgramView, number_in

__all__ = ["Energy", "Factor", "energy_of", "factors_behind", "signs", "without_constants"]

_MOST: Final = 14
_SUMS: Final = ANY_ADDITION | ANY_SUBTRACTION | REVERSED_SUBTRACTIONS
_PASSES: Final = VIEWS | NEGATIONS | TRANSPOSES | PICKS | {"flip", "roll", "chunk", "split", "unbind", "tensor_split"}
_JOINS: Final = JOINS | {"stack", "where"}


class Energy(NamedTuple):
    latent: int
    factor: float  # of the sum of its squares


class Factor(NamedTuple):
    """A learned factor between the data and the latent."""

    mean: float  # of its logarithm; negative where the data is divided
    elements: float  # of a sample that are multiplied


def signs(name: str) -> tuple[float, float]:
    """The signs of the two inputs of an addition or a subtraction."""
    if name in REVERSED_SUBTRACTIONS:
        return (-1.0, 1.0)
    return (1.0, -1.0) if name in ANY_SUBTRACTION else (1.0, 1.0)


def without_constants(view: ProgramView, value: int) -> tuple[int, float]:
    """The value before constants were added or multiplied, and before a mean over samples; and its factor."""
    factor = 1.0
    for _ in range(_MOST):
        step = _step(view, value)
        if step is None:
            break
        value, factor = step[0], factor * step[1]
    return value, factor


def energy_of(view: ProgramView, value: int) -> Energy | None:
    """The latent of which a value is the sum of squares, per sample, but for a factor and a constant."""
    factor = 1.0
    for _ in range(_MOST):
        maker = view.maker(value)
        if maker is None or not maker.inputs:
            return None
        if (squared := _squared(view, maker)) is not None:
            latent = _centered(view, squared)
            shape = view.values[latent].shape
            return Energy(latent, factor) if len(shape) > 1 and latent in view.learned else None
        step = _step(view, value)
        if step is None and maker.name == "sum":
            before, after = view.values[maker.inputs[0]].shape, view.values[value].shape
            kept = after[:1] == before[:1] and len(before) > 1 and prod(after) == before[0]
            step = (maker.inputs[0], 1.0) if kept else None
        if step is None:
            return None
        value, factor = step[0], factor * step[1]
    return None


def factors_behind(view: ProgramView, latent: int) -> list[Factor]:
    """The learned factors of the data on its way to the latent: through sums, products, cuts and joins alone."""
    found: list[Factor] = []
    waiting, seen = [latent], {latent}
    rows = view.values[latent].shape[0]
    while waiting:
        value = waiting.pop(0)
        maker = view.maker(value)
        following = () if maker is None or value not in view.learned else _sources(view, maker)
        if maker is not None and len(maker.inputs) == 2 and (factor := _factor(view, maker)) is not None:
            index, mean = factor
            following = tuple(i for i in following if i != index)
            if any(_holds_data(view, i, rows) for i in following):
                found.append(Factor(mean, prod(view.values[value].shape) / rows))
        waiting += [i for i in following if i not in seen]
        seen.update(following)
    return found


def _sources(view: ProgramView, operation: Operation) -> tuple[int, ...]:
    """The inputs whose numbers an operation passes on."""
    if operation.name in _PASSES:
        return operation.inputs[:1]
    scaled = operation.name in ANY_PRODUCT | ANY_QUOTIENT
    return operation.inputs if scaled or operation.name in _SUMS or operation.name in _JOINS else ()


def _factor(view: ProgramView, operation: Operation) -> tuple[int, float] | None:
    """The learned factor of a product or quotient, and the mean of its logarithm."""
    divides = operation.name in ANY_QUOTIENT
    if not divides and operation.name not in ANY_PRODUCT:
        return None
    for index in operation.inputs[1:] if divides else operation.inputs[::-1]:
        mean = _logarithm(view, index) if index in view.learned else None
        if mean is not None:
            return index, -mean if divides else mean
    return None


def _is_noise(operation: Operation) -> bool:
    return operation.name in RANDOM or operation.name.endswith("_like")


def _holds_data(view: ProgramView, value: int, rows: int) -> bool:
    """Rows of data, moved and scaled; not the output of a layer."""
    waiting, seen = [value], {value}
    while waiting:
        index = waiting.pop()
        maker = view.maker(index)
        if index not in view.learned:
            if view.values[index].shape[:1] == (rows,) and (maker is None or not _is_noise(maker)):
                return True
            continue
        new = [i for i in (() if maker is None else _sources(view, maker)) if i not in seen]
        waiting += new
        seen.update(new)
    return False


def _step(view: ProgramView, value: int) -> tuple[int, float] | None:
    """One constant less, and its factor."""
    maker = view.maker(value)
    if maker is None or not maker.inputs:
        return None
    first = maker.inputs[0]
    if maker.name in NEGATIONS:
        return first, -1.0
    if maker.name in VIEWS or (maker.name == "mean" and len(view.values[first].shape) == 1):
        return first, 1.0
    learned = [number for number, index in enumerate(maker.inputs) if index in view.learned]
    if len(learned) != 1:
        return None
    kept = maker.inputs[learned[0]]
    if maker.name in _SUMS and view.values[kept].shape == view.values[value].shape:
        return kept, signs(maker.name)[learned[0]]
    constant = _constant(view, maker, learned[0])
    if constant is None or not constant:
        return None
    if maker.name in ANY_PRODUCT:
        return kept, constant
    return (kept, 1 / constant) if maker.name in ANY_QUOTIENT and learned == [0] else None


def _constant(view: ProgramView, operation: Operation, learned: int) -> float | None:
    """The one number that an operation combines with its learned input."""
    numbers = [number for _, text in operation.options if (number := number_in(text)) is not None]
    others = [view.values[index] for number, index in enumerate(operation.inputs) if number != learned]
    numbers += [other.mean for other in others if other.mean is not None and (other.constant or other.shape == ())]
    return numbers[0] if len(numbers) == 1 and len(others) <= 1 else None


def _squared(view: ProgramView, operation: Operation) -> int | None:
    if operation.name in POWERS:
        square = operation.name == "square" or number_in(view.option(operation, "exponent", 1)) == 2
        return operation.inputs[0] if square else None
    twice = operation.name in PRODUCTS and len(operation.inputs) == 2 and len(set(operation.inputs)) == 1
    return operation.inputs[0] if twice else None


def _centered(view: ProgramView, value: int) -> int:
    """Without the mean of the prior that was subtracted."""
    maker = view.maker(value)
    shifts = maker is not None and maker.name in _SUMS and len(set(maker.inputs) & view.learned) == 1
    return next(index for index in maker.inputs if index in view.learned) if maker is not None and shifts else value


def _logarithm(view: ProgramView, factor: int) -> float | None:
    """The mean of its logarithm, per element, from the values that the step computed; of the masked one if there is."""
    factor = view.through_views(factor)
    maker = view.maker(factor)
    if maker is None or not maker.inputs:
        return None
    if maker.name == "exp":
        index = maker.inputs[0]
        return _masked_mean(view, index)
    names = {"sigmoid": "logsigmoid"}
    for reader in view.readers.get(factor, []):
        if reader.name == "log" and reader.outputs:
            return view.values[reader.outputs[0]].mean
    for reader in view.readers.get(maker.inputs[0], []):
        if reader.name == names.get(maker.name) and reader.outputs:
            return view.values[reader.outputs[0]].mean
    return None


def _masked_mean(view: ProgramView, index: int) -> float | None:
    """`mask * s` is what counts where the data that is not masked passes unchanged."""
    for reader in view.readers.get(index, []):
        masks = [i for i in reader.inputs if i != index]
        if reader.name in PRODUCTS and len(masks) == 1 and masks[0] not in view.learned and reader.outputs:
            mask, product = view.values[masks[0]], view.values[reader.outputs[0]]
            if (mask.smallest, mask.largest) == (0, 1) and product.shape == view.values[index].shape:
                return product.mean
    return view.values[index].mean
