"""Two questions that need a second forward: do samples mix, and is the future visible?

Each is tested once per model, in eval mode, on a copy, with a few samples, and only where the meaning of the dimensions
is known. The first dimension counts samples if PyTorch's own collate stacked the batch, or if there is one target per
sample. Targets that are the inputs shifted by one are found by comparing them.
"""

import ast
import weakref
from collections.abc import Iterator
from math import prod
from time import perf_counter
from typing import Any, Final, Literal

import torch
from torch import Tensor, nn

from trueloop.event import BatchIndependenceTested, CausalityTested, Place
from trueloop.event.operation_names import ATTENTION, CLASS_LOSSES, DIFFERENCES, RECURRENT, RESHAPES
from trueloop.measure.shifted import SHORTEST, later_feature_along, shifted_along
from trueloop.measure.tensors import on_host, same_memory
from trueloop.observers.observer import Observer
from trueloop.observers.run_objects import KnownModel, unwrapped
from trueloop.taps.calls import BatchDrawn, LossCall, ModuleCall, OperationCall, tensors_in
from trueloop.taps.mixing import MixingPoint, Summaries, changed, find_future_leak, find_sample_mixing
from trueloop.taps.replay_copy import CannotReplay, Inputs, ReplayCopy, mapped
from trueloop.usercode.ownership import class_place
from trueloop.usercode.source import called_name, calls_in, source_of

__all__ = ["CounterfactualsObserver"]

FEWEST: Final = 3  # fewest samples: one is kept and the others are replaced
MOST: Final = 8  # most samples to run again
SLOWEST: Final = 2.0  # a forward that takes longer is not run again
LOOKS: Final = 4  # losses of one model to compare with its inputs
CHANCES: Final = 6  # calls after the first step in which a test may happen
LARGEST: Final = 2**20  # elements of an input that are kept until the loss is computed
WORTH_A_TRACE: Final = 1e-4  # relative change from which the operation that causes it is searched

_Proof = Literal["", "weak", "several", "targets", "loader"]
SHIFTS: Final = (1, 0, 2)
_STATISTICS: Final = ("mean", "var", "std", "var_mean", "std_mean", "batch_norm", "native_batch_norm", "instance_norm")
"""Statistics over the batch mix samples on purpose."""


class _Case:
    """What is known of one model's inputs."""

    def __init__(self) -> None:
        self.looks = 0
        self.chances = CHANCES
        self.proof: _Proof = (
            ""  # why dimension 0 counts samples; weak, several: only a softmax over it is a sure mistake
        )
        self.time: int | None = None  # the dimension of the input along which the targets are shifted
        self.shifted = 0  # index of that input tensor
        self.shift = 1  # by how many positions
        self.compared: Place | None = None  # the loss that compares with these targets
        self.inputs: list[weakref.ref[Tensor]] = []
        self.copies: list[Tensor] = []  # of the latest inputs, which may be freed before the loss is compared with them
        self.outputs: list[weakref.ref[Tensor]] = []
        self.samples_asked = False
        self.future_asked = False


