"""first-nonfinite: the first steps of a run meet no loss and no gradient that is no number.

Where one is met, the batch is computed again, operation by operation, to find the first thing that is none: a sample, a
weight, a layer, the loss, or only a slope. One nan makes every weight nan in the next step, so that the first is the
only one worth looking at.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Final, final

from torch import nn

from trueloop.claims.claim import Claim
from trueloop.claims.steps import whole_batch
from trueloop.claims.subject import RecipeSubject, ScriptSubject
from trueloop.data.source import Batch, tensors_in
from trueloop.engine.loop import Loop
from trueloop.engine.parts import Parts
from trueloop.engine.task import Task
from trueloop.event import Backward, Event, NotFinite
from trueloop.hook import Hook, Row
from trueloop.measure.nonfinite import bad_rows
from trueloop.results.proof import Cause, Proof
from trueloop.taps.nonfinite_replay import Origin, Replay, autocast_now
from trueloop.usercode.ownership import birthplace

__all__ = ["FirstNonfinite"]

STEPS: Final = 20
"""Of a recipe, with its own settings: most of what overflows by itself does so at once, and the rest has rules that
watch every run."""

DATA: Final = Cause(
    "a sample holds what is no number",
    "look at it: torch.isfinite(inputs); drop or repair such samples before training",
)
DOMAIN: Final = Cause(
    "an operation is given values outside its domain", "log(x.clamp(min=1e-8)), sqrt(x + 1e-8), a / b.clamp(min=1)"
)
SLOPE: Final = Cause(
    "a slope has no value where its operation stands: sqrt, norm or pow at zero",
    "add a small constant inside: sqrt(x + 1e-8)",
)
GROWTH: Final = Cause(
    "values grow from step to step", "the claim learning-rate-range; or clip the gradient: --set clip=1.0"
)
FORMAT: Final = Cause("a number is too large for half precision", "try --set precision=bf16, or fp32")
EARLIER: Final = Cause(
    "an earlier step, or the file that the weights come from, wrote it", "look at the weights before the first step"
)


@final
class FirstNonfinite(Claim):
    name = "first-nonfinite"
    healthy = f"every loss and every gradient of the first {STEPS} steps is a number"
    causes: ClassVar[tuple[Cause, ...]] = (DOMAIN, SLOPE, DATA, GROWTH, FORMAT, EARLIER)

    def of_recipe(self, subject: RecipeSubject) -> Proof:
        ear = _Ear()
        parts = subject.parts(on_nonfinite="stop", statistics_every=0, compile="off", hooks=(ear,))
        # The schedule stays that of the full run.
        steps, splits = min(STEPS, parts.total_steps), replace(parts.splits, valid=None)
        parts = replace(parts, total_steps=steps, splits=splits)
        ending = Loop(parts).train()
        if ending.reason != "nonfinite":
            if ending.reason != "finished":
                return self.unproved(f"the run was stopped after {ending.step} steps")
            return self._well(ending.step, {"loss": ear.loss, "gradient_norm": ear.norm})
        event = ear.events[0]
        epoch, number = divmod(event.step, parts.batches.steps_per_epoch)
        batch = whole_batch(parts, event.step)
        origin = _origin(parts, batch, event)
        facts = _facts(event) | {"epoch": epoch, "batch": number} | _samples(parts, batch, epoch, number)
        facts |= {"operation": origin.operation, "layer": event.layer or origin.layer} if origin else {}
        said = ending.message.removesuffix(" No weight has seen it.").rstrip(".")
        sample = (
            f"; it is sample {facts['sample']:,} of the training data"
            if event.origin == "input" and "sample" in facts
            else ""
        )
        place = (
            origin.place
            if origin and origin.place
            else birthplace(parts.model, event.layer)
            if event.origin == "layer"
            else None
        )
        return self.fails(f"{said[0].lower()}{said[1:]}{sample}", facts, self._ordered(event), place)

    def of_script(self, subject: ScriptSubject) -> Proof:
        met = subject.checked.of(NotFinite)
        if met:
            first = met[0]
            return self.fails(
                _sentence(first), _facts(first) | {"batch": first.batch}, self._ordered(first), first.place
            )
        backwards = subject.checked.of(Backward)
        if not backwards:
            return self.unproved("no backward was seen in this run")
        return self._well(max(event.step for event in backwards) + 1, {"loss": backwards[-1].loss})

    def _well(self, steps: int, facts: dict[str, object]) -> Proof:
        loss = facts["loss"]
        last = f"; their loss is {loss:.3g}" if isinstance(loss, float) else ""
        return self.holds(
            f"every loss and gradient of {steps:,} {'step' if steps == 1 else 'steps'} is a number{last}",
            {"steps": steps} | facts,
        )

    def _ordered(self, event: NotFinite) -> tuple[Cause, ...]:
        """What was seen says which it is; that values grow is likelier the later it was."""
        later = (GROWTH, DOMAIN) if event.step else (DOMAIN, GROWTH)
        seen = {
            "input": (DATA,),
            "weight": (GROWTH, EARLIER) if event.step else (EARLIER,),
            "layer": (SLOPE, DOMAIN) if event.what == "gradient" else (*later, FORMAT),
            "loss": (SLOPE, DOMAIN) if event.what == "gradient" else (*later, FORMAT),
            "unknown": (SLOPE, *later),
        }
        return seen[event.origin]


@final
class _Ear(Hook):
    def __init__(self) -> None:
        self.events: list[NotFinite] = []
        self.loss: float | None = None
        self.norm: float | None = None

    def heard(self, event: Event) -> None:
        if isinstance(event, NotFinite):
            self.events.append(event)

    def logged(self, row: Row) -> None:
        if row.kind == "train":
            self.loss, self.norm = row.values["loss"], row.values["gradient_norm"]


# -- what was seen, in words --


def _facts(event: NotFinite) -> dict[str, object]:
    return {
        "what": event.what,
        "value": event.value,
        "step": event.step + 1,
        "origin": event.origin,
        "layer": event.layer,
        "operation": event.operation,
        "input_range": event.input_range,
        "learning_rates": event.learning_rates,
    }


def _sentence(event: NotFinite) -> str:
    batch = "" if event.batch is None else f" (batch {event.batch} of its pass)"
    given = (
        ""
        if event.input_range is None
        else f", given values from {event.input_range[0]:.4g} to {event.input_range[1]:.4g}"
    )
    origins = {
        "input": f"the batch{'' if event.sample is None else f', in its sample {event.sample},'} already held it",
        "weight": f"the weight {event.layer} already held it",
        "layer": f"it arose in {event.layer}, in {event.operation}{given}",
        "loss": f"it arose after the model, in {event.operation}{given}",
        "unknown": "where it arose could not be seen",
    }
    return f"the {event.what} is {event.value} at step {event.step + 1:,}{batch}: {origins[event.origin]}"


# -- the batch, computed again --


@final
class _WithLoss(nn.Module):
    """The model and its loss as one, to be followed operation by operation."""

    def __init__(self, model: nn.Module, task: Task) -> None:
        super().__init__()
        self.model, self.task = model, task

    def forward(self, batch: Batch) -> Any:
        return self.task.loss_sum(self.model(batch.inputs), batch.targets)


def _origin(parts: Parts, batch: Batch, event: NotFinite) -> Origin | None:
    """The first operation, and the user's line of it; None for what was there before the forward, or does not come
    again."""
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
    """Which sample of the training data holds what is no number, if one does."""
    found = next((rows for tensor in tensors_in(tuple(batch)) if (rows := bad_rows(tensor)) is not None), None)
    if found is None:
        return {}
    row, bad, _ = found
    numbers = next(parts.batches.keys(epoch, number)).numbers
    return {"sample": int(numbers[row]), "row": row, "bad_samples": bad}
