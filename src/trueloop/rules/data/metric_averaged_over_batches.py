"""DAT110 metric-averaged-over-batches: the mean of the batches' means, though the last batch is smaller than the
others.

What it sees
------------
A pass that only measured, in this run, over batches of one size and a smaller last one. In the loop around it a batch's
mean (a loss with reduction='mean', or a `.mean()`) is added up or collected, and that sum is then divided by the number
of batches, or the collection is averaged. Both are read in the source: a sum that is weighted by the size of the batch,
or divided by the number of samples, is right.

Why it hurts
------------
Each sample of the last batch counts as many times more than the others as the batch is smaller: with 32 samples to a
batch and one left over, that one weighs as much as 32 others. The number changes when only the batch size does, so that
two runs cannot be compared by it.

Evidence
--------
The size of the batches and of the last one; and, where the losses were seen, the mean over batches and the mean over
samples.

Use instead
-----------
    total += loss.item() * len(x)
    ...
    total / len(loader.dataset)

When it is fine
---------------
Batches of one size, `drop_last=True`, sums, weighted sums, metrics that keep their own counts. What is averaged in
another function than the loop's is not seen; nor is the running loss of a training epoch looked at, which is only a
rough sign anyway.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import final

from trueloop.event import EvaluationPass
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.source import Source, called_name, calls_in, source_of

__all__ = ["MetricAveragedOverBatches"]

Comprehension = ast.GeneratorExp | ast.ListComp


@final
class MetricAveragedOverBatches(Rule):
    code = "DAT110"
    name = "metric-averaged-over-batches"
    severity = Severity.ADVICE
    not_applicable = "no pass without gradients was seen"

    def on_evaluation_pass(self, event: EvaluationPass) -> Findings:
        *others, last = event.sizes
        if event.place is None or set(others) != {others[0]} or not last < others[0]:
            return
        source = source_of(event.place.path)
        place = next((source.place(node, event.place.function) for node in _means_of_means(source, event)), None)
        if place is None:
            return
        means = ""
        if event.mean_of_means is not None and event.mean_of_samples is not None:
            means = f": a mean loss of {event.mean_of_means:.5g} instead of {event.mean_of_samples:.5g}"
        yield self.finding(
            event,
            f"The mean of {len(event.sizes)} batch means counts the {last} samples of the last batch as much as the {others[0]} of each "
            f"other one{means}.",
            fix="Weigh each batch by its size (total += loss.item() * len(x)) and divide by the number of samples.",
            evidence={
                "batches": len(event.sizes),
                "samples_per_batch": others[0],
                "samples_in_the_last": last,
                "mean_of_batch_means": event.mean_of_means,
                "mean_over_samples": event.mean_of_samples,
            },
            place=place,
        )


def _means_of_means(source: Source, event: EvaluationPass) -> Iterator[ast.expr]:
    """Expressions that average batch means over batches, in the function of the call."""
    place = event.place
    statement = None if place is None else source.statement(place.line)
    if place is None or statement is None:
        return
    for node in ast.walk(statement) if not isinstance(statement, (ast.For, ast.FunctionDef)) else ():
        if (
            isinstance(node, Comprehension)
            and node.lineno <= place.line <= (node.end_lineno or 0)
            and _is_mean(node.elt, set(), event)
        ):
            yield from _averages(source, statement, node, _names_in(node.generators[0].iter))
    loop = source.enclosing_loop(place.line)
    if not isinstance(loop, ast.For):
        return
    around: ast.AST = source.enclosing_function(place.line) or source.tree
    losses = _assigned_losses(source, loop, event)
    drawn = _names_in(loop.iter)
    counters = {
        text for text, value in _added(loop) if isinstance(value, ast.Constant) and value.value == 1
    } | _lengths(around, drawn)
    for text, value in _added(loop):
        if _is_mean(value, losses, event):
            yield from _divisions(around, text, drawn, counters)
    for text, value in _appended(loop):
        if _is_mean(value, losses, event):
            yield from _averages_of_list(around, text)


# -- what is gathered in the loop --


def _added(loop: ast.For) -> Iterator[tuple[str, ast.expr]]:
    """`total += value` and `total = total + value`: (total, value)."""
    for node in ast.walk(loop):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            yield ast.unparse(node.target), node.value
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Add):
            text = ast.unparse(node.targets[0])
            if ast.unparse(node.value.left) == text:
                yield text, node.value.right


def _appended(loop: ast.For) -> Iterator[tuple[str, ast.expr]]:
    for call in calls_in(loop):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "append" and len(call.args) == 1:
            yield ast.unparse(call.func.value), call.args[0]


def _assigned_losses(source: Source, loop: ast.For, event: EvaluationPass) -> set[str]:
    """Variables of the loop that hold the mean loss of a batch, or a `.mean()`."""
    found: set[str] = set()
    for node in ast.walk(loop):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and _is_mean(node.value, found, event):
            found.add(ast.unparse(node.targets[0]))
    return found


def _is_mean(value: ast.expr, losses: set[str], event: EvaluationPass) -> bool:
    """A batch's mean as it is: not multiplied by a size, not summed."""
    for node in ast.walk(value):
        if isinstance(node, (ast.Mult, ast.Div)) or (
            isinstance(node, ast.Call) and called_name(node) in ("sum", "len", "size", "numel")
        ):
            return False
    if any(isinstance(node, ast.Name) and node.id in losses for node in ast.walk(value)):
        return True
    place = event.loss_place
    by_loss = place is not None and value.lineno <= place.line <= (value.end_lineno or 0) and any(calls_in(value))
    return by_loss or any(called_name(call) == "mean" for call in calls_in(value))


