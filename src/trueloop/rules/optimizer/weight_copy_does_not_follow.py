"""OPT120 weight-copy-does-not-follow: an average or target network is the weights themselves, moves away, or stays.

What it sees
------------
Sampled steps, operation by operation. Your code updates tensors from trained weights of the same shapes: a moving
average, a target network, a teacher. Measured is what the update does, however it is written:

- the copy shares its memory with the weights, so each update averages a weight with itself;
- a model that bootstraps targets (`reward + discount * value`) shares its memory with the trained model, all of it;
- each update moves the copy away from the weights;
- the update is written into the trained weights: they are averaged with those of a model that is called without a
  graph in the step, and that keeps its initial random weights for the whole run;
- the update leaves the copy exactly as it was, or covers less than a sixteenth of the distance in the whole run;
- the copy is evaluated after the last step, and most of it is still the initial weights;
- the update computes the average of copy and weight into a new tensor that nothing reads, and the copy stays.

Why it hurts
------------
A target network that shares memory changes with every step: it is not there. An average that shares memory averages
nothing, and shrinks or changes the weights that are being trained. One that
moves away grows without bound. One that stays is the random initialization: evaluation, targets and saved weights are
those of an untrained model.

Evidence
--------
The number of copies, the share of the distance to the weights that an update covers, the distance, and the steps.

Use instead
-----------
    shadow = {name: p.detach().clone() for name, p in model.named_parameters()}
    for name, p in model.named_parameters():
        shadow[name].lerp_(p.detach(), 1 - decay)

    target.load_state_dict(online.state_dict())      # copies; `t.data = o.data` does not

When it is fine
---------------
Not reported: copies that follow by any share and are not what is evaluated in the end (targets of a training, keys of
contrastive learning), runs that load weights or change them little (fine-tuning), a decay that starts low, tensors that
are not close to the weights when first seen (momentum, importance weights), copies that are replaced now and then as a
whole, updates that make a new tensor, target networks that share a part of the trained model, and models that
share their memory with it and compute no targets (the same weights in eval mode, or for acting).
"""

import ast
from collections.abc import Iterator
from typing import Final

from trueloop.event import (
    CopyEvaluatedLast,
    ModelUse,
    Place,
    RunEnded,
    StateMatched,
    Stepped,
    StepProgram,
    TargetsBootstrapped,
    WeightCopies,
)
from trueloop.event.operation_names import ANY_PRODUCT, PRODUCTS
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Finding, Findings, Rule, Severity, on_line, plural
from trueloop.usercode.source import source_of

__all__ = ["WeightCopyDoesNotFollow"]

CLOSE: Final = 0.5  # Distance of a copy when it is first measured
SCALES: Final = ANY_PRODUCT - PRODUCTS
ADDS: Final = frozenset({"add_", "__iadd__"})
AWAY: Final = -1e-6
LOOKS: Final = 2
STILL_LOOKS: Final = 3
STEPS: Final = 200
COVERED_BY_NOW: Final = 0.01  # The same, in a run that was cut off
COVERED: Final = 0.06  # Share of the distance, over the whole run
COVERED_IF_EVALUATED: Final = 0.4  # The same, of a copy that is evaluated in the end
LONG: Final = 500  # Steps: shorter runs of a slow average are trials
FAR: Final = 0.3  # Distance of a copy from the trained weights that makes it another model