class CounterfactualsObserver(Observer):
    emits = (BatchIndependenceTested, CausalityTested)

    def prepare(self) -> None:
        self._cases: dict[int, _Case] = {}
        self._latest: _Case | None = None
        self._drawn: list[tuple[torch.Size, weakref.ref[Tensor]]] = []
        """Tensors of the latest stacked batch: the user may have moved them to a device."""
        self._began = 0.0

    # -- what the dimensions mean --

    def batch_drawn(self, drawn: BatchDrawn) -> None:
        if self._cases and all(case.samples_asked and case.future_asked for case in self._cases.values()):
            return
        self._drawn = [(t.shape, weakref.ref(t)) for t in tensors_in(drawn.batch, limit=8)] if drawn.stacked else []

    def module_call_started(self, call: ModuleCall) -> None:
        known = self.objects.model(call.module)
        if known is None:
            return  # a criterion, or a module without parameters
        if not call.grad or not call.training:
            self._latest = None
            return
        case = self._latest = self._cases.get(known.number) or self._cases.setdefault(known.number, _Case())
        if case.samples_asked and case.future_asked:
            return
        before, case.inputs = case.inputs, [weakref.ref(tensor) for tensor in _inputs(call)]
        case.outputs = []
        case.copies = [t.detach().clone() for t in _inputs(call) if t.numel() <= LARGEST] if case.looks < LOOKS else []
        same = len(before) == len(case.inputs) and all(a() is b() for a, b in zip(before, case.inputs, strict=True))
        if same and case.proof in ("targets", "several"):
            case.proof = (
                "weak" if len(case.inputs) == 1 else ""
            )  # the same tensors as in the call before: all data at once, perhaps a graph
        self._began = perf_counter()

    def module_call_ended(self, call: ModuleCall) -> None:
        case, known = self._latest, self.objects.model(call.module)
        if case is None or known is None or call.failed or (case.samples_asked and case.future_asked):
            return
        if call.compiled or perf_counter() - self._began > SLOWEST:
            case.samples_asked = case.future_asked = True
            return
        case.outputs = [weakref.ref(tensor) for tensor in tensors_in(call.output, limit=4)]
        inputs = _inputs(call)
        if inputs and self._are_stacked(inputs):
            case.proof = "loader"
        if self.bus.step >= 1 and not self.bus.in_step:  # by now a loss has been seen, if there is one
            case.chances -= 1
            with torch.no_grad():
                self._test(call, known, case)

    def _are_stacked(self, inputs: list[Tensor]) -> bool:
        """The inputs are tensors of the latest batch, or copies of the same shape."""
        size = inputs[0].shape[0] if inputs[0].dim() else 0
        counted = [given for given in inputs if given.dim() and given.shape[0] == size]
        return size > 0 and all(any(_is_made_of(g, shape, ref()) for shape, ref in self._drawn) for g in counted)

    def loss_called(self, loss: LossCall) -> None:
        case = self._latest
        if case is None or case.looks >= LOOKS or (case.samples_asked and case.future_asked):
            return
        case.looks += 1
        inputs, case.copies = case.copies, []
        if case.time is None and len(inputs) == len(case.inputs):
            for shift in SHIFTS if loss.function in CLASS_LOSSES else (1,):
                if self._align(case, inputs, loss, shift):
                    break
        outputs = [tensor for ref in case.outputs if (tensor := ref()) is not None]
        if not case.proof and inputs and any(same_memory(tensor, loss.input) for tensor in outputs):
            case.proof = _proof_by_targets(inputs, loss)

    def _align(self, case: _Case, inputs: list[Tensor], loss: LossCall, shift: int) -> bool:
        """Are the targets later positions of an input?"""
        target, ignored = loss.target.detach(), loss.options.get("ignore_index", -100)
        times = [shifted_along(given, target, shift, ignored if isinstance(ignored, int) else -100) for given in inputs]
        if shift == 1 and not any(time is not None for time in times):
            times = [later_feature_along(given, target) for given in inputs]
        found = [(number, time) for number, time in enumerate(times) if time is not None]
        if found:  # an autoencoder's decoder input follows the encoder's
            case.shifted, case.time = found[-1]
            case.shift, case.compared = shift, loss.place
        return bool(found)

    def operation_ended(self, call: OperationCall) -> None:
        """A difference of a model's output and a target is a loss that the script writes itself."""
        case = self._latest
        if case is None or case.looks >= LOOKS or self.bus.call is not None:
            return
        if call.name == "gather":
            self._picked_classes(case, call)
        if call.name not in DIFFERENCES:
            return
        pair = [value for value in call.args[:2] if isinstance(value, Tensor)]
        for output, target in (pair, pair[::-1]) if len(pair) == 2 else ():
            made = any(same_memory(tensor, output) for ref in case.outputs if (tensor := ref()) is not None)
            if made and not target.requires_grad and target.shape == output.shape:
                self.loss_called(LossCall("mse_loss", output, target, {}, output, call.place))
                return

    def _picked_classes(self, case: _Case, call: OperationCall) -> None:
        """`log_probabilities.gather(2, targets.unsqueeze(2))` is a cross-entropy that the script writes itself."""
        tensors = [value for value in (*call.args, *call.kwargs.values()) if isinstance(value, Tensor)]
        if len(tensors) != 2 or case.time is not None or not tensors[0].requires_grad:
            return
        index = tensors[1].detach()
        inputs = case.copies
        if index.dim() != 3 or index.shape[-1] != 1 or len(inputs) != len(case.inputs):
            return
        case.looks += 1
        picked = LossCall("nll_loss", tensors[0], index.squeeze(-1), {}, call.output, call.place)
        any(
            self._align(case, inputs, picked, shift) for shift in (1, 2)
        )  # the same position: a model that shifts itself

    # -- the questions --

    def _test(self, call: ModuleCall, known: KnownModel, case: _Case) -> None:
        try:
            if not case.future_asked and case.time is not None:
                case.future_asked = True
                self._test_future(call, known, case, case.time)
                if case.shift == 0 and case.time == 1:  # equal tensors do not show which dimension is time
                    self._test_future(call, known, case, 0)
            if not case.samples_asked and case.proof and case.time != 0:
                case.samples_asked = True
                self._test_samples(call, known, case)
        except CannotReplay:
            return  # not tested, and the rule reports that
        finally:
            if case.chances <= 0:
                case.future_asked = case.samples_asked = True

    def _test_samples(self, call: ModuleCall, known: KnownModel, case: _Case) -> None:
        inputs = _inputs(call)
        size = inputs[0].shape[0] if inputs and inputs[0].dim() else 0
        if size < FEWEST:
            return
        model = unwrapped(call.module)
        twin = ReplayCopy(model)
        try:
            self._compare_samples(call, known, case, twin, size, _few(inputs, size))
        except CannotReplay:  # some models only take full batches
            self._compare_samples(call, known, case, twin, size, size)

    def _compare_samples(
        self, call: ModuleCall, of: KnownModel, case: _Case, twin: ReplayCopy, size: int, few: int
    ) -> None:
        kept = few - 1
        plain = _changed_inputs(call, lambda t: (t[:few] if t.dim() and t.shape[0] == size else t).detach().clone())
        others = _each(plain, few, lambda t: torch.cat([t[:1].expand_as(t[:kept]), t[kept:]]))
        own = _each(plain, few, lambda t: torch.cat([t[:kept], t[:1]]))
        if not _differ(plain, others) or not _differ(plain, own):
            return
        pairs = _pairs(call.output, size)
        first, again, after = (_of_sample(twin.run(inputs), kept, few, pairs) for inputs in (plain, plain, others))
        if not first:
            return
        change = _distance(first, after)
        meeting = find_sample_mixing(twin, plain, others, own, kept, few) if change > WORTH_A_TRACE else None
        if meeting is not None and not _is_a_mistake(meeting, case.proof, (few, *first[0].shape)):
            return
        if meeting is None and change > WORTH_A_TRACE and case.proof != "loader":
            return
        where = (meeting.layer if meeting else "", _where(meeting, unwrapped(call.module)))
        changes = (change, _distance(first, again))
        normalized = meeting is not None and meeting.over_first
        self.emit(BatchIndependenceTested, call.place, of.number, of.name, size, *changes, *where, normalized)

    def _test_future(self, call: ModuleCall, known: KnownModel, case: _Case, time: int) -> None:
        inputs = _inputs(call)
        given = inputs[case.shifted] if case.shifted < len(inputs) else None
        if given is None or given.dim() <= time:
            return
        length, position = given.shape[time], given.shape[time] // 2
        if length < SHORTEST:
            return
        twin = ReplayCopy(unwrapped(call.module))
        plain = _changed_inputs(call, lambda t: t.detach().clone())
        replaced = _with_another_future(given.detach(), time, position)
        later = _changed_inputs(call, lambda t: (replaced if t is given else t).detach().clone())
        if not bool(changed(on_host(given), on_host(replaced)).any()):
            return
        outputs = [twin.run(inputs) for inputs in (plain, plain, later)]
        if _are_equal(outputs[0], outputs[2]):  # the model does not read it: the targets came along in the batch
            return
        first, again, after = (_of_past(output, given, time, position) for output in outputs)
        if not first:
            return
        change = _distance(first, after)
        # What passes through a summary of the sequence (an autoencoder) may do so on purpose.
        if change > WORTH_A_TRACE and case.shift == 1:
            summaries = Summaries(_with_time(given, time))
            twin.run(plain, summaries)
            past = _of_past(twin.run(later, summaries.put_back()), given, time, position)
            change = min(change, _distance(first, past))
        meeting = find_future_leak(twin, plain, later, position, length) if change > WORTH_A_TRACE else None
        where = (meeting.layer if meeting else "", _where(meeting, unwrapped(call.module)))
        place = call.place if case.shift == 1 else case.compared
        tested = (position, length, change, _distance(first, again))
        self.emit(CausalityTested, place, known.number, known.name, *tested, *where, case.shift, time)


