"""PAR105 every-rank-saves: several ranks write the same file at the same time.

What it sees
------------
The files that torch.save writes on each rank of a machine, with links followed: two ranks wrote one and the same path
at the same step.

Why it hurts
------------
The writes overlap, and what is left is the file of whoever came last, or a mixture of several that cannot be read. It
shows up as a rare "unexpected end of file" when the checkpoint is needed; and all ranks but one have worked for
nothing.

Evidence
--------
The path, the ranks that wrote it, the step, and the line.

Use instead
-----------
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), "model.pt")

When it is fine
---------------
A file per rank (`f"rank{rank}.pt"`), `if rank == 0:`, devices such as /dev/null, and torch.distributed.checkpoint,
which divides the work among the ranks, are not reported. Ranks of other machines are not seen.
"""

from __future__ import annotations

import ast
from typing import final

from trueloop.event import Place, RunEnded, StateWritten
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.rewrite import indent_under
from trueloop.usercode.source import Source, called_name, calls_in, diff, shown_path, source_of

__all__ = ["EveryRankSaves"]


@final
class EveryRankSaves(Rule):
    code = "PAR105"
    name = "every-rank-saves"
    severity = Severity.WARNING
    not_applicable = "no rank of several wrote a file"

    def __init__(self) -> None:
        self._written: dict[tuple[str, int], dict[int, StateWritten]] = {}

    def on_state_written(self, event: StateWritten) -> None:
        self._written.setdefault((event.path, event.step), {}).setdefault(event.rank, event)

    def on_run_ended(self, event: RunEnded) -> Findings:
        for (path, step), by_rank in self._written.items():
            if len(by_rank) > 1:
                ranks = sorted(by_rank)
                first = by_rank[ranks[0]]
                yield self.finding(
                    first,
                    f"Ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]} all wrote {shown_path(path)} after step {step}.",
                    fix="Save on one rank: put `if dist.get_rank() == 0:` before it, or give each rank a file of its own.",
                    evidence={"path": shown_path(path), "ranks": ranks, "step": step},
                    diff=_on_one_rank(first.place),
                )


def _on_one_rank(place: Place | None) -> str:
    """`if dist.get_rank() == 0:` over the line, if it does nothing but save, and nobody in the file reads what is
    saved."""
    source = None if place is None else source_of(place.path)
    statement = None if source is None or place is None else source.statement(place.line)
    if (
        source is None
        or place is None
        or not isinstance(statement, ast.Expr)
        or not isinstance(statement.value, ast.Call)
    ):
        return ""
    name = _name_of_distributed(source)
    reads = any(called_name(call) == "load" for call in calls_in(source.tree))
    opened = any(isinstance(parent, (ast.With, ast.AsyncWith)) for parent in source.parents(statement))
    edit = indent_under(source, statement, f"if {name}.get_rank() == 0:")
    if called_name(statement.value) != "save" or not name or reads or opened or edit is None:
        return ""  # who opens a file for writing has emptied it already
    return diff(place.path, [edit])


def _name_of_distributed(source: Source) -> str:
    """What the file calls torch.distributed; empty if it does not import it."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "torch.distributed":
                    return alias.asname or alias.name
        if isinstance(node, ast.ImportFrom) and node.module == "torch":
            for alias in node.names:
                if alias.name == "distributed":
                    return alias.asname or alias.name
    return ""