class WeightCopyDoesNotFollow(Rule, code="OPT120", severity=Severity.ERROR):
    not_applicable = "no optimizer step was seen"

    def __init__(self) -> None:
        self._looks: list[WeightCopies] = []
        self._evaluated: CopyEvaluatedLast | None = None
        self._loaded = False
        self._bootstrapped: set[int] = set()  # models whose values are in targets
        self._pulls: dict[Place, tuple[StepProgram, int, int]] = {}
        """Lines that average trained weights with untrained ones: the latest program, how many weights and programs."""
        self._two_way: set[Place] = set()

    def on_targets_bootstrapped(self, event: TargetsBootstrapped) -> None:
        self._bootstrapped.add(event.model)

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training":
            return
        view = ProgramView(event)
        for place, untrained in _pulled_to(view).items():
            looks = self._pulls[place][2] if place in self._pulls else 0
            if untrained:
                self._pulls[place] = (event, untrained, looks + 1)
            elif looks:
                self._two_way.add(place)
        for target, trained, count in _shared_targets(view) if self._bootstrapped else ():
            if target.model in self._bootstrapped and self.count("target", target.model) == 1:
                yield self.finding(
                    event,
                    f"{target.name}, whose values are in the targets, shares the memory of all its "
                    f"{plural(count, 'parameter')} with the trained {trained.name}: it changes with every step.",
                    fix="Copy the values: `t.data.copy_(o.data)`, or `target.load_state_dict(online.state_dict())`.",
                    evidence={"model": target.name, "trained": trained.name, "parameters": count,
                              "called": target.place},
                    place=_assigned_data(target.place),
                )  # fmt: skip

    def on_stepped(self, event: Stepped) -> None:
        """A run with steps was checked."""

    def on_state_matched(self, event: StateMatched) -> None:
        self._loaded |= event.from_file and event.step == 0

    def on_copy_evaluated_last(self, event: CopyEvaluatedLast) -> None:
        self._evaluated = event

    def on_weight_copies(self, event: WeightCopies) -> Findings:
        if event.shared:
            if self.count("shared") == 1:
                yield self.finding(
                    event,
                    f"The copy of {event.weight or 'a weight'} shares its memory with the weight: the update averages "
                    "the weight with itself, and changes it.",
                    fix="Copy the tensors when you create the average: `p.detach().clone()` or `copy.deepcopy(model)`.",
                    evidence={"weight": event.weight, "update": event.place},
                    place=_creation(event.place),
                )
            return
        self._looks.append(event)
        looks = self._looks
        if len(looks) < LOOKS or looks[0].distance > CLOSE or any(look.most >= AWAY for look in looks):
            return
        yield self.finding(
            event,
            f"Each update moves {_copies(event.copies)} of trained weights away from "
            f"them, by {-event.follow:.2g} of the distance ({plural(len(looks), 'sampled step')}).",
            fix="The copy must move towards the weights: `copy.lerp_(weight, 1 - decay)`.",
            evidence={"copies": event.copies, "follow": event.follow, "distance": event.distance,
                      "first_distance": looks[0].distance, "sampled_steps": len(looks)},
        )  # fmt: skip

    def on_run_ended(self, end: RunEnded) -> Findings:
        for place, (program, count, looks) in self._pulls.items():
            if looks >= LOOKS and place not in self._two_way and end.reason == "finished":
                yield self._pulled(program, place, count, looks)
        yield from self._slow_copies(end)

    def _pulled(self, event: StepProgram, place: Place, count: int, looks: int) -> Finding:
        return self.finding(
            event,
            f"This line averages {plural(count, 'trained weight')} with those of a model that nobody trains, and "
            "writes the result into the trained ones. The copy keeps its random weights, and pulls the trained ones "
            "to them.",
            fix="Write into the copy: `copy.lerp_(weight, 1 - decay)`.",
            evidence={"weights": count, "sampled_steps": looks},
            place=place,
        )

    def _slow_copies(self, end: RunEnded) -> Findings:
        looks = self._looks
        if len(looks) < STILL_LOOKS or looks[0].distance > CLOSE or end.step < STEPS:
            return
        share = max(look.most for look in looks)
        covered = 1 - (1 - min(1.0, share)) ** end.step if share >= 0 else 1.0
        still = all(look.unchanged == look.copies for look in looks)
        event = looks[-1]
        if not still and covered >= (COVERED if end.reason == "finished" else COVERED_BY_NOW):
            if self._is_evaluated(end) and covered <= COVERED_IF_EVALUATED:
                yield self._slow(event, share, covered, end.step)
            return
        if still and all(look.lost for look in looks):
            yield self._lost(event, end.step)
            return
        yield self.finding(
            event,
            f"An update covers {share:.2g} of the distance between trained weights and their "
            f"{_copies(event.copies)}: {covered:.2%} in all {end.step} steps.",
            fix="Lower the decay (raise tau) so that the copies follow within the run.",
            evidence={"copies": event.copies, "follow": share, "steps": end.step, "distance": event.distance},
            severity=Severity.WARNING,
        )

    def _is_evaluated(self, end: RunEnded) -> bool:
        """The copy that is evaluated in the end is another model than the trained one, and began as random weights."""
        whole = end.reason == "finished" and end.step >= LONG
        return whole and self._evaluated is not None and not self._loaded and self._looks[-1].distance >= FAR

    def _slow(self, event: WeightCopies, share: float, covered: float, steps: int) -> Finding:
        evaluated = self._evaluated.place if self._evaluated is not None else None
        return self.finding(
            event,
            f"The averaged model that is evaluated{on_line(evaluated, event.place)} after the last step is still "
            f"{1 - covered:.0%} its initial weights: an update covers {share:.2g} of the distance, and the run has "
            f"{steps} steps.",
            fix=f"Choose a decay that fits the run: 1 - decay of at least {5 / steps:.1g}, or one that starts low and "
            "grows.",
            evidence={"copies": event.copies, "follow": share, "steps": steps, "initial": round(1 - covered, 3),
                      "distance": event.distance, "evaluated": evaluated},
            severity=Severity.WARNING,
        )  # fmt: skip

    def _lost(self, event: WeightCopies, steps: int) -> Finding:
        return self.finding(
            event,
            f"This line computes the average of {_copies(event.copies)} and trained weights into new tensors that "
            f"nothing reads: the copies are unchanged after {steps} steps.",
            fix="Write the result into the copy: `copy.lerp_(weight, 1 - decay)` or `copy.copy_(...)`.",
            evidence={"copies": event.copies, "weight": event.weight, "steps": steps, "distance": event.distance},
        )


