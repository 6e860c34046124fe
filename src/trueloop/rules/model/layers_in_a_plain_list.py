"""MDL101 layers-in-a-plain-list: layers are stored in a Python list or dict, where PyTorch does not register them.

What it sees
------------
A module keeps layers or parameters in a list, tuple, dict or set (also nested). They are missing from `parameters()`,
the forward uses them, they receive gradients, and no optimizer holds them. Or the model is evaluated in eval mode, and
dropout or batch norm in such a container is still active, because `eval()` does not reach it.

Why it hurts
------------
PyTorch registers layers that are attributes of a module, not layers inside a plain container. Unregistered layers are
not trained, not saved in the `state_dict`, not moved by `.to(device)` and not switched by `train()` and `eval()`. The
other layers learn around the random ones, and the loss often still falls.

Evidence
--------
The class and the attribute, the container type, and the number of unregistered layers and values.

Use instead
-----------
    self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(4)])

Use `nn.ModuleDict` for a dict, `nn.ParameterList` and `nn.ParameterDict` for parameters.

When it is fine
---------------
Not reported: a teacher or reference network that is hidden on purpose (frozen, in eval mode, without gradients, or the
only module in the list), layers that you passed to an optimizer explicitly and that need no `eval()` or got their own,
and Monte Carlo dropout (the name says so, or the line calls `train()` of the layers themselves).
"""

import ast

from trueloop.event import HiddenPart, HiddenPartInTrainMode, ModelExamined
from trueloop.rules.rule import Findings, Rule, Severity, facts, on_line, plural
from trueloop.usercode.source import Source, called_name, diff, is_self_attribute, prefix_of_layers, source_of

__all__ = ["LayersInAPlainList"]

_KNOWN_TO_BOTH = frozenset({"append", "extend", "insert", "pop", "keys", "values", "items", "update", "clear"})
"""Methods that the containers of `torch.nn` also have."""


class LayersInAPlainList(Rule, code="MDL101", severity=Severity.ERROR):
    not_applicable = "no model was trained for two steps"

    def on_model_examined(self, event: ModelExamined) -> Findings:
        for part in event.hidden:
            if not (part.used and part.trainable) or part.held:
                continue
            things = "layers" if part.kind == "module" else "parameters"
            yield self.finding(
                event,
                f"`{part.owner}.{part.attribute}` is a plain {part.container} of {part.items} {things} "
                f"({part.parameters:,} values) missing from `parameters()`. They are not trained and not saved.",
                fix=f"Register them: `self.{part.attribute} = {_container(part)}(...)`.",
                evidence=facts(
                    part, "model owner attribute container items hidden_parameters=parameters", model=event.name
                ),
                place=part.place,
                diff=_wrapped(part),
            )

    def on_hidden_part_in_train_mode(self, event: HiddenPartInTrainMode) -> Findings:
        part = event.part
        if part.used and part.trainable and not part.held:
            return  # reported when the model was examined
        counts = {"dropout": event.active_dropouts, "batch norm": event.active_batch_norms}
        layers = " and ".join(plural(count, f"{kind} layer") for kind, count in counts.items() if count)
        yield self.finding(
            event,
            f"`{part.owner}.{part.attribute}` is a plain {part.container} of {part.items} layers, which `eval()` does "
            f"not reach: {layers} stayed in train mode in the evaluation{on_line(event.place, part.place)}.",
            fix=f"Register them: `self.{part.attribute} = {_container(part)}(...)`.",
            evidence=facts(
                part,
                "model owner attribute container items hidden_parameters=parameters",
                model=event.name,
                active_dropouts=event.active_dropouts,
                active_batch_norms=event.active_batch_norms,
            ),
            place=part.place,
            diff="" if part.held else _wrapped(part),  # the optimizer would hold them twice
        )


def _container(part: HiddenPart) -> str:
    kind = "Module" if part.kind == "module" else "Parameter"
    return f"nn.{kind}{'Dict' if 'dict' in part.container else 'List'}"


def _wrapped(part: HiddenPart) -> str:
    """`[...]` -> `nn.ModuleList([...])`, if the assigned value is a literal or a comprehension."""
    if part.place is None or part.container not in ("list", "tuple", "dict"):
        return ""
    source = source_of(part.place.path)
    statement, prefix = source.statement(part.place.line), prefix_of_layers(source)
    value = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else None
    whole = statement is not None and statement is source.assignment_to_self(part.owner, part.attribute)
    if value is None or not prefix or not whole or not source.is_after_init(statement) or not _can_be_wrapped(value):
        return ""
    if not _used_as_both_can(source, part):
        return ""
    empty = isinstance(value, (ast.List, ast.Dict)) and not ast.unparse(value).strip("[]{}")
    inside = "" if empty else source.text(value)
    inside = f"({inside})" if isinstance(value, ast.Tuple) and not inside.startswith("(") else inside
    return diff(source.path, [source.replacing(value, f"{prefix}{_container(part).removeprefix('nn.')}({inside})")])


def _can_be_wrapped(value: ast.expr) -> bool:
    if isinstance(value, ast.Dict):
        keys = [key.value if isinstance(key, ast.Constant) else None for key in value.keys]
        return all(isinstance(key, str) and key.isidentifier() for key in keys)
    if isinstance(value, ast.DictComp):
        dotted = any(isinstance(node, ast.Constant) and "." in str(node.value) for node in ast.walk(value))
        is_str_call = isinstance(value.key, ast.Call) and called_name(value.key) == "str"
        return (isinstance(value.key, ast.JoinedStr) or is_str_call) and not dotted  # keys must not contain a dot
    return isinstance(value, (ast.List, ast.Tuple, ast.ListComp))


def _used_as_both_can(source: Source, part: HiddenPart) -> bool:
    """No method is called on it that torch's containers lack, and it is not concatenated with `+`."""
    for node in ast.walk(source.tree):
        if is_self_attribute(node, part.attribute):
            above = next(source.parents(node), None)
            if isinstance(above, ast.Attribute) and above.attr not in _KNOWN_TO_BOTH:
                return False
            if isinstance(above, (ast.BinOp, ast.Delete)):
                return False
    return True