# -- inputs and outputs --


def _inputs(call: ModuleCall) -> list[Tensor]:
    named = {key: value for key, value in call.kwargs.items() if not any(word in key for word in ("label", "target"))}
    return list(tensors_in((call.args, named), limit=16))


def _changed_inputs(call: ModuleCall, change: Any) -> Inputs:
    return mapped(call.args, change), mapped(dict(call.kwargs), change)


def _each(inputs: Inputs, samples: int, change: Any) -> Inputs:
    """Inputs with every batch changed."""
    changed_inputs: Inputs = mapped(inputs, lambda t: change(t) if t.dim() and t.shape[0] == samples else t)
    return changed_inputs


def _differ(one: Inputs, other: Inputs) -> bool:
    pairs = zip(tensors_in(one), tensors_in(other), strict=True)
    return any(bool(changed(on_host(a), on_host(b)).any()) for a, b in pairs)


def _few(inputs: list[Tensor], size: int) -> int:
    """How many samples to run: not the size of another dimension, so that the batch dimension stays recognizable."""
    others = {length for tensor in inputs for length in tensor.shape[1:]}
    return next((few for few in range(min(MOST, size), FEWEST - 1, -1) if few not in others), min(MOST, size))


def _pairs(output: Any, size: int) -> set[int]:
    """Which outputs may be scores of each sample against each (CLIP): there samples mix on purpose."""
    outputs = enumerate(tensors_in(output, limit=4))
    return {n for n, t in outputs if t.dim() > 1 and t.shape[0] == size and size in t.shape[1:]}


