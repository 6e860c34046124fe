"""PRC107 nan-or-inf-hidden: NaN or Inf losses are silently skipped, replaced or filtered out.

What it sees
------------
A loss (or gradient norm) was NaN or Inf more than once, and a line of your code skipped the step without printing,
logging, counting or raising; or `nan_to_num` or `torch.where` replaced it or a gradient; or the Trainer of
transformers, with `logging_nan_inf_filter` on by default, left such losses out of the mean that it logs. The values are
measured; whether a guard is silent is read from its source.

Why it hurts
------------
The loss curve looks clean while batches are dropped, one in a hundred or all of them. The cause (a logarithm of zero, a
bad sample, an overflow) remains and grows, and the model is trained only on the batches that did not trigger it.

Evidence
--------
The line that hides the values, how often, in which way, and the number of steps.

Use instead
-----------
    if not torch.isfinite(loss):
        skipped += 1
        print(f"step {step}: loss {loss.item()}, {skipped} skipped so far")
        continue

With transformers: `TrainingArguments(..., logging_nan_inf_filter=False)`.

When it is fine
---------------
Not reported: a guard that prints, logs, warns, counts or raises, or a value that reaches a log on a different line.
Steps skipped by a GradScaler are reported by grad-scaler-skips-steps, the origin of the NaN by nan-or-inf.
"""

import ast
import math
from typing import Final

from trueloop.event import Backward, LogFiltered, LossHidden, Place
from trueloop.event.operation_names import FINITE_CHECKS, REPLACERS
from trueloop.rules.rule import Findings, Rule, Severity, facts, statement_at
from trueloop.usercode.rewrite import block_of, trains
from trueloop.usercode.source import Source, called_name, calls_in

__all__ = ["NanOrInfHidden"]

ENOUGH: Final = 2  # Times: a single one may be an accident
SILENT: Final = (
    "zero_grad", "empty_cache", "update", "collect", "zeros", "zeros_like", "tensor", "nan_to_num", "detach", "clone",
)  # fmt: skip
"""Calls in a guard that show nothing."""
ARITHMETIC: Final = (
    *FINITE_CHECKS, *REPLACERS, *SILENT, "item", "backward", "scale", "float", "bool", "any", "all", "sum", "mean",
    "abs", "squeeze", "view", "logical_not", "clip_grad_norm_", "clip_grad_value_", "unscale_", "step",
)  # fmt: skip
"""Calls with a loss that do not show its value."""


class NanOrInfHidden(Rule, code="PRC107", severity=Severity.ERROR):
    not_applicable = "no NaN or Inf loss was skipped or replaced"

    def __init__(self) -> None:
        self._steps: dict[tuple[Place, str], set[int]] = {}  # The steps at which a line hid something
        self._filter: LogFiltered | None = None
        self._filtered = 0

    # -- by a framework --

    def on_log_filtered(self, event: LogFiltered) -> None:
        self._filter = event

    def on_backward(self, event: Backward) -> Findings:
        if self._filter is None or event.loss is None or math.isfinite(event.loss):
            return
        self._filtered += 1
        if self._filtered == ENOUGH:
            yield self.finding(
                event,
                f"{self._filter.framework} hides NaN and Inf in its log: {self._filtered} losses so far were "
                "non-finite and are shown as the mean of the others, or as 0.",
                fix=f"Set `{self._filter.option}=False`, and stop at the first non-finite loss.",
                evidence=facts(
                    self, "framework=_filter.framework option=_filter.option hidden=_filtered", step=event.step
                ),
                place=self._filter.place,
            )

    # -- by the user's code --

    def on_loss_hidden(self, event: LossHidden) -> Findings:
        line = _hiding_line(event)
        if line is None:
            return
        steps = self._steps.setdefault((line, event.how), set())
        known, times = event.step in steps, len(steps | {event.step})
        steps.add(event.step)
        if times == ENOUGH and not known:
            skipped = event.how == "left out"
            yield self.finding(
                event,
                f"This line silently {'skipped' if skipped else 'replaced'} a NaN or Inf {event.what} {times} times in "
                f"the first {event.step + 1} steps.",
                fix="Print, log, count or raise, and find the origin of the NaN."
                if skipped
                else "Do not replace it: find its origin, and skip with a log line what cannot be fixed.",
                evidence={"what": event.what, "how": event.how, "times": times, "steps": event.step + 1},
                place=line,
            )


def _hiding_line(event: LossHidden) -> Place | None:
    """The line that hides it silently; None if there is none, or if it cannot be known."""
    source, statement = statement_at(event.place)
    if event.place is None or statement is None:
        return None
    if event.how == "replaced" or any(called_name(call) in REPLACERS for call in calls_in(_head(statement))):
        return None if _asks_elsewhere(source, statement) else event.place
    guard = _guard_for(source, statement)
    return source.place(guard, event.place.function) if guard is not None and _is_silent(source, guard) else None


