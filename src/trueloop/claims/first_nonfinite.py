"""first-nonfinite: the first steps of a run have no NaN or Inf in the loss or the gradients.

Of a failure, the batch is computed again operation by operation, to find the first NaN or Inf: in a sample, a weight, a
layer, the loss, or only in a gradient. One NaN makes every weight NaN in the next step, so only the first one matters.
"""

from dataclasses import replace
from typing import Any, ClassVar, Final, final

from torch import nn

from trueloop.claims.claim import Claim
from trueloop.claims.subject import RecipeSubject, ScriptSubject
from trueloop.claims.training_step import batch_at
from trueloop.data.source import Batch, tensors_in
from trueloop.engine.call_model import call_model
from trueloop.engine.loop import Loop
from trueloop.engine.parts import Parts
from trueloop.engine.task import Task
from trueloop.event import Backward, Event, NotFinite
from trueloop.hook import Hook, Row
from trueloop.measure.nonfinite import bad_rows
from trueloop.results.proof import Cause, Proof
from trueloop.taps.nonfinite_replay import Origin, Replay, autocast_now
from trueloop.usercode.ownership import layer_place

__all__ = ["FirstNonfinite"]

STEPS: Final = 20  # of a recipe with its own settings: most overflows come at once; rules watch the later steps

DATA = Cause("a sample holds NaN or Inf", "check `torch.isfinite(inputs)`; drop or repair such samples")
DOMAIN = Cause("an operation gets values outside its domain", "`log(x.clamp(min=1e-8))`, `sqrt(x + 1e-8)`")
GRADIENT = Cause("a gradient is undefined: sqrt, norm or pow at zero", "add a small constant inside: `sqrt(x + 1e-8)`")
GROWTH = Cause("values grow from step to step", "test learning-rate-range; or clip gradients: `--set clip=1.0`")
OVERFLOW = Cause("a value is too large for half precision", "try `--set precision=bf16`, or fp32")
EARLIER = Cause("an earlier step or the loaded checkpoint wrote it", "look at the weights before the first step")


@final
class FirstNonfinite(Claim):
    name = "first-nonfinite"
    tests_own_step = True
    healthy = f"every loss and every gradient of the first {STEPS} steps is finite"
    causes: ClassVar[tuple[Cause, ...]] = (DOMAIN, GRADIENT, DATA, GROWTH, OVERFLOW, EARLIER)

    def try_recipe(self, subject: RecipeSubject) -> Proof:
        hook = _Recorder()
        parts = subject.parts(on_nonfinite="stop", statistics_every=0, compile="off", hooks=(hook,))
        # The schedule is still that of the complete run.
        steps, splits = min(STEPS, parts.total_steps), replace(parts.splits, valid=None)
        parts = replace(parts, total_steps=steps, splits=splits)
        ending = Loop(parts).train()
        if ending.reason == "finished":
            return self._finite(ending.step, {"loss": hook.loss, "gradient_norm": hook.norm})
        if ending.reason != "nonfinite":
            return self.unproved(f"the run was stopped after {ending.step} steps")
        event = hook.events[0]
        epoch, number = divmod(event.step, parts.batches.steps_per_epoch)
        batch = batch_at(parts, event.step)
        origin = _origin(parts, batch, event)
        facts = _facts(event) | {"epoch": epoch, "batch": number} | _samples(parts, batch, epoch, number)
        facts |= {"operation": origin.operation, "layer": event.layer or origin.layer} if origin else {}
        said = ending.message.removesuffix(" It did not reach the weights.").rstrip(".")
        if event.origin == "input" and "sample" in facts:
            said += f"; it is sample {facts['sample']:,} of the training data"
        place = origin.place if origin else None
        if place is None and event.origin == "layer":
            place = layer_place(parts.model, event.layer)
        return self.fails(f"{said[0].lower()}{said[1:]}", facts, _causes(event), place)

    def try_script(self, subject: ScriptSubject) -> Proof:
        for first in subject.checked.of(NotFinite):
            return self.fails(_sentence(first), _facts(first) | {"batch": first.batch}, _causes(first), first.place)
        backwards = subject.checked.of(Backward)
        if not backwards:
            return self.unproved("no backward was seen in this run")
        return self._finite(max(event.step for event in backwards) + 1, {"loss": backwards[-1].loss})

    def _finite(self, steps: int, facts: dict[str, object]) -> Proof:
        loss = facts["loss"]
        last = f"; the last loss is {loss:.3g}" if isinstance(loss, float) else ""
        words = f"every loss and gradient of {steps:,} {'step' if steps == 1 else 'steps'} is finite{last}"
        return self.holds(words, {"steps": steps} | facts)