def _of_sample(output: Any, kept: int, few: int, pairs: set[int]) -> list[Tensor]:
    outputs = enumerate(tensors_in(output, limit=4))
    rows = [(n, t) for n, t in outputs if t.is_floating_point() and t.dim() and t.shape[0] == few]
    return [t[kept] for number, t in rows if number not in pairs or few not in t.shape[1:]]


def _with_time(given: Tensor, time: int) -> set[int]:
    """Sizes of dimensions that hold positions of the sequence, alone or flattened with the samples."""
    length, samples = given.shape[time], given.shape[0 if time else 1] if given.dim() > 1 else 1
    return {length, length - 1, samples * length, samples * (length - 1)}


def _of_past(output: Any, given: Tensor, time: int, position: int) -> list[Tensor]:
    """The outputs at positions up to the given one."""
    found: list[Tensor] = []
    for tensor in tensors_in(output, limit=4):
        if not tensor.is_floating_point() or tensor.dim() == 0:
            continue
        lead = tuple(given.shape[:2])
        short = tuple(size - (dim == time) for dim, size in enumerate(lead))
        if time < 2 and tuple(tensor.shape[: len(lead)]) in (lead, short):
            found.append(tensor.narrow(time, 0, position + 1))
        elif time == 1 and tensor.dim() == 3 and (tensor.shape[0], tensor.shape[2]) == lead:
            found.append(tensor.narrow(2, 0, position + 1))
        elif time < 2 and tensor.dim() == 2 and tensor.shape[0] == prod(lead):
            found.append(tensor.reshape(*lead, tensor.shape[1]).narrow(time, 0, position + 1))
        elif time and tensor.shape[0] == given.shape[0]:
            times = [dim for dim in range(1, tensor.dim()) if given.shape[time] - tensor.shape[dim] in (0, 1)]
            found += [tensor.narrow(times[0], 0, position + 1)] if len(times) == 1 else []
    return found


def _are_equal(one: Any, other: Any) -> bool:
    return all(torch.equal(a, b) for a, b in zip(tensors_in(one), tensors_in(other), strict=True))