# -- what becomes of it --


def _names_in(node: ast.AST) -> set[str]:
    """`valid` and `self.valid` of `enumerate(tqdm(self.valid))`."""
    return {ast.unparse(inner) for inner in ast.walk(node) if isinstance(inner, (ast.Name, ast.Attribute))} - {"self"}


def _lengths(around: ast.AST, drawn: set[str]) -> set[str]:
    """Variables that hold the number of batches."""
    assigned = [node for node in ast.walk(around) if isinstance(node, ast.Assign) and _is_length(node.value, drawn)]
    return {ast.unparse(target) for node in assigned for target in node.targets}


def _is_length(node: ast.expr, of: set[str]) -> bool:
    return (
        isinstance(node, ast.Call)
        and called_name(node) == "len"
        and len(node.args) == 1
        and ast.unparse(node.args[0]) in of
    )


def _quotients(around: ast.AST) -> Iterator[tuple[ast.expr, ast.expr, ast.expr]]:
    """(all, above, below) of each division."""
    for node in ast.walk(around):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            yield node, node.left, node.right
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div):
            yield node.target, node.target, node.value


def _divisions(around: ast.AST, total: str, drawn: set[str], counters: set[str]) -> Iterator[ast.expr]:
    for whole, above, below in _quotients(around):
        holds = any(
            isinstance(node, (ast.Name, ast.Attribute)) and ast.unparse(node) == total for node in ast.walk(above)
        )
        if holds and (_is_length(below, drawn) or ast.unparse(below) in counters):
            yield whole


def _averages_of_list(around: ast.AST, items: str) -> Iterator[ast.expr]:
    """`sum(losses) / len(losses)`, `np.mean(losses)`, `torch.stack(losses).mean()`."""
    for whole, above, below in _quotients(around):
        sums = (
            isinstance(above, ast.Call)
            and called_name(above) in ("sum", "fsum")
            and ast.unparse(above.args[0]) == items
        )
        if sums and _is_length(below, {items}):
            yield whole
    for call in calls_in(around):
        if called_name(call) in ("mean", "fmean", "average", "nanmean") and items in _names_in(call):
            yield call


def _averages(source: Source, statement: ast.stmt, items: Comprehension, drawn: set[str]) -> Iterator[ast.expr]:
    """`sum(... for x, y in valid) / len(valid)`, `np.mean([... for x, y in valid])`; or a list that is averaged
    later."""
    parent = next(source.parents(items), None)
    if isinstance(parent, ast.Call) and called_name(parent) in ("mean", "fmean", "average"):
        yield parent
    for whole, above, below in _quotients(statement):
        if (
            isinstance(parent, ast.Call)
            and above is parent
            and called_name(parent) in ("sum", "fsum")
            and _is_length(below, drawn)
        ):
            yield whole
    if isinstance(statement, ast.Assign) and statement.value is items:
        around: ast.AST = source.enclosing_function(statement.lineno) or source.tree
        yield from _averages_of_list(around, ast.unparse(statement.targets[0]))
