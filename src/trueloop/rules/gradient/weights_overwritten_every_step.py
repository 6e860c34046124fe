"""GRD116 weights-overwritten-every-step: other code puts a weight back to what it was before the step, every time.

What it sees
------------
Some weights before a step, after it, and before the next step, on the first six steps. The step changed a weight
matrix, and before the next one it is exactly what it was before, in four comparisons in a row, while other weights
keep their updates.

Why it hurts
------------
The optimizer trains the weight, and a line undoes that: the layer never learns. The usual cause is a line meant for one
row, one element or the start of the run that writes to the whole tensor (`weight.zero_()` for `weight[pad].zero_()`).

Evidence
--------
The weights, the number of comparisons, whether all their elements are equal, and the line that writes.

Use instead
-----------
    with torch.no_grad():
        embedding.weight[pad].zero_()         # the row, not the tensor

To keep a layer as it is: `layer.requires_grad_(False)`.

When it is fine
---------------
Not reported: weights of which a part is written (rows, a mask, clamping, normalization), vectors, and all weights put
back at once (test-time adaptation, meta-learning, a search for the learning rate).
"""

from typing import Final

from trueloop.event import Place, StepProgram, UpdatesUndone
from trueloop.rules.rule import Findings, Rule, Severity, plural

__all__ = ["WeightsOverwrittenEveryStep"]

LOOKS: Final = 4


class WeightsOverwrittenEveryStep(Rule, code="GRD116", severity=Severity.ERROR):
    not_applicable = "no optimizer took two steps"

    def __init__(self) -> None:
        self._in_a_row: dict[tuple[int, str], int] = {}  # by optimizer and weight: comparisons
        self._writes: dict[str, Place | None] = {}

    def on_step_program(self, event: StepProgram) -> None:
        if event.phase != "training":
            return
        names = {v.memory: v.name for v in event.values if v.origin == "parameter" and v.name}
        for operation in event.operations:
            writes = operation.name == "__setitem__" or (operation.name.endswith("_") and operation.name[0] != "_")
            if not writes or not operation.inputs or operation.model >= 0:
                continue
            name = names.get(event.values[operation.inputs[0]].memory)
            if name:
                self._writes.setdefault(name, operation.place)

    def on_updates_undone(self, event: UpdatesUndone) -> Findings:
        earlier, number = self._in_a_row, event.optimizer
        self._in_a_row = {(number, name): earlier.get((number, name), 0) + 1 for name in event.undone if name}
        self._in_a_row |= {key: count for key, count in earlier.items() if key[0] != number}
        names = sorted(n for (o, n), count in self._in_a_row.items() if o == number and count >= LOOKS)
        looks = max(self._in_a_row.values(), default=0)
        if not names or len(event.undone) == event.compared:
            return
        shown = ", ".join(names[:3])
        equal = " (all elements equal)" if set(names) <= set(event.constant) else ""
        yield self.finding(
            event,
            f"{event.name} updates {shown}, and before every next step it is again what it was{equal}: other code "
            f"overwrites {plural(len(names), 'weight')} in {looks} comparisons in a row.",
            fix="Write only the elements you mean, or once before the training; to freeze a layer, use "
            "`requires_grad_(False)`.",
            evidence={"optimizer": event.name, "weights": names[:16], "comparisons": looks,
                      "constant": list(event.constant)},
            place=next((place for name in names if (place := self._writes.get(name)) is not None), None),
        )  # fmt: skip