def _distance(one: list[Tensor], other: list[Tensor]) -> float:
    """The largest change, relative to the spread of the values."""
    largest = 0.0
    for a, b in zip(one, other, strict=True):
        if a.shape == b.shape and a.numel():
            a, b = on_host(a), on_host(b)
            spread = max(float((a.max() - a.min()).abs()), float(a.abs().max()), 1e-12)
            difference = float((a.double() - b.double()).abs().max())
            largest = max(largest, difference / spread if difference == difference else 0.0)
    return largest


# -- proofs --


def _is_made_of(given: Tensor, shape: torch.Size, drawn: Tensor | None) -> bool:
    """By shape; by values too if the transposed tensor has the same shape."""
    if drawn is given or shape != given.shape or given.shape[0] not in given.shape[1:]:
        return shape == given.shape
    if drawn is None or drawn.dtype != given.dtype or drawn.device != given.device:
        return False
    return torch.equal(drawn[-1], given[-1])


def _proof_by_targets(inputs: list[Tensor], loss: LossCall) -> _Proof:
    """One target per sample. Sure if a sample has more than one dimension: then a row is neither a word nor a node."""
    given, scores, target = inputs[0], loss.input, loss.target
    size = given.shape[0] if given.dim() else 0
    if any(t.dim() == 0 or t.shape[0] != size or size in t.shape[1:] for t in inputs[1:]):
        return ""  # a graph and its edges, or a table of all pairs
    if size < FEWEST or scores.dim() == 0 or scores.shape[0] != size:
        return ""
    if target.numel() != size or target.shape[0] != size:
        return ""
    if (loss.function in CLASS_LOSSES and scores.dim() != 2) or (
        loss.function not in CLASS_LOSSES and scores.numel() != size
    ):
        return ""
    inside = given.dim() > 3 or (given.dim() == 3 and given.shape[1] > 1)
    if len(inputs) > 1:
        return "several" if inside else ""
    return "targets" if inside else "weak"


def _with_another_future(given: Tensor, time: int, position: int) -> Tensor:
    """The mirrored past replaces the future: values that are valid for this input."""
    length = given.shape[time]
    steps = torch.arange(position + 1, length, device=given.device)
    source = position - (steps - position - 1) % (position + 1)
    replaced = given.clone()
    replaced.narrow(time, position + 1, length - position - 1).copy_(given.index_select(time, source))
    return replaced


def _is_a_mistake(meeting: MixingPoint, proof: _Proof, output: tuple[int, ...]) -> bool:
    """Must this operation keep samples apart, by what is known of the dimensions?"""
    if meeting.operation in _STATISTICS or "Norm" in meeting.layer:
        return False
    if proof == "loader":
        return True
    if proof == "weak":  # rows may be words or nodes, which may attend to each other, but not class by class
        return meeting.over_first and (meeting.inside or (meeting.shape == output and output[-1] > 1))
    if proof == "several":  # inputs of each sample, such as a mask of its positions
        return meeting.over_first
    inside = len(meeting.given) == 3 and meeting.given[1] > 1
    mixed_up = (meeting.operation in RECURRENT or meeting.operation in ATTENTION) and inside
    return meeting.over_first or mixed_up or meeting.operation in RESHAPES


# -- the line --


def _where(meeting: MixingPoint | None, model: nn.Module) -> Place | None:
    if meeting is not None and meeting.place is not None:
        return meeting.place
    if meeting is not None:
        built = list(_lines_building(meeting.layer.rpartition("(")[2].rstrip(")"), model))
        if len(built) == 1:
            return built[0]
    return class_place(type(model))


def _lines_building(layer: str, model: nn.Module) -> Iterator[Place]:
    """Where the user's files build a layer of this class."""
    import __main__

    files = dict.fromkeys(place.path for module in model.modules() if (place := class_place(type(module))) is not None)
    files |= dict.fromkeys(path for path in [getattr(__main__, "__file__", None)] if path)
    for file in files:
        source = source_of(file)
        calls = (call for call in calls_in(source.tree) if isinstance(call, ast.Call) and called_name(call) == layer)
        yield from map(source.place, calls)
