"""MDL101 layers-in-a-plain-list: layers that are used are kept where PyTorch does not find them.

What it sees
------------
A module keeps layers or parameters in a list, tuple, dict or set (nested ones too). They are not among `parameters()`,
they take part in the forward and receive gradients, and no optimizer holds them.

Why it hurts
------------
PyTorch finds layers that are attributes of a module, not those inside a plain container: they are never trained, never
saved in the state_dict, not moved by `.to(device)` and not switched by `train()` and `eval()`. The rest of the model
learns around random layers, and the loss often still falls.

Evidence
--------
The class and the attribute, the kind of container, how many layers and numbers are hidden.

Use instead
-----------
    self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(4)])

`nn.ModuleDict` for a dict, `nn.ParameterList` and `nn.ParameterDict` for parameters.

When it is fine
---------------
A teacher or a reference network that is hidden on purpose is not reported: when it is frozen, in eval mode, gets no
gradient, is the one finished module in the list, or when the layers were given to an optimizer by hand.
"""

from __future__ import annotations

import ast
from typing import final

from trueloop.event import HiddenPart, ModelExamined
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.source import Source, called_name, diff, is_self_attribute, prefix_of_layers, source_of

__all__ = ["LayersInAPlainList"]

_KNOWN_TO_BOTH = frozenset({"append", "extend", "insert", "pop", "keys", "values", "items", "update", "clear"})
"""Methods that the containers of torch.nn have as well."""


@final
class LayersInAPlainList(Rule):
    code = "MDL101"
    name = "layers-in-a-plain-list"
    severity = Severity.ERROR
    not_applicable = "no model was trained for two steps"

    def on_model_examined(self, event: ModelExamined) -> Findings:
        for part in event.hidden:
            if not (part.used and part.trainable) or part.held:
                continue
            things = "layers" if part.kind == "module" else "parameters"
            yield self.finding(
                event,
                f"{part.owner}.{part.attribute} is a plain {part.container} of {part.items} {things} ({part.parameters:,} numbers) that "
                "the forward uses and parameters() does not find: no optimizer trains them and no checkpoint keeps them.",
                fix=f"Keep them in {_container(part)}, so that PyTorch finds them.",
                evidence={
                    "model": event.name,
                    "owner": part.owner,
                    "attribute": part.attribute,
                    "container": part.container,
                    "items": part.items,
                    "hidden_parameters": part.parameters,
                },
                place=part.place,
                diff=_wrapped(part),
            )


def _container(part: HiddenPart) -> str:
    kind = "Module" if part.kind == "module" else "Parameter"
    return f"nn.{kind}{'Dict' if 'dict' in part.container else 'List'}"


def _wrapped(part: HiddenPart) -> str:
    """`[...]` -> `nn.ModuleList([...])`, where the assigned value is written out and holds nothing else."""
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
        return all(
            isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value.isidentifier()
            for key in value.keys
        )
    if isinstance(value, ast.DictComp):
        dotted = any(
            isinstance(node, ast.Constant) and "." in str(node.value) for node in ast.walk(value)
        )  # no key may hold a dot
        text = isinstance(value.key, ast.JoinedStr) or (
            isinstance(value.key, ast.Call) and called_name(value.key) == "str"
        )
        return text and not dotted
    return isinstance(value, (ast.List, ast.Tuple, ast.ListComp))


def _used_as_both_can(source: Source, part: HiddenPart) -> bool:
    """No method of list or dict is called on it that torch's containers lack, and it is not put together with `+`."""
    for node in ast.walk(source.tree):
        if is_self_attribute(node, part.attribute):
            above = next(source.parents(node), None)
            if isinstance(above, ast.Attribute) and above.attr not in _KNOWN_TO_BOTH:
                return False
            if isinstance(above, (ast.BinOp, ast.Delete)):
                return False
    return True
