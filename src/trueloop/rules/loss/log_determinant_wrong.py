"""LOS174 log-determinant-wrong: the likelihood of a normalizing flow adds a log-determinant that is not its map's.

What it sees
------------
A loss joins the squares of a latent (`-0.5 * z.pow(2).sum(1)`, a standard normal's `log_prob`) with a log-determinant.
On its way to `z` the data was multiplied with learned factors (`x * exp(s) + t`), whose logarithms are in the recorded
step too: their sum is what must be added. In recorded steps the term is that sum with the wrong sign; or the part of a
single layer; or the mean over dimensions; or the sum over all samples of the batch.

Why it hurts
------------
The log-determinant is what keeps the flow from contracting all data to one point. With the wrong sign contraction is
rewarded. If only one layer counts, the other layers contract for free. The reported likelihood is too good, and the
samples have the wrong shape.

Evidence
--------
The number of factors, the mean log-determinant of the map, the mean of the term that is added, and the recorded steps.

Use instead
-----------
    for layer in self.layers:
        x, ld = layer(x)                # x * exp(s) + t, s.sum(1);  (x - t) * exp(-s), -s.sum(1)
        log_det = log_det + ld
    return -0.5 * x.pow(2).sum(1) - 0.5 * d * math.log(2 * math.pi) + log_det

When it is fine
---------------
Not reported: a term that is the sum of these logarithms in a recorded step, one that differs in another way (a flow
with other volume changes: splines, invertible convolutions, normalizations), latents whose prior is not a standard
normal, and flows without learned factors.
"""

from math import prod
from typing import Final, NamedTuple

from trueloop.event import Operation, Place, StepProgram
from trueloop.event.operation_names import ANY_ADDITION, ANY_SUBTRACTION, DIFFERENCES
from trueloop.rules.program_flows import Factor, energy_of, factors_behind, signs, without_constants
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Finding, Findings, Rule, Severity

__all__ = ["LogDeterminantWrong"]

SAMPLED: Final = 2  # recorded steps that must show the same
EXACT: Final = 1e-3  # of the log-determinant: the means are of the same float32 numbers
LEAST: Final = 1e-2  # the log-determinant of a flow that is still the identity says nothing
APART: Final = 0.05
_JOINING: Final = ANY_ADDITION | ANY_SUBTRACTION | DIFFERENCES
_WHAT: Final = {
    "sign": "has the wrong sign",
    "single": "is that of a single layer",
    "mean": "is averaged over dimensions, not summed",
    "batch": "is summed over all samples of the batch",
}
_FIX: Final = {
    "sign": "Change its sign: `x * exp(s)` adds `s.sum(1)`, and `x * exp(-s)` adds `-s.sum(1)`.",
    "single": "Add up the log-determinants of all layers: `log_det = log_det + ld`.",
    "mean": "Sum the logarithms over the dimensions of a sample: `s.sum(1)`.",
    "batch": "Sum the logarithms over the dimensions of each sample only: `s.sum(1)`.",
}


class _Term(NamedTuple):
    added: float  # to the log-density, per sample
    meant: float
    kind: str  # "": none of the known mistakes; "right"


class LogDeterminantWrong(Rule, code="LOS174", severity=Severity.ERROR):
    not_applicable = "no likelihood of a normalizing flow was recorded"
    explained_by = ("nan-or-inf",)

    def __init__(self) -> None:
        self._seen: dict[Place | None, list[_Term]] = {}

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training" or not event.losses:
            return
        view = ProgramView(event)
        for operation in event.operations:
            joined = _joined(view, operation)
            if joined is None:
                continue
            latent, added = joined
            factors = factors_behind(view, latent)
            term = _term(added, factors, view.values[latent].shape)
            if term is None or (term.kind == "single" and _grows(view, operation.outputs[0])):
                continue
            seen = self._seen.setdefault(operation.place, [])
            seen.append(term)
            if len(seen) == SAMPLED and len({t.kind for t in seen}) == 1 and term.kind in _WHAT:
                yield self._report(event, operation, term, factors)

    def _report(self, event: StepProgram, operation: Operation, term: _Term, factors: list[Factor]) -> Finding:
        return self.finding(
            event,
            f"The log-determinant in this likelihood {_WHAT[term.kind]}: {term.added:+.3g} is added per sample, but "
            f"the {len(factors)} learned factors from the data to the latent change the volume by {term.meant:+.3g}.",
            fix=_FIX[term.kind],
            evidence={"factors": len(factors), "log_determinant": term.meant, "added": term.added,
                      "mistake": term.kind, "sampled_steps": SAMPLED},
            place=operation.place,
        )  # fmt: skip


def _joined(view: ProgramView, operation: Operation) -> tuple[int, float] | None:
    """A latent whose squares are joined with a second learned term here, and what that adds to the log-density."""
    if operation.name not in _JOINING or len(operation.inputs) != 2 or view.on_loss_path.isdisjoint(operation.outputs):
        return None
    if not view.learned.issuperset(operation.inputs):
        return None
    found = [energy_of(view, index) for index in operation.inputs]
    if (found[0] is None) == (found[1] is None):
        return None
    side = 0 if found[0] is not None else 1
    energy = found[side]
    if energy is None:
        return None
    ours, theirs = signs(operation.name)[side], signs(operation.name)[1 - side]
    term, factor = without_constants(view, operation.inputs[1 - side])
    mean = view.values[term].mean
    scale = energy.factor * ours
    if mean is None or abs(abs(scale) - 0.5) > EXACT:
        return None
    shape = view.values[energy.latent].shape
    own = view.values[operation.inputs[side]].shape == shape  # one density for each dimension, as in a mixture
    return energy.latent, mean * factor * theirs * (-0.5 / scale) * (prod(shape[1:]) if own else 1)


def _grows(view: ProgramView, value: int) -> bool:
    """Other learned terms are added later: perhaps the log-determinants of the other layers."""
    for _ in range(12):
        readers = [o for o in view.readers.get(value, []) if not view.on_loss_path.isdisjoint(o.outputs)]
        if any(o.name in _JOINING and len(view.learned.intersection(o.inputs)) > 1 for o in readers):
            return True
        if len(readers) != 1:
            return bool(readers)
        value = readers[0].outputs[0]
    return True


def _term(added: float, factors: list[Factor], shape: tuple[int, ...]) -> _Term | None:
    """What kind of log-determinant is added?"""
    if not factors:
        return None
    parts = [factor.mean * factor.elements for factor in factors]
    meant = sum(parts)
    near = EXACT * max(abs(meant), max(map(abs, parts)))
    if abs(meant) < LEAST:
        return None

    def equal(value: float) -> bool:
        return abs(added - value) <= near and abs(value - meant) > APART * abs(meant)

    kind = ""
    if abs(added - meant) <= near:
        kind = "right"
    elif equal(-meant):
        kind = "sign"
    elif len(parts) > 1 and any(map(equal, parts)):
        kind = "single"
    elif prod(shape[1:]) > 1 and (equal(meant / prod(shape[1:])) or equal(sum(factor.mean for factor in factors))):
        kind = "mean"
    elif abs(added - meant * shape[0]) <= EXACT * abs(meant) * shape[0] and shape[0] > 1:
        kind = "batch"
    return _Term(added, meant, kind)
