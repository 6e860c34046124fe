"""SPD106 graph-breaks-or-recompilations: torch.compile cut the model into several graphs, or compiled it again and again.

What it sees
------------
The compiler's own notes, read when the run has ended: each line of the user's at which it had to leave a graph, with
its reason, and each function of the user's that it compiled many times over, with what had changed.

Why it hurts
------------
Between two graphs Python runs as before, and nothing is fused across the cut. Each compilation takes seconds or
minutes, and after eight of one function the compiler gives up without an error: from then on it runs uncompiled.

Evidence
--------
How many graphs were made, the reason of the cut, or how often the function was compiled again and which guards failed.

Use instead
-----------
    if loss > 10:                    # a branch on a tensor's value
    scale = torch.where(loss > 10, 0.5, 1.0)

When it is fine
---------------
Not reported: cuts that were asked for (`torch.compiler.disable`, `torch._dynamo.graph_break()`), cuts in a library's
own code, and up to four recompilations of a function: train and eval mode, with and without gradients, and a dimension
that turns out to vary. Notes that
`torch._dynamo.reset()` has thrown away during the run are not seen.
"""

from __future__ import annotations

from typing import Final, final

from trueloop.event import CompilerRan
from trueloop.finding import Severity
from trueloop.results.check import counted
from trueloop.rules.rule import Findings, Rule

__all__ = ["GraphBreaksOrRecompilations"]

AGAIN: Final = 5
"""Recompilations of one function: four have ordinary causes, and at eight the compiler gives up."""


@final
class GraphBreaksOrRecompilations(Rule):
    code = "SPD106"
    name = "graph-breaks-or-recompilations"
    severity = Severity.ADVICE
    not_applicable = "nothing was compiled"

    def on_compiler_ran(self, event: CompilerRan) -> Findings:
        for cut in event.breaks:
            if not cut.on_purpose:
                yield self.finding(
                    event,
                    f"torch.compile had to leave its graph at this line ({cut.reason}); the run took {counted(event.graphs, 'graph')}.",
                    fix="Move this out of what is compiled, or write it with tensor operations; fullgraph=True stops at every such line.",
                    evidence={"reason": cut.reason, "graphs": event.graphs},
                    place=cut.place,
                )
        for repeated in event.recompilations:
            if repeated.times >= AGAIN:
                yield self.finding(
                    event,
                    f"torch.compile compiled {repeated.function} {repeated.times} times more after the first, because something it had "
                    f"taken for fixed changed: {repeated.reasons[-1]}.",
                    fix="Keep what changes in a tensor, or say which dimensions vary: torch.compile(..., dynamic=True), mark_dynamic.",
                    evidence={
                        "function": repeated.function,
                        "recompilations": repeated.times,
                        "guards": list(repeated.reasons),
                    },
                    place=repeated.place,
                )
