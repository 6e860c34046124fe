"""Outputs that a model computed earlier, stored, and used as targets: are they those of the samples beside them?

Every row of an output is remembered with a digest of the row of inputs that it was computed from. In recorded steps the
targets that equal remembered outputs, up to a temperature or a softmax, must be those of the inputs of the step.
"""

from collections import Counter, defaultdict, deque
from typing import Final, NamedTuple

import torch
from torch import Tensor, nn

from trueloop.event import Place, StoredOutputsCompared
from trueloop.event.operation_names import DIFFERENCES, DISTANCE_LOSSES, PRODUCTS
from trueloop.measure.rows import digests
from trueloop.measure.tensors import is_plain, is_readable, tensors_in
from trueloop.observers.observer import Observer
from trueloop.taps.calls import ModuleCall, OperationCall, ProgramStart, RunEnd

__all__ = ["StoredOutputsObserver"]

PROGRAMS: Final = 8  # recorded training steps that are read
WIDTHS: Final = (3, 512)  # numbers in a row; two scores are alike too often
MOST_ROWS: Final = 8192
MOST_NUMBERS: Final = 2**20
WIDEST_INPUT: Final = 2**22  # numbers of a batch; wider ones are not digested
SAME: Final = 1e-4  # distance of two standardized rows: rounding
SHIFTED: Final = 0.5  # share of the rows at one distance in the stored order: targets of the next state, on purpose
_COMPARING: Final = DISTANCE_LOSSES | DIFFERENCES | PRODUCTS | {
    "kl_div", "cross_entropy", "cosine_similarity", "binary_cross_entropy_with_logits",
}  # fmt: skip


class _Part(NamedTuple):
    """Rows of one call of a model."""

    outputs: Tensor  # standardized
    inputs: list[int]


class StoredOutputsObserver(Observer):
    emits = (StoredOutputsCompared,)
    rarely = ("module_call_started",)

    def prepare(self) -> None:
        self._left = PROGRAMS
        self._on = False
        self._parts: dict[int, deque[_Part]] = {}  # by the width of the rows
        self._given: defaultdict[int, list[list[int]]] = defaultdict(list)  # inputs of this step, by number of rows
        self._targets: list[tuple[Place | None, Tensor]] = []
        self._rows: defaultdict[Place | None, Counter[str]] = defaultdict(Counter)

    # -- what is remembered --

    def module_call_ended(self, call: ModuleCall) -> None:
        if call.grad or self._on or not self._left or call.failed or self.objects.model(call.module) is None:
            return
        output, given = call.output, _inputs(call)
        if given is None or not is_plain(output) or not _is_scores(output) or len(given) != len(output):
            return
        width = output.shape[1]
        most = min(MOST_ROWS, MOST_NUMBERS // width)
        parts = self._parts.setdefault(width, deque())
        parts.append(_Part(_standardized(output[:most]), digests(given[:most])))
        while sum(len(part.inputs) for part in parts) > most and len(parts) > 1:
            parts.popleft()

    # -- what is compared with it --

    def program_started(self, start: ProgramStart) -> None:
        self._on = start.phase == "training" and self._left > 0
        self._given.clear()
        self._targets.clear()

    def module_call_started(self, call: ModuleCall) -> None:
        if self._on and call.grad and self.objects.model(call.module) is not None:
            given = _inputs(call)
            if given is not None:
                self._given[len(given)].append(digests(given))

    @torch.no_grad()
    def operation_ended(self, call: OperationCall) -> None:
        if not self._on or call.name not in _COMPARING or self.bus.call is not None or not self._parts:
            return
        pair = [value for value in (*call.args[:2], *call.kwargs.values()) if is_plain(value)][:2]
        if len(pair) == 2 and pair[0].shape == pair[1].shape and pair[0].requires_grad != pair[1].requires_grad:
            target = pair[0] if pair[1].requires_grad else pair[1]
            if _is_scores(target) and target.shape[1] in self._parts:
                self._targets.append((call.place, _standardized(target)))

    @torch.no_grad()
    def program_ended(self, _: ProgramStart) -> None:
        if not self._on:
            return
        self._on = False
        self._left -= 1
        for place, target in self._targets:
            given = self._given.get(len(target))
            if given:
                self._rows[place].update(_compared(target, given, self._parts[target.shape[1]]))
        if not self._left:
            self._report()

    def run_ended(self, _: RunEnd) -> None:
        if self._left:
            self._left, self._on = 0, False  # a step that the run's end cut off is not read
            self._report()

    def _report(self) -> None:
        for place, rows in sorted(self._rows.items(), key=lambda known: -known[1]["own"]):
            self.emit(StoredOutputsCompared, place, rows["own"] + rows["of others"], rows["of others"])
        self._parts.clear()


def _inputs(call: ModuleCall) -> Tensor | None:
    """The first tensor that the model was given."""
    found = next(iter(tensors_in((call.args, call.kwargs))), None)
    if found is None or not is_plain(found) or not is_readable(found) or found.ndim < 2:
        return None
    return found if 0 < found.numel() <= WIDEST_INPUT else None


def _is_scores(rows: Tensor) -> bool:
    wide = rows.ndim == 2 and WIDTHS[0] <= rows.shape[1] <= WIDTHS[1]
    return wide and len(rows) > 1 and rows.is_floating_point() and is_readable(rows)


def _standardized(rows: Tensor) -> Tensor:
    """The same for logits, log-probabilities and probabilities at every temperature."""
    rows = rows.detach().float().cpu()
    shares = bool(((rows.sum(1) - 1).abs() < 1e-3).all()) and bool((rows >= 0).all())
    rows = rows.clamp_min(1e-30).log() if shares else rows
    return nn.functional.normalize(rows - rows.mean(1, keepdim=True), dim=1)


def _compared(target: Tensor, given: list[list[int]], parts: deque[_Part]) -> Counter[str]:
    """How many rows are remembered outputs of their own input, and how many of others whose own output is known."""
    stored = torch.cat([part.outputs for part in parts])
    sources = [digest for part in parts for digest in part.inputs]
    where = {digest: place for place, digest in enumerate(sources)}
    near = torch.cdist(target, stored) < SAME
    own, distances = 0, []
    for row, found in enumerate(near):
        here = {digests_of_call[row] for digests_of_call in given}
        matches = found.nonzero().flatten().tolist()
        if not matches or here.isdisjoint(where):
            continue
        if any(sources[match] in here for match in matches):
            own += 1
        else:
            distances.append(matches[0] - next(where[digest] for digest in here if digest in where))
    shifted = bool(distances) and Counter(distances).most_common(1)[0][1] > SHIFTED * len(distances)
    return Counter({"own": own, "of others": 0 if shifted else len(distances)})