def _shared_targets(view: ProgramView) -> Iterator[tuple[ModelUse, ModelUse, int]]:
    """Models that are called without a graph, in the memory of a trained model, with parameters of
    their own; that model, and how many parameters."""
    for target in view.program.models:
        own = _parameters(view, target)
        if target.grad or not own:
            continue
        for trained in view.program.models:
            others = _parameters(view, trained)
            if not trained.grad or trained.model == target.model or not own.isdisjoint(others):
                continue
            memories = {view.values[i].memory for i in others if view.values[i].trainer == "optimizer"}
            if all(view.values[i].memory in memories for i in own):
                yield target, trained, len(own)
                break


def _pulled_to(view: ProgramView) -> dict[Place, int]:
    """Lines that average trained matrices with those of a model that is called without a graph: how many of these have
    the values of an initialization. 0: other code writes to some of them."""
    called = {i for use in view.program.models if not use.grad for i in _parameters(view, use)}
    copies = {view.values[i].memory: view.values[i] for i in called if len(view.values[i].shape) > 1}
    trained = {v.memory for v in view.values if v.trainer == "optimizer"} - copies.keys()
    scaled: set[int] = set()
    found: dict[Place, list[bool]] = {}
    for operation in view.operations:
        memories = [view.values[index].memory for index in operation.inputs]
        if not memories or memories[0] not in trained or operation.place is None:
            continue
        if operation.name in SCALES:
            scaled.add(memories[0])
        if operation.name == "lerp_" or (operation.name in ADDS and memories[0] in scaled):
            others = [copies[memory] for memory in memories[1:] if memory in copies]
            found.setdefault(operation.place, []).extend(v.trainer == "nobody" and v.initial for v in others)
    large = any(view.is_large_matrix(index) for index in called)
    return {place: len(known) if all(known) and large else 0 for place, known in found.items() if known}


def _parameters(view: ProgramView, use: ModelUse) -> set[int]:
    reading = (operation for operation in view.operations if operation.model == use.model)
    return {index for operation in reading for index in operation.inputs if view.values[index].origin == "parameter"}


def _assigned_data(place: Place | None) -> Place | None:
    """The only line of the file that assigns to the `.data` of a tensor; otherwise the place itself."""
    if place is None:
        return None
    source = source_of(place.path)
    lines = [
        node
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Attribute) and target.attr == "data" for target in node.targets)
    ]
    return source.place(lines[0], place.function) if len(lines) == 1 else place


def _copies(count: int) -> str:
    return "1 copy" if count == 1 else f"{count} copies"


def _creation(place: Place | None) -> Place | None:
    """The only line outside of the updating function that assigns the name that the update writes to."""
    if place is None:
        return None
    source = source_of(place.path)
    statement, function = source.statement(place.line), source.enclosing_function(place.line)
    if statement is None:
        return place
    written = {node.attr for node in ast.walk(statement) if isinstance(node, ast.Attribute)}
    written |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    lines = [
        node
        for node in ast.walk(source.tree)
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None
        if any(isinstance(inner, (ast.DictComp, ast.ListComp, ast.Call)) for inner in ast.walk(node.value))
        if "parameters" in source.text(node.value) or "state_dict" in source.text(node.value)
        if _names(node) & written
        if function is None or not function.lineno <= node.lineno <= (function.end_lineno or node.lineno)
    ]
    return source.place(lines[0], place.function) if len(lines) == 1 else place


def _names(node: ast.Assign | ast.AnnAssign) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    attributes = {t.attr for t in targets if isinstance(t, ast.Attribute)}
    return attributes | {t.id for t in targets if isinstance(t, ast.Name)}
