"""MDL103 tensor-not-a-buffer: a tensor that the forward needs is neither a parameter nor a buffer.

What it sees
------------
The constructor of a module assigns a float tensor to an attribute. Other methods read it, it does not change from step
to step, and it is in neither `parameters()` nor `buffers()`. Also a tensor computed from a parameter that nothing else
keeps: `nn.Parameter(...) - 1` is not a parameter.

Why it hurts
------------
`.to(device)`, `.half()` and `.double()` do not move a plain tensor, and the `state_dict` does not contain it. On a GPU
the forward fails or mixes devices. A model loaded from a checkpoint uses a different tensor than in training (random
features, data statistics). What is computed from a parameter is never trained: the parameter is in no optimizer.

Evidence
--------
The class, the attribute, and the shape of the tensor.

Use instead
-----------
    self.register_buffer("scale", torch.tensor([0.5, 2.0]))

`persistent=False` keeps it out of the `state_dict` if it can be recomputed. Use `nn.Parameter` if it should be trained.

When it is fine
---------------
Not reported: caches and states that methods assign or write to, tensors moved where they are used (`self.scale.to(x)`)
or created on the device (`device=`), single values, tensors computed from parameters that a
module, an optimizer or a variable has, constants of loss modules, and models without
trained parameters (the frozen network of a style transfer).
"""

import ast

from trueloop.event import LooseTensor, ModelExamined
from trueloop.rules.rule import Finding, Findings, Rule, Severity, facts, statement_at
from trueloop.usercode.source import Source, diff, is_self_attribute, prefix_of_layers

__all__ = ["TensorNotABuffer"]


class TensorNotABuffer(Rule, code="MDL103", severity=Severity.WARNING):
    not_applicable = "no model was trained for two steps"

    def on_model_examined(self, event: ModelExamined) -> Findings:
        for tensor in event.loose:
            if not tensor.used or tensor.rebuilt:
                continue
            if tensor.computed:
                yield self._computed(event, tensor)
                continue
            shape = "x".join(map(str, tensor.shape))
            wrong = "requires a gradient but is not a parameter" if tensor.trainable else "is not a buffer"
            yield self.finding(
                event,
                f"`{tensor.owner}.{tensor.attribute}` ({shape}) is used by the model and {wrong}: `.to(device)` does "
                "not move it, and the `state_dict` does not contain it.",
                fix=f"Make it a parameter: `self.{tensor.attribute} = nn.Parameter(...)`."
                if tensor.trainable
                else f'Register it: `self.register_buffer("{tensor.attribute}", ...)`.',
                evidence=facts(tensor, "model owner attribute shape", model=event.name),
                place=tensor.place,
                diff=_registered(tensor),
            )

    def _computed(self, event: ModelExamined, tensor: LooseTensor) -> Finding:
        shape = "x".join(map(str, tensor.shape))
        return self.finding(
            event,
            f"`{tensor.owner}.{tensor.attribute}` ({shape}) is computed from a parameter that nothing else keeps. "
            "It is not a parameter: no optimizer trains it, and the `state_dict` does not contain it.",
            fix=f"Compute first, then make the parameter: `self.{tensor.attribute} = nn.Parameter(...)` around the "
            "complete expression.",
            evidence=facts(tensor, "model owner attribute shape", model=event.name),
            place=tensor.place,
        )


def _registered(tensor: LooseTensor) -> str:
    """`self.x = expr` -> `self.register_buffer("x", expr)`."""
    source, statement = statement_at(tensor.place)
    if not isinstance(statement, ast.Assign) or [type(target) for target in statement.targets] != [ast.Attribute]:
        return ""
    if not source.is_after_init(statement) or not _assigned_once(source, tensor):
        return ""
    value, prefix = source.text(statement.value), prefix_of_layers(source)
    if tensor.trainable:
        return diff(source.path, [source.replacing(statement.value, f"{prefix}Parameter({value})")]) if prefix else ""
    return diff(source.path, [source.replacing(statement, f'self.register_buffer("{tensor.attribute}", {value})')])


def _assigned_once(source: Source, tensor: LooseTensor) -> bool:
    """A name that the object or its class already has (`self.x = None`) cannot be registered."""
    owner = source.class_named(tensor.owner)
    if owner is None:
        return False
    named = [node for node in ast.walk(owner) if is_self_attribute(node, tensor.attribute)]
    stored = [node for node in named if isinstance(node.ctx, ast.Store)]
    of_class = [node for part in owner.body if isinstance(part, (ast.Assign, ast.AnnAssign)) for node in ast.walk(part)]
    return len(stored) == 1 and tensor.attribute not in {node.id for node in of_class if isinstance(node, ast.Name)}