def _head(statement: ast.stmt) -> ast.AST:
    """The test of an `if`, otherwise the statement."""
    return statement.test if isinstance(statement, (ast.If, ast.While)) else statement


def _asks_elsewhere(source: Source, statement: ast.stmt) -> bool:
    """Another line of the function also tests for NaN, and may report it there."""
    around = source.enclosing_function(statement.lineno) or source.tree
    own = set(calls_in(statement))
    return any(called_name(call) in FINITE_CHECKS for call in calls_in(around) if call not in own)


# -- guards --


def _guard_for(source: Source, statement: ast.stmt) -> ast.If | None:
    """The `if` that tests: this statement, or the first later one that tests a value computed here."""
    if isinstance(statement, ast.If):
        return statement if _asks(statement.test) else None
    known = _assigned(statement)
    asked = any(called_name(call) in FINITE_CHECKS for call in calls_in(statement))
    for behind in _following(source, statement):
        names = _names(behind.test) if isinstance(behind, ast.If) else set()
        if isinstance(behind, ast.If) and names & known and (asked or _asks(behind.test)):
            return behind
        if _assigned(behind) and _names(behind) & known:
            known |= _assigned(behind)  # loss_value = loss.item()
    return None


def _following(source: Source, statement: ast.stmt) -> list[ast.stmt]:
    """The statements after it in its block, and after the `with` around it."""
    block = block_of(source, statement)
    behind = block[block.index(statement) + 1 :] if block else []
    parent = next(source.parents(statement), None)
    return behind + (_following(source, parent) if isinstance(parent, ast.With) else [])


def _asks(test: ast.expr) -> bool:
    """isnan, isinf or isfinite of any library, or `loss != loss`."""
    compared = (node for node in ast.walk(test) if isinstance(node, ast.Compare))
    unequal = (node for node in compared if isinstance(node.ops[0], (ast.NotEq, ast.Eq)))
    with_itself = any(ast.dump(node.left) == ast.dump(node.comparators[0]) for node in unequal)
    return with_itself or any(called_name(call) in FINITE_CHECKS for call in calls_in(test))


def _is_silent(source: Source, guard: ast.If) -> bool:
    """It skips training in a loop, and neither it nor the lines around it report that."""
    loop = source.enclosing_loop(guard.lineno)
    around = loop or source.enclosing_function(guard.lineno)
    if around is None or not trains(around):
        return False
    encloses = any(trains(statement) for statement in guard.body)
    branch = guard.orelse if encloses else guard.body
    leaves = bool(branch) and isinstance(branch[-1], (ast.Continue, ast.Return))
    otherwise = any(trains(statement) for statement in guard.orelse)
    if not (encloses or leaves or otherwise) or not all(_says_nothing(source, statement) for statement in branch):
        return False
    block = block_of(source, guard)
    here = block.index(guard)
    seen = block[:here] if leaves else block[:here] + block[here + 1 :]
    return not any(_shows(statement, _all_names(guard.test, block[:here])) for statement in seen)


def _says_nothing(source: Source, statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Return):
        return _returns_nothing(source, statement)
    plain = isinstance(statement, (ast.Continue, ast.Pass, ast.Delete, ast.Expr, ast.Assign))
    return plain and all(called_name(call) in SILENT for call in calls_in(statement))


def _returns_nothing(source: Source, statement: ast.Return) -> bool:
    """A number instead of a loss, or nothing from a function that never returns a value (None may be a signal)."""
    if statement.value is not None:
        return isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, (int, float))
    function = source.enclosing_function(statement.lineno)
    returns = (node for node in ast.walk(function or source.tree) if isinstance(node, ast.Return))
    return all(node.value is None for node in returns)


def _all_names(test: ast.expr, ahead: list[ast.stmt]) -> set[str]:
    """The names of the test, and the names that they were computed from or that were computed from them."""
    names = _names(test)
    for statement in (*reversed(ahead), *ahead):
        if isinstance(statement, ast.Assign):
            made = _assigned(statement)
            value = _names(statement.value)
            if names & made and len(value) == 1:  # loss_value = loss.item()
                names |= value
            if names & value and all(called_name(call) in ARITHMETIC for call in calls_in(statement)):
                names |= made
    return names


def _shows(statement: ast.stmt, names: set[str]) -> bool:
    """A sum or a call other than arithmetic takes the value: it may reach a log."""
    sums = (node for node in ast.walk(statement) if isinstance(node, ast.AugAssign))
    if any(names & _names(node.value) for node in sums):
        return True
    return any(names & _names(call) and called_name(call) not in ARITHMETIC for call in calls_in(statement))


def _names(node: ast.AST) -> set[str]:
    """Variables that it reads, without modules such as `torch`."""
    read = (inner for inner in ast.walk(node) if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load))
    return {name.id for name in read} - {"torch", "math", "np", "numpy"}


def _assigned(statement: ast.stmt) -> set[str]:
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
