"""OPT116 module-not-in-optimizer: a module of the step gets gradients, has its initial weights, and nobody trains it.

What it sees
------------
Sampled training steps, operation by operation. A loss is computed from parameters of a module, or from a parameter of
its own (`nn.Parameter`), and gradients flow to them. No optimizer has ever held any parameter of that module, no
weights were loaded into it, and no code writes to it. What it computes goes into weights that are trained (an encoder
before a decoder); or it takes part in the loss together with a target (a loss with parameters of its own); or it is a
head that takes what a trained model computed, in every call since its first, and its weights are still those of an
initialization, constant or uniform.

Why it hurts
------------
The module keeps its random initialization for the whole run, and everything after it learns to live with that. Nothing
crashes, and the loss falls, only not as far as it could.

Evidence
--------
The module, its parameters, and the number of sampled steps.

Use instead
-----------
    parameters = [*encoder.parameters(), *decoder.parameters(), *criterion.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-3)

If it should stay as it is: `encoder.requires_grad_(False)`, which also saves the time of its gradients.

When it is fine
---------------
Not reported: modules with loaded weights (a pretrained backbone or perceptual loss), in eval mode, behind a trained
tensor (an attacked model, a language model behind a learned prompt), behind a trained model if they are called with
data too (a simulator that made the data, a perceptual loss) or hold other values than an initialization, modules of
which an optimizer holds a part (that is parameters-not-in-optimizer), and parameters that your code updates."""

from typing import Final

from trueloop.event import ParametersAccounted, Place, RunEnded, Stepped, StepProgram
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Finding, Findings, Rule, Severity, plural

__all__ = ["ModuleNotInOptimizer"]

SAMPLED: Final = 2  # Steps that must show it; the first sampled one only makes the parameters known

_Found = dict[int, tuple[str, list[str], int, Place | None]]  # by model: its name, parameters, their values, a line


class ModuleNotInOptimizer(Rule, code="OPT116", severity=Severity.ERROR):
    not_applicable = "no training step was recorded"
    explained_by = ("optimizer-holds-old-parameters", "optimizer-holds-opponent", "parameters-not-in-optimizer")

    def __init__(self) -> None:
        self._built: Place | None = None
        self._heads: dict[int, Finding] = {}  # by model; held back: a head may be trained later, alone

    def on_stepped(self, event: Stepped) -> None:
        """A run with steps was checked."""

    def on_parameters_accounted(self, event: ParametersAccounted) -> None:
        self._built = self._built or event.optimizer_place

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training" or not event.losses or not event.complete:
            return
        view = ProgramView(event)
        for model in _trained_now(view) & self._heads.keys():
            del self._heads[model]
        for model, (name, names, size, place) in _untrained(view).items():
            seen = self.count(model, tuple(sorted(names)))
            if seen != SAMPLED:
                continue
            shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
            of = f" of {name}" if name else ""
            finding = self.finding(
                event,
                f"{shown}{of} ({size:,} values) got gradients in {plural(seen, 'sampled step')}, but belong to no "
                "optimizer, and nothing else trains or loads them.",
                fix="Pass these parameters to the optimizer too, or freeze them with `requires_grad_(False)`.",
                evidence={"model": name, "parameters": names[:16], "values": size, "sampled_steps": seen},
                place=self._built or place,
            )
            if _is_a_head(view, model):
                self._heads[model] = finding
            else:
                yield finding

    def on_run_ended(self, event: RunEnded) -> Findings:
        if event.reason == "finished":
            yield from self._heads.values()


def _untrained(view: ProgramView) -> _Found:
    """Parameters that get gradients and that nobody trains, by the model in whose forward they are used."""
    reached = _reached(view)
    trained = {index for index in reached if view.values[index].trainer == "optimizer"}
    left = {index for index in reached if view.values[index].trainer == "nobody"}
    if not left or not trained:
        return {}
    uses = {use.model: use for use in view.program.models}
    partly = {operation.model for index in trained for operation in view.readers.get(index, ())}
    others = {i for i, v in enumerate(view.values) if v.origin == "parameter" and v.trainer == "elsewhere"}
    partly |= {operation.model for index in others for operation in view.readers.get(index, ())}
    found: _Found = {}
    for index in sorted(left):
        readers = [operation for operation in view.readers.get(index, ()) if operation.grad]
        model = readers[0].model if readers else -1
        use = uses.get(model)
        if not readers or (model >= 0 and (use is None or not use.training or model in partly)):
            continue
        alone = model < 0 and not view.values[index].name
        if not (alone or _goes_into(view, index, trained) or _is_a_loss(view, model) or _is_a_head(view, model)):
            continue
        name = use.name if use is not None else ""
        label = view.values[index].name or f"an `nn.Parameter` of shape {list(view.values[index].shape)}"
        entry = found.setdefault(model, (name, [], 0, use.place if use is not None else readers[0].place))
        size = 1
        for length in view.values[index].shape:
            size *= length
        found[model] = (name, [*entry[1], label], entry[2] + size, entry[3])
    return found


def _reached(view: ProgramView) -> set[int]:
    """Parameters to which a loss sends a gradient: every value on the way has a graph."""
    seen: set[int] = set(view.program.losses)
    waiting = list(seen)
    while waiting:
        maker = view.maker(waiting.pop())
        for source in () if maker is None else maker.inputs:
            if source not in seen and view.values[source].grad:
                seen.add(source)
                waiting.append(source)
    return {index for index in seen if view.values[index].origin == "parameter"}


def _goes_into(view: ProgramView, parameter: int, trained: set[int]) -> bool:
    """Does something computed with the parameter meet a trained parameter?"""
    reached = {parameter}
    for operation in view.operations:
        if reached.isdisjoint(operation.inputs) or not operation.grad:
            continue
        if parameter not in operation.inputs and not trained.isdisjoint(operation.inputs):
            return True
        reached.update(output for output in operation.outputs if view.values[output].grad)
    return False


def _is_a_loss(view: ProgramView, model: int) -> bool:
    """A model that takes what trained weights computed together with something that none did, and gives one number."""
    for use in view.program.models:
        if use.model != model or len(use.inputs) < 2 or len(use.outputs) != 1:
            continue
        learned = [index in view.learned for index in use.inputs]
        if any(learned) and not all(learned) and view.values[use.outputs[0]].shape == ():
            return True
    return False


def _is_a_head(view: ProgramView, model: int) -> bool:
    """A model with initial weights that has only ever been called with what a trained model computed."""
    own = _parameters(view, model)
    if not all(view.values[i].initial for i in own) or not any(view.is_large_matrix(i) for i in own):
        return False
    trained = {i for i, v in enumerate(view.values) if v.trainer == "optimizer" and v.name}
    uses = [use for use in view.program.models if use.model == model]
    return all(
        use.always_behind and any(not trained.isdisjoint(view.behind(index)) for index in use.inputs) for use in uses
    )


def _parameters(view: ProgramView, model: int) -> set[int]:
    return {i for o in view.operations if o.model == model for i in o.inputs if view.values[i].origin == "parameter"}


def _trained_now(view: ProgramView) -> set[int]:
    """Models of which something trains a parameter."""
    return {o.model for o in view.operations for i in o.inputs if view.values[i].trainer in ("optimizer", "elsewhere")}
