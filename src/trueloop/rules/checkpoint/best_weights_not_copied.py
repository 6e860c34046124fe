"""CKP104 best-weights-not-copied: the saved "best" weights continue to change during training.

What it sees
------------
A `state_dict()` that is kept in a variable and then loaded into its model, or saved, after further optimizer steps,
while its tensors still share memory with the model. Weights that are kept by `detach()`, with or without `.cpu()` on
the CPU, or by `numpy()`, and then loaded or copied (`copy_`) into themselves after further optimizer steps. A state
that was kept while other weights were loaded for a measurement, and then loaded back into itself. Or several results of
one `state_dict()` line that are kept at a time, for an average of clients or of checkpoints, although they are one and
the same memory. Copies, clones and files are not affected.

Why it hurts
------------
`state_dict()`, `detach()` and `numpy()` do not copy. The "best" weights change with every step, so loading them changes
nothing, and the file named best contains the last weights: the result is that of the last epoch, however much worse it
was. The average of states that share one memory is the last of them.

Evidence
--------
The step at which `state_dict()` or `detach()` was called, the step and line at which the result was used, and how many
tensors are shared. Of states that are kept together: how many, and the step of the first.

Use instead
-----------
    best = copy.deepcopy(model.state_dict())
    best = {name: p.detach().clone() for name, p in model.named_parameters()}
    best = {name: value.numpy().copy() for name, value in model.state_dict().items()}

When it is fine
---------------
Not reported: a state that is saved or loaded at once, copies (`copy.deepcopy`, `clone`), states loaded into another
model (target networks, averages), states of several models, states read from a file, a state that replaces the earlier
one under its name, and detached weights that your code writes to after the latest step: they are the weights on
purpose.
"""

import ast
from collections.abc import Iterator

from trueloop.event import Place, StateReused, StatesKept, Stepped
from trueloop.rules.rule import Finding, Findings, Rule, Severity, call_at, facts, on_line, plural
from trueloop.usercode.source import diff

__all__ = ["BestWeightsNotCopied"]


class BestWeightsNotCopied(Rule, code="CKP104", severity=Severity.ERROR):
    not_applicable = "no optimizer step was seen"
    applies_after = (Stepped,)

    def on_state_reused(self, event: StateReused) -> Findings:
        if event.kept_by != "state_dict":
            yield self._detached(event)
            return
        used = "loaded" if event.use == "load" else "saved"
        shared = "all" if event.shared >= event.tensors else f"{event.shared} of"
        steps = event.step - event.taken_step
        cause = (
            f"had changed in {plural(steps, 'step')}" if steps else "were overwritten when other weights were loaded"
        )
        yield self.finding(
            event,
            f"`state_dict()` of step {event.taken_step} was {used} at step {event.step}, but {shared} its "
            f"{event.tensors} tensors share memory with the model and {cause}.",
            fix="Keep a copy: `copy.deepcopy(model.state_dict())`.",
            evidence=facts(
                event, "taken_at_step=taken_step used_at_step=step used_at=use_place use shared_tensors=shared tensors"
            ),
            diff=_copied(event.place),
        )

    def _detached(self, event: StateReused) -> Finding:
        copied = "p.numpy().copy()" if event.kept_by == "numpy" else "p.detach().clone()"
        used = "copied back" if event.use == "copy" else "loaded"
        steps = event.step - event.taken_step
        return self.finding(
            event,
            f"The weights kept by `{event.kept_by}()` at step {event.taken_step} were {used} at step {event.step}"
            f"{on_line(event.use_place, event.place)}, but they share memory with the model and had changed in "
            f"{plural(steps, 'step')}: nothing was restored.",
            fix=f"Keep a copy: `{copied}`.",
            evidence=facts(event, "taken_at_step=taken_step used_at=use_place use shared_tensors=shared tensors"),
            diff=_cloned(event.place) if event.kept_by == "detach" else "",
        )

    def on_states_kept(self, event: StatesKept) -> Findings:
        yield self.finding(
            event,
            f"{event.states} results of this `state_dict()`, the first from step {event.first_step}, are kept until "
            f"step {event.step}, but share memory with the model: all of them are its latest weights.",
            fix="Keep copies: `copy.deepcopy(model.state_dict())`.",
            evidence=facts(event, "states first_step step"),
            diff=_copied(event.place),
        )


def _cloned(place: Place | None) -> str:
    """A clone of what is kept: of the value of a comprehension, or of the result of the call."""
    source, call = call_at(place, "detach")
    if call is None:
        return ""
    kept = call
    for parent in source.parents(call):  # v.detach().cpu()
        if not isinstance(parent, (ast.Attribute, ast.Call)) or call not in _chain(parent):
            break
        kept = parent if isinstance(parent, ast.Call) else kept
    if kept.lineno != kept.end_lineno:
        return ""
    return diff(source.path, [source.replacing(kept, f"{source.text(kept)}.clone()")])


def _chain(node: ast.expr) -> Iterator[ast.expr]:
    """The calls and attributes that an expression begins with: those of `a` in `a.b().c`."""
    while isinstance(node, (ast.Attribute, ast.Call)):
        yield node
        node = node.value if isinstance(node, ast.Attribute) else node.func


def _copied(place: Place | None) -> str:
    """A copy of the state, or clones of the values inside a comprehension."""
    source, call = call_at(place, "state_dict")
    if call is None or call.lineno != call.end_lineno:
        return ""
    parents = source.parents(call)
    if isinstance(next(parents, None), ast.Attribute):  # state_dict().items()
        comprehension = next((parent for parent in parents if isinstance(parent, ast.DictComp)), None)
        if comprehension is None or comprehension.value.lineno != comprehension.value.end_lineno:
            return ""
        return diff(source.path, [source.replacing(comprehension.value, f"{source.text(comprehension.value)}.clone()")])
    text = source.text(call)
    imports = [alias for node in source.tree.body if isinstance(node, ast.Import) for alias in node.names]
    imports_copy = any(alias.name == "copy" and not alias.asname for alias in imports)
    copied = f"copy.deepcopy({text})" if imports_copy else f"{{k: v.clone() for k, v in {text}.items()}}"
    return diff(source.path, [source.replacing(call, copied)])