def _causes(event: NotFinite) -> tuple[Cause, ...]:
    """By origin; growing values are the more likely the later it is."""
    later = (GROWTH, DOMAIN) if event.step else (DOMAIN, GROWTH)
    computed = (GRADIENT, DOMAIN) if event.what == "gradient" else (*later, OVERFLOW)
    causes = {
        "input": (DATA,),
        "weight": (GROWTH, EARLIER) if event.step else (EARLIER,),
        "layer": computed,
        "loss": computed,
        "unknown": (GRADIENT, *later),
    }
    return causes[event.origin]


@final
class _Recorder(Hook):
    def __init__(self) -> None:
        self.events: list[NotFinite] = []
        self.loss: float | None = None
        self.norm: float | None = None

    def event_emitted(self, event: Event) -> None:
        if isinstance(event, NotFinite):
            self.events.append(event)

    def logged(self, row: Row) -> None:
        if row.kind == "train":
            self.loss, self.norm = row.values["loss"], row.values["gradient_norm"]


def _facts(event: NotFinite) -> dict[str, object]:
    names = ("what", "value", "origin", "layer", "operation", "input_range", "learning_rates")
    return {"step": event.step + 1} | {name: getattr(event, name) for name in names}


def _sentence(event: NotFinite) -> str:
    batch = "" if event.batch is None else f" (batch {event.batch} of its epoch)"
    low, high = event.input_range or (0.0, 0.0)
    inputs = "" if event.input_range is None else f", with inputs from {low:.4g} to {high:.4g}"
    origins = {
        "input": "it was already in the batch" + ("" if event.sample is None else f", in sample {event.sample}"),
        "weight": f"it was already in the weight {event.layer}",
        "layer": f"it arose in {event.layer}, in {event.operation}{inputs}",
        "loss": f"it arose after the model, in {event.operation}{inputs}",
        "unknown": "its origin was not found",
    }
    return f"the {event.what} is {event.value} at step {event.step + 1:,}{batch}: {origins[event.origin]}"


# -- the batch, computed again --


@final
class _WithLoss(nn.Module):
    """The model and its loss as one module, to be replayed operation by operation."""

    def __init__(self, model: nn.Module, task: Task) -> None:
        super().__init__()
        self.model, self.task = model, task

    def forward(self, batch: Batch) -> Any:
        return self.task.loss(call_model(self.model, batch.inputs), batch).total


def _origin(parts: Parts, batch: Batch, event: NotFinite) -> Origin | None:
    """The first operation, and its line; None: it was there before the forward, or does not occur again."""
    if event.origin in ("input", "weight"):
        return None
    with parts.precision.autocast():
        autocast = autocast_now()
    replay = Replay(_WithLoss(parts.model, parts.task))
    replay.run((batch,), {}, grad=True, autocast=autocast)
    found = replay.steep if event.what == "gradient" else replay.origin
    if found is None:
        return None
    layer = found.layer.removeprefix("model.") if found.layer != "model" else ""
    return replace(found, layer="" if layer.startswith(_WithLoss.__name__) else layer)


def _samples(parts: Parts, batch: Batch, epoch: int, number: int) -> dict[str, object]:
    """The first sample of the training data with NaN or Inf, if one has."""
    found = next((rows for tensor in tensors_in(tuple(batch)) if (rows := bad_rows(tensor)) is not None), None)
    if found is None:
        return {}
    row, bad, _ = found
    numbers = next(parts.batches.keys(epoch, number)).numbers
    return {"sample": int(numbers[row]), "row": row, "bad_samples": bad}
