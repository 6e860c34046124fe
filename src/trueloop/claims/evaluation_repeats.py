"""evaluation-repeats: evaluating the same weights twice gives the same numbers, to the last bit.

The same samples are evaluated again, with other random numbers in between. Where something differs, the outputs of all
layers are laid side by side, and the first layer that gave something else is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, Final, final

import torch
from torch import nn

from trueloop.claims.claim import Claim
from trueloop.claims.digest import differing, digest_of_all
from trueloop.claims.rerun import found_at
from trueloop.claims.subject import RecipeSubject, ScriptSubject
from trueloop.claims.trace import Start, place_of, short_name, tracing
from trueloop.data.source import Batch
from trueloop.engine.batches import EvaluationBatches
from trueloop.engine.evaluate import evaluate
from trueloop.engine.parts import Parts
from trueloop.event import EvaluationRepeated, Place
from trueloop.measure.randomness import fence
from trueloop.results.proof import Cause, Proof
from trueloop.usercode.ownership import birthplace, class_place

__all__ = ["EvaluationRepeats"]

BATCHES: Final = 8
"""That are evaluated: what is left to chance differs in the first."""
SEEDS: Final = (11, 22, 33)
"""Of the random numbers before each evaluation: a branch that is taken by chance may be the same one twice."""
FOLLOWED: Final = 5_000
"""Outputs of layers that are kept in mind."""

DRAWS: Final = Cause("the layer draws random numbers in eval mode as well", "draw only `if self.training:`")
DROPOUT: Final = Cause(
    "a dropout ignores eval mode", "F.dropout(x, p, training=self.training); `trueloop explain MOD104`"
)
MODE: Final = Cause(
    "a part stays in train mode when model.eval() is called",
    "look for a .train() in a forward, or a train() that is overridden",
)
STATE: Final = Cause("evaluating changes buffers of the model", "write into buffers only `if self.training:`")
DATA: Final = Cause("the samples to evaluate on are drawn anew each time", "draw them once, with a seed, and keep them")
MEMORY: Final = Cause(
    "the layer keeps something from one call to the next", "look for attributes that its forward writes"
)


@final
class EvaluationRepeats(Claim):
    name = "evaluation-repeats"
    healthy = "loss, metrics, every output and every buffer are the same to the last bit"
    causes: ClassVar[tuple[Cause, ...]] = (DROPOUT, DRAWS, MODE, STATE, DATA, MEMORY)

    def of_recipe(self, subject: RecipeSubject) -> Proof:
        parts = subject.parts()
        modes = [module.training for module in parts.model.modules()]
        passes = [_evaluated(parts, seed) for seed in SEEDS]
        first = passes[0]
        other = next((each for each in passes[1:] if each.differs_from(first)), passes[-1])
        changed = differing(
            passes[-2].state, passes[-1].state
        )  # from the second to the third: what the first one has made may stay
        forgotten = [
            name
            for (name, module), mode in zip(parts.model.named_modules(), modes, strict=True)
            if module.training != mode
        ]
        facts: dict[str, object] = {
            "batches": first.batches,
            "passes": len(passes),
            "values": first.values,
            "again": other.values,
        }
        if not other.differs_from(first) and not changed and not forgotten:
            return self.holds(
                f"{_shown(first.values)} in each of {len(SEEDS)} evaluations of {first.batches} batches", facts
            )
        facts |= {"changed_buffers": changed, "not_put_back": forgotten, "in_train_mode": first.training}
        if first.data != other.data:
            return self.fails("the samples to evaluate on are others the second time", facts, (DATA,))
        if not other.differs_from(first):
            what, cause = (changed[0], STATE) if changed else (forgotten[0], MODE)
            said = (
                f"evaluating changes {what}"
                if changed
                else f"{what or 'the model'} is not in the mode that it was in before"
            )
            return self.fails(said, facts, (cause,), _place(parts.model, what.rpartition(".")[0] if changed else what))
        return self._named(parts, first, other, changed, facts)

    def _named(self, parts: Parts, first: _Pass, other: _Pass, changed: list[str], facts: dict[str, object]) -> Proof:
        layer = next((one[0] for one, two in zip(first.layers, other.layers, strict=False) if one != two), None)
        module = parts.model.get_submodule(layer) if layer is not None else parts.model
        drawn = _drawn(parts)
        said = f"{_shown(first.values)} in one evaluation, {_shown(other.values)} in the next"
        said += (
            f"; {layer or 'the model'} ({type(module).__name__}) is the first layer to differ"
            if layer is not None
            else ""
        )
        cause = MODE if first.training else DRAWS if drawn else STATE if changed else MEMORY
        cause = DROPOUT if drawn and drawn[0] in DROPS and not first.training else cause
        facts |= {"layer": layer, "class": type(module).__name__, "drawn_by": drawn[0] if drawn else None}
        place = (drawn[1] if drawn else None) or _place(parts.model, layer or "")
        return self.fails(said, facts, (cause, *(each for each in self.causes if each is not cause)), place)

    def of_script(self, subject: ScriptSubject) -> Proof:
        for finding in subject.checked.findings("MOD104", "MOD105"):
            causes = (DROPOUT,) if finding["code"] == "MOD104" else (DRAWS,)
            return self.fails(
                finding["message"], {"code": finding["code"], **finding["evidence"]}, causes, found_at(finding)
            )
        asked = subject.checked.of(EvaluationRepeated)
        meant = [event for event in asked if not event.sampling]
        worst = max(meant, key=lambda event: event.change, default=None)
        if worst is None:
            why = (
                "the model samples on purpose"
                if asked
                else "no model was scored against labels in eval mode in this run"
            )
            return self.unproved(why)
        facts = {"model": worst.name, "samples": worst.batch, "change": worst.change}
        if worst.change == 0:
            return self.holds(
                f"{worst.batch} samples got the same outputs from {worst.name} with other random numbers", facts
            )
        said = (
            f"the outputs of {worst.name} for the same {worst.batch} samples differ by {worst.change:.1e} of their size"
        )
        return self.fails(said, facts, (DRAWS, MEMORY), worst.drawn_at or worst.place)


DROPS: Final = ("bernoulli_", "native_dropout", "dropout")
"""By which operations a dropout draws."""


@dataclass
class _Pass:
    """One evaluation."""

    values: dict[str, float] = field(default_factory=dict)
    layers: list[tuple[str, int]] = field(default_factory=list)
    """Each call of each layer, in the order in which they ended, with a digest of what came out."""
    data: list[int] = field(default_factory=list)
    training: list[str] = field(default_factory=list)
    """Layers that were in train mode."""
    state: dict[str, Any] = field(default_factory=dict)
    """After it."""

    @property
    def batches(self) -> int:
        return len(self.data)

    def differs_from(self, other: _Pass) -> bool:
        return (repr(self.values), self.layers, self.data) != (repr(other.values), other.layers, other.data)


def _evaluated(parts: Parts, seed: int) -> _Pass:
    made = _Pass()
    model = parts.ema.model if parts.ema else parts.model

    def follow(name: str) -> Any:
        def ended(module: nn.Module, _: Any, output: Any) -> None:
            if len(made.layers) < FOLLOWED:
                made.layers.append((name, digest_of_all(output)))
            if module.training and name not in made.training:
                made.training.append(name)

        return ended

    hooks = [module.register_forward_hook(follow(name)) for name, module in model.named_modules()]
    try:
        with fence(seed):
            made.values = evaluate(
                model, _watched(_few(parts), made), parts.task, parts.device, parts.precision, parts.peers
            )
    finally:
        for hook in hooks:
            hook.remove()
    made.state = {
        name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in model.state_dict().items()
    }
    return made


def _few(parts: Parts) -> Iterator[Batch]:
    """Of the validation data; of the training data where there are none."""
    source = parts.splits.valid or parts.splits.train
    return islice(iter(EvaluationBatches(source, parts.splits, parts.recipe, parts.device, parts.peers)), BATCHES)


def _watched(batches: Iterator[Batch], made: _Pass) -> Iterator[Batch]:
    for batch in batches:
        made.data.append(digest_of_all(tuple(batch)))
        yield batch


def _drawn(parts: Parts) -> tuple[str, Place | None] | None:
    """The operation that draws random numbers while the model evaluates a batch, and the user's line."""
    model = parts.ema.model if parts.ema else parts.model
    few = list(islice(_few(parts), 1))
    with fence(), tracing(Start(SEEDS[0], SEEDS[0], SEEDS[0])) as trace:
        evaluate(model, few, parts.task, parts.device, parts.precision, parts.peers)
    entry = next((each for each in (*trace.operations, *trace.draws) if each.draws), None)
    return None if entry is None else (short_name(entry.name), place_of(trace, entry.place))


def _place(model: nn.Module, name: str) -> Place | None:
    """Where the layer's class is written, or where the layer is made."""
    return class_place(type(model.get_submodule(name))) or (birthplace(model, name) if name else None)


def _shown(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.6g}" for name, value in list(values.items())[:2])
