"""DAT110 metric-averaged-over-batches: the mean of batch means, although the last batch is smaller.

What it sees
------------
An evaluation pass over batches of one size and a smaller last one. In its loop a batch mean (a loss with
reduction='mean', or a `.mean()`) is summed or collected, and the sum is divided by the number of batches, or the list
is averaged. Both are read in the source: a sum weighted by the batch size, or divided by the number of samples, is
correct. Or the script prints, after every evaluation, the mean of the batch means, to all printed digits, and batches
hold very different numbers of labels (tokens): the mean over all labels differs by 5 % or more.

Why it hurts
------------
The samples of the smaller last batch count more than the others: with batches of 32 and one leftover sample, that
sample counts as much as 32 others. The metric changes with the batch size, so two runs cannot be compared by it.

Evidence
--------
The batch size and the size of the last batch; and, if the losses were observed, the mean over batches and over samples.

Use instead
-----------
    total += loss.item() * len(x)
    ...
    total / len(loader.dataset)

When it is fine
---------------
Not reported: batches of equal size, `drop_last=True`, sums, weighted sums, metrics that keep their own counts, and the
running loss of a training epoch, one batch per group (the mean over groups), and scripts that print the mean over all
labels, too. Not detected: an average computed in a different function than the loop, if it is not printed.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from typing import Final

from trueloop.event import EvaluationPass, EvaluationPrinted, Place
from trueloop.rules.rule import Findings, Rule, Severity
from trueloop.usercode.source import Source, called_name, calls_in, source_of

__all__ = ["MetricAveragedOverBatches"]

PASSES: Final = 2
UNEQUAL: Final = 2  # times as many labels in the largest batch as in the smallest
DIFFERS: Final = 0.05  # of the mean over all labels

Comprehension = ast.GeneratorExp | ast.ListComp


class MetricAveragedOverBatches(Rule, code="DAT110", severity=Severity.ADVICE):
    not_applicable = "no evaluation pass was seen"

    def __init__(self) -> None:
        self._reported: set[Place | None] = set()

    def on_evaluation_pass(self, event: EvaluationPass) -> Findings:
        *others, last = event.sizes
        if event.place is None or set(others) != {others[0]} or not last < others[0]:
            return
        source = source_of(event.place.path)
        place = next((source.place(node, event.place.function) for node in _means_of_means(source, event)), None)
        if place is None:
            return
        self._reported.add(event.loss_place)
        means = ""
        if event.mean_of_means is not None and event.mean_of_samples is not None:
            means = f": mean loss {event.mean_of_means:.5g} instead of {event.mean_of_samples:.5g}"
        yield self.finding(
            event,
            f"The mean of {len(event.sizes)} batch means gives the last batch of {last} the same weight as batches of "
            f"{others[0]}{means}.",
            fix="Weight by batch size: `total += loss.item() * len(x)`, then divide by `len(loader.dataset)`.",
            evidence={
                "batches": len(event.sizes),
                "batch_size": others[0],
                "last_batch_size": last,
                "mean_of_batch_means": event.mean_of_means,
                "mean_over_samples": event.mean_of_samples,
            },
            place=place,
        )

    def on_evaluation_printed(self, event: EvaluationPrinted) -> Findings:
        labels = [count for _, count in event.batches]
        by_batch, by_label, _ = event.values
        always = event.passes >= PASSES and event.mean_of_means == event.passes and not event.mean_of_elements
        alike = max(Counter(event.batches).values(), default=0)  # several batches of one kind: they are no groups
        if event.loss_place in self._reported or not always or alike < PASSES or min(labels) < 1:
            return
        several = min(samples for samples, _ in event.batches) > 1
        far = abs(by_batch - by_label) >= DIFFERS * abs(by_label)
        if not (several and far and max(labels) >= UNEQUAL * min(labels)):
            return
        yield self.finding(
            event,
            f"The mean of {len(labels)} batch means is printed: {by_batch:.5g}. Batches hold {min(labels):,} to "
            f"{max(labels):,} labels; the mean over all labels is {by_label:.5g}.",
            fix="Weight by the number of labels: `total += loss.item() * count`, then divide by the sum of the counts.",
            evidence={
                "batches": len(labels),
                "labels": sorted(labels),
                "mean_of_batch_means": by_batch,
                "mean_over_labels": by_label,
                "loss": event.loss_place,
            },
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
    """A plain batch mean: not multiplied by a size, not summed."""
    sizes = any(called_name(call) in ("sum", "len", "size", "numel") for call in calls_in(value))
    if sizes or any(isinstance(node, (ast.Mult, ast.Div)) for node in ast.walk(value)):
        return False
    if any(isinstance(node, ast.Name) and node.id in losses for node in ast.walk(value)):
        return True
    place = event.loss_place
    by_loss = place is not None and value.lineno <= place.line <= (value.end_lineno or 0) and any(calls_in(value))
    return by_loss or any(called_name(call) == "mean" for call in calls_in(value))


def _names_in(node: ast.AST) -> set[str]:
    """`valid` and `self.valid` of `enumerate(tqdm(self.valid))`."""
    return {ast.unparse(inner) for inner in ast.walk(node) if isinstance(inner, (ast.Name, ast.Attribute))} - {"self"}


def _lengths(around: ast.AST, drawn: set[str]) -> set[str]:
    """Variables that hold the number of batches."""
    assigned = [node for node in ast.walk(around) if isinstance(node, ast.Assign) and _is_length(node.value, drawn)]
    return {ast.unparse(target) for node in assigned for target in node.targets}


def _is_length(node: ast.expr, of: set[str]) -> bool:
    if not isinstance(node, ast.Call) or called_name(node) != "len" or len(node.args) != 1:
        return False
    return ast.unparse(node.args[0]) in of


def _quotients(around: ast.AST) -> Iterator[tuple[ast.expr, ast.expr, ast.expr]]:
    """(quotient, numerator, denominator) of each division."""
    for node in ast.walk(around):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            yield node, node.left, node.right
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div):
            yield node.target, node.target, node.value


def _divisions(around: ast.AST, total: str, drawn: set[str], counters: set[str]) -> Iterator[ast.expr]:
    for whole, above, below in _quotients(around):
        if total in _names_in(above) and (_is_length(below, drawn) or ast.unparse(below) in counters):
            yield whole


def _averages_of_list(around: ast.AST, items: str) -> Iterator[ast.expr]:
    """`sum(losses) / len(losses)`, `np.mean(losses)`, `torch.stack(losses).mean()`."""
    for whole, above, below in _quotients(around):
        if not isinstance(above, ast.Call) or called_name(above) not in ("sum", "fsum"):
            continue
        if ast.unparse(above.args[0]) == items and _is_length(below, {items}):
            yield whole
    for call in calls_in(around):
        if called_name(call) in ("mean", "fmean", "average", "nanmean") and items in _names_in(call):
            yield call


def _averages(source: Source, statement: ast.stmt, items: Comprehension, drawn: set[str]) -> Iterator[ast.expr]:
    """`sum(... for x, y in valid) / len(valid)`, `np.mean([... for x, y in valid])`, or a list averaged later."""
    parent = next(source.parents(items), None)
    if isinstance(parent, ast.Call) and called_name(parent) in ("mean", "fmean", "average"):
        yield parent
    sums = isinstance(parent, ast.Call) and called_name(parent) in ("sum", "fsum")
    for whole, above, below in _quotients(statement):
        if sums and above is parent and _is_length(below, drawn):
            yield whole
    if isinstance(statement, ast.Assign) and statement.value is items:
        around: ast.AST = source.enclosing_function(statement.lineno) or source.tree
        yield from _averages_of_list(around, ast.unparse(statement.targets[0]))
