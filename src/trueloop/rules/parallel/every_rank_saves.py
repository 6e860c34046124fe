"""PAR105 every-rank-saves: several ranks write the same file at the same time.

What it sees
------------
The files that `torch.save` writes on each rank of a machine, with links resolved: two ranks wrote the same path at the
same step.

Why it hurts
------------
The writes overlap. The result is the file of the last rank, or a corrupt mixture that fails with "unexpected end of
file" when the checkpoint is needed. All ranks but one did useless work.

Evidence
--------
The path, the ranks that wrote it, the step, and the line.

Use instead
-----------
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), "model.pt")

When it is fine
---------------
Not reported: one file per rank (`f"rank{rank}.pt"`), `if rank == 0:`, devices such as /dev/null, and
`torch.distributed.checkpoint`, which divides the work among the ranks. Ranks of other machines are not seen.
"""

import ast

from trueloop.event import Place, RunEnded, StateWritten
from trueloop.rules.rule import Findings, Rule, Severity, statement_at
from trueloop.usercode.rewrite import indent_under
from trueloop.usercode.source import Source, called_name, calls_in, diff, shown_path

__all__ = ["EveryRankSaves"]


class EveryRankSaves(Rule, code="PAR105", severity=Severity.WARNING):
    not_applicable = "no file was written in a run with several ranks"
    fix_keeps_result = True

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
                    f"Ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]} all wrote {shown_path(path)} after "
                    f"step {step}. The file may be corrupt.",
                    fix="Save on one rank (`if dist.get_rank() == 0:`), or give each rank its own file name.",
                    evidence={"path": shown_path(path), "ranks": ranks, "step": step},
                    diff=_on_one_rank(first.place),
                )


def _on_one_rank(place: Place | None) -> str:
    """`if dist.get_rank() == 0:` above the line, if it only saves and the script never loads."""
    source, statement = statement_at(place)
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return ""
    name = _name_of_distributed(source)
    reads = any(called_name(call) == "load" for call in calls_in(source.tree))
    opened = any(isinstance(parent, (ast.With, ast.AsyncWith)) for parent in source.parents(statement))
    edit = indent_under(source, statement, f"if {name}.get_rank() == 0:")
    if called_name(statement.value) != "save" or not name or reads or opened or edit is None:
        return ""  # opening a file for writing has already truncated it
    return diff(source.path, [edit])


def _name_of_distributed(source: Source) -> str:
    """The script's name for torch.distributed; empty if it does not import it."""
    for node in ast.walk(source.tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                if module + alias.name == "torch.distributed":
                    return alias.asname or alias.name
    return ""
