"""evaluation-repeats: evaluating the same weights twice gives bit-identical results.

The same samples are evaluated again with different seeds. Of a failure, the first layer whose output differs is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, Final, final

import torch
from torch import nn

from trueloop.claims.claim import Claim
from trueloop.claims.operation_trace import Start, place_of, short_name, tracing
from trueloop.claims.repeat_runs import finding_place
from trueloop.claims.subject import RecipeSubject, ScriptSubject
from trueloop.claims.tensor_digest import differing_names, digest_of_all
from trueloop.data.source import Batch
from trueloop.engine.batches import EvaluationBatches
from trueloop.engine.evaluate import evaluate
from trueloop.engine.layers import remove_after
from trueloop.engine.parts import Parts
from trueloop.event import EvaluationRepeated, Place
from trueloop.measure.randomness import fence
from trueloop.results.proof import Cause, Proof
from trueloop.usercode.ownership import class_place, layer_place

__all__ = ["EvaluationRepeats"]

BATCHES: Final = 8  # evaluated: randomness shows in the first
SEEDS: Final = (11, 22, 33)  # three evaluations: a random branch may be the same twice
LAYER_OUTPUTS: Final = 5_000  # recorded at most
DROPOUT_OPERATIONS: Final = ("bernoulli_", "native_dropout", "dropout")

DRAWS = Cause("the layer draws random numbers in eval mode too", "draw only `if self.training:`")
DROPOUT = Cause("a dropout ignores eval mode", "`F.dropout(x, p, self.training)`; `trueloop explain MOD104`")
MODE = Cause("a part stays in train mode after `model.eval()`", "look for `.train()` in a forward; an own `train()`")
STATE = Cause("the evaluation changes buffers of the model", "write to buffers only `if self.training:`")
DATA = Cause("the evaluation samples are drawn again each time", "draw them once, with a seed, and keep them")
MEMORY = Cause("the layer keeps a state from call to call", "look for attributes that its forward writes")


@final
class EvaluationRepeats(Claim):
    name = "evaluation-repeats"
    healthy = "loss, metrics, every output and every buffer are bit-identical"
    causes: ClassVar[tuple[Cause, ...]] = (DROPOUT, DRAWS, MODE, STATE, DATA, MEMORY)

    def try_recipe(self, subject: RecipeSubject) -> Proof:
        parts = subject.parts()
        modes = [module.training for module in parts.model.modules()]
        passes = [_evaluate(parts, seed) for seed in SEEDS]
        first = passes[0]
        other = next((each for each in passes[1:] if each.differs_from(first)), passes[-1])
        changed = differing_names(passes[-2].state, passes[-1].state)  # the first evaluation may create buffers
        named = zip(parts.model.named_modules(), modes, strict=True)
        wrong_mode = [name for (name, module), mode in named if module.training != mode]
        facts: dict[str, object] = {"batches": len(first.data), "passes": len(passes)}
        facts |= {"values": first.values, "again": other.values}
        if not other.differs_from(first) and not changed and not wrong_mode:
            where = f"in each of {len(SEEDS)} evaluations of {len(first.data)} batches"
            return self.holds(f"{_words(first.values)} {where}", facts)
        facts |= {"changed_buffers": changed, "mode_not_restored": wrong_mode, "in_train_mode": first.training}
        if first.data != other.data:
            return self.fails("the second evaluation gets different samples", facts, (DATA,))
        if other.differs_from(first):
            return self._name_layer(parts, first, other, changed, facts)
        if changed:
            layer = changed[0].rpartition(".")[0]
            return self.fails(f"evaluating changes {changed[0]}", facts, (STATE,), _place(parts.model, layer))
        said = f"{wrong_mode[0] or 'the model'} is not in the mode it had before the evaluation"
        return self.fails(said, facts, (MODE,), _place(parts.model, wrong_mode[0]))

    def _name_layer(self, parts: Parts, first: _Pass, other: _Pass, changed: list[str], facts: dict[str, Any]) -> Proof:
        layer = next((one[0] for one, two in zip(first.layers, other.layers, strict=False) if one != two), None)
        module = parts.model.get_submodule(layer) if layer is not None else parts.model
        draw = _first_draw(parts)
        said = f"{_words(first.values)} in one evaluation, {_words(other.values)} in the next"
        if layer is not None:
            said += f"; {layer or 'the model'} ({type(module).__name__}) is the first layer to differ"
        cause = MODE if first.training else DRAWS if draw else STATE if changed else MEMORY
        cause = DROPOUT if draw and draw[0] in DROPOUT_OPERATIONS and not first.training else cause
        if cause is DRAWS and draw is not None and parts.recipe.loss is not None:
            at = f", line {draw[1].line}" if draw[1] else ""
            said = f"the forward draws random numbers in eval mode ({draw[0]}{at}), as a model that samples does"
            return self.unproved(f"not applicable: {said}; if that is not meant, draw only `if self.training:`", facts)
        facts |= {"layer": layer, "class": type(module).__name__, "drawn_by": draw[0] if draw else None}
        place = (draw[1] if draw else None) or _place(parts.model, layer or "")
        return self.fails(said, facts, self.likely_first(cause), place)

    def try_script(self, subject: ScriptSubject) -> Proof:
        for finding in subject.checked.findings("MOD104", "MOD105"):
            causes = (DROPOUT,) if finding["code"] == "MOD104" else (DRAWS,)
            evidence = {"code": finding["code"], **finding["evidence"]}
            return self.fails(finding["message"], evidence, causes, finding_place(finding))
        events = subject.checked.of(EvaluationRepeated)
        worst = max((event for event in events if not event.sampling), key=lambda event: event.change, default=None)
        if worst is None:
            sampling = "the model samples on purpose"
            return self.unproved(sampling if events else "no model in eval mode was scored against labels in this run")
        facts = {"model": worst.name, "samples": worst.batch, "change": worst.change}
        if worst.change == 0:
            return self.holds(f"{worst.name} gave {worst.batch} samples the same outputs under a second seed", facts)
        said = f"{worst.name} gave {worst.batch} samples outputs that differ by {worst.change:.1e} of their scale"
        return self.fails(said, facts, (DRAWS, MEMORY), worst.drawn_at or worst.place)


@dataclass
class _Pass:
    """One evaluation."""

    values: dict[str, float] = field(default_factory=dict)
    layers: list[tuple[str, int]] = field(default_factory=list)  # each call of a layer, with a digest of its output
    data: list[int] = field(default_factory=list)
    training: list[str] = field(default_factory=list)  # layers in train mode
    state: dict[str, Any] = field(default_factory=dict)  # afterwards

    def differs_from(self, other: _Pass) -> bool:
        return (repr(self.values), self.layers, self.data) != (repr(other.values), other.layers, other.data)


def _evaluate(parts: Parts, seed: int) -> _Pass:
    result = _Pass()
    model = parts.ema.model if parts.ema else parts.model

    def record(name: str) -> Any:
        def hook(module: nn.Module, _: Any, output: Any) -> None:
            if len(result.layers) < LAYER_OUTPUTS:
                result.layers.append((name, digest_of_all(output)))
            if module.training and name not in result.training:
                result.training.append(name)

        return hook

    def batches() -> Iterator[Batch]:
        for batch in _batches(parts):
            result.data.append(digest_of_all(tuple(batch)))
            yield batch

    hooks = (module.register_forward_hook(record(name)) for name, module in model.named_modules())
    with remove_after(hooks), fence(seed):
        result.values = evaluate(model, batches(), parts.task, parts.device, parts.precision, parts.peers)
    state = model.state_dict()
    result.state = {name: each.clone() if isinstance(each, torch.Tensor) else each for name, each in state.items()}
    return result


def _batches(parts: Parts) -> Iterator[Batch]:
    """Of the validation data, or of the training data if there are none."""
    source = parts.splits.valid or parts.splits.train
    return islice(iter(EvaluationBatches(source, parts.splits, parts.recipe, parts.device, parts.peers)), BATCHES)


def _first_draw(parts: Parts) -> tuple[str, Place | None] | None:
    """The operation that draws random numbers in the evaluation of a batch, and the user's line."""
    model = parts.ema.model if parts.ema else parts.model
    first = list(islice(_batches(parts), 1))
    with fence(), tracing(Start(SEEDS[0], SEEDS[0], SEEDS[0])) as trace:
        evaluate(model, first, parts.task, parts.device, parts.precision, parts.peers)
    entry = next((each for each in (*trace.operations, *trace.draws) if each.draws), None)
    return None if entry is None else (short_name(entry.name), place_of(trace, entry.place))


def _place(model: nn.Module, name: str) -> Place | None:
    """Where the layer's class is defined, or where the layer is built."""
    return class_place(type(model.get_submodule(name))) or (layer_place(model, name) if name else None)


def _words(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.6g}" for name, value in list(values.items())[:2])
