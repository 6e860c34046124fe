"""SPD106 graph-breaks-or-recompilations: `torch.compile` split the model into several graphs or keeps recompiling.

What it sees
------------
The compiler's own records, read at the end of the run: each line of your code with a graph break and its reason, and
each function of yours that was compiled many times, with the guards that failed.

Why it hurts
------------
Between two graphs plain Python runs, and nothing is fused across the break. Each compilation takes seconds or minutes,
and after eight of one function the compiler silently gives up: from then on the function runs uncompiled.

Evidence
--------
The number of graphs and the reason of the break, or the number of recompilations and the guards that failed.

Use instead
-----------
    if loss > 10:                    # a branch on a tensor value
    scale = torch.where(loss > 10, 0.5, 1.0)

When it is fine
---------------
Not reported: requested breaks (`torch.compiler.disable`, `torch._dynamo.graph_break()`), breaks in library code, and up
to four recompilations of a function (train and eval mode, with and without gradients, a dynamic dimension). Records
that `torch._dynamo.reset()` cleared during the run are not seen.
"""

from typing import Final

from trueloop.event import CompilerRan
from trueloop.rules.rule import Findings, Rule, Severity, facts, plural

__all__ = ["GraphBreaksOrRecompilations"]

AGAIN: Final = 5  # Recompilations of one function: four have ordinary causes, and at eight the compiler gives up


class GraphBreaksOrRecompilations(Rule, code="SPD106", severity=Severity.ADVICE):
    not_applicable = "torch.compile was not used"

    def on_compiler_ran(self, event: CompilerRan) -> Findings:
        for cut in event.breaks:
            if not cut.on_purpose:
                yield self.finding(
                    event,
                    f"`torch.compile` has a graph break at this line ({cut.reason}). The run has "
                    f"{plural(event.graphs, 'graph')}.",
                    fix="Move this line out of the compiled function or use tensor operations; `fullgraph=True` raises "
                    "at every graph break.",
                    evidence={"reason": cut.reason, "graphs": event.graphs},
                    place=cut.place,
                )
        for repeated in event.recompilations:
            if repeated.times >= AGAIN:
                yield self.finding(
                    event,
                    f"`torch.compile` recompiled {repeated.function} {repeated.times} times. The last guard that "
                    f"failed: {repeated.reasons[-1]}.",
                    fix="Pass changing values as tensors, or declare dynamic dimensions: "
                    "`torch.compile(..., dynamic=True)`, `mark_dynamic`.",
                    evidence=facts(repeated, "function recompilations=times guards=reasons"),
                    place=repeated.place,
                )
