"""SPD103 timed-without-synchronize: GPU work is timed without `torch.cuda.synchronize()`.

What it sees
------------
Around lines that launched work on a device (model calls, backwards, steps): a clock is read into a variable, work is
launched, and the clock is read again for the difference, in one loop iteration or outside loops, with nothing between
that waits for the device. Functions of the same file that are called between are followed.

Why it hurts
------------
GPU work is asynchronous: the call returns at once. The measured time is the launch time, often a hundredth of the real
one. The rest appears at the next line that waits, so the wrong part of the program looks slow.

Evidence
--------
The lines of both clock reads and of the work between them.

Use instead
-----------
    torch.cuda.synchronize()
    start = time.perf_counter()
    model(x)
    torch.cuda.synchronize()
    elapsed = time.perf_counter() - start

When it is fine
---------------
Not reported: CPU runs, a `synchronize()`, `.item()`, `.cpu()` or another wait between the clock reads, times over many
iterations (an epoch, where the rest of the queue is small), rates since a fixed start, and intervals without gaps
(`t0 = t1`), whose sum is right. Clock reads in functions of other files are not seen.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeGuard

from trueloop.event import DeviceWorked
from trueloop.rules.rule import Finding, Findings, Rule, Severity, facts
from trueloop.usercode.source import Edit, Source, called_name, calls_in, diff, source_of

__all__ = ["TimedWithoutSynchronize"]

CLOCKS: Final = frozenset(
    {"time", "perf_counter", "monotonic", "time_ns", "perf_counter_ns", "monotonic_ns", "default_timer"}
)
WAITS: Final = frozenset({
    "synchronize", "item", "cpu", "tolist", "numpy", "float", "int", "bool", "print", "save", "elapsed_time", "wait",
    "all_reduce", "barrier",
})  # fmt: skip
"""Calls that wait for a device, or very likely do: printing reads a tensor, saving copies it."""
OWN: Final = frozenset({"step", "backward", "forward", "zero_grad", "train", "eval", "update", "to"})
"""Methods of torch objects: a function of the file with the same name is a different one."""
DEPTH: Final = 3  # Nested calls into functions of the same file that are followed

Function = ast.FunctionDef | ast.AsyncFunctionDef
Loop = ast.For | ast.While | ast.AsyncFor


@dataclass(frozen=True, slots=True)
class _Timing:
    """A clock read into a variable, and read again for the difference."""

    start: ast.stmt
    clock: ast.Call  # The second read
    stop: ast.stmt  # The statement of the same block that contains it
    between: list[ast.stmt]


class TimedWithoutSynchronize(Rule, code="SPD103", severity=Severity.WARNING):
    not_applicable = "no work was launched on a GPU"
    fix_keeps_result = True

    def on_device_worked(self, event: DeviceWorked) -> Findings:
        for path in dict.fromkeys(place.path for place in event.places):
            source, lines = source_of(path), {place.line for place in event.places if place.path == path}
            for timing in _timings(source):
                between = _Between(source, lines)
                between.read(timing.between)
                if between.work and not between.waits and not _waits_before(timing):
                    yield self._report(event, source, timing, sorted(between.work))

    def _report(self, event: DeviceWorked, source: Source, timing: _Timing, work: list[int]) -> Finding:
        where = f"line {work[0]}" if len(work) == 1 else f"lines {', '.join(map(str, work))}"
        wait = f"torch.{event.device if event.device in ('cuda', 'mps', 'xpu') else 'accelerator'}.synchronize()"
        return self.finding(
            event,
            f"This time since line {timing.start.lineno} does not include the {event.device} work of {where}: nothing "
            "waits for the device before the clock is read.",
            fix=f"Call `{wait}` before each clock read.",
            evidence=facts(timing, "device started=start.lineno stopped=clock.lineno", device=event.device, work=work),
            place=source.place(timing.clock),
            diff=_with_wait(source, timing, wait),
        )


def _with_wait(source: Source, timing: _Timing, wait: str) -> str:
    """The wait before both reads, in a file that imports torch by its name."""
    imports = (node for node in ast.walk(source.tree) if isinstance(node, ast.Import))
    imported = {alias.asname or alias.name for node in imports for alias in node.names}
    second = source.statement(timing.clock.lineno)
    simple = isinstance(second, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return))
    if "torch" not in imported or second is None or not simple:
        return ""
    lines = (timing.start.lineno, second.lineno)
    return diff(source.path, [Edit(line, line - 1, (source.indent(line) + wait,)) for line in lines])


# -- the clocks --


def _is_clock(node: ast.AST) -> TypeGuard[ast.Call]:
    """`time.perf_counter()`, `perf_counter()`, `time()`; not `x.time()` of other objects."""
    if not isinstance(node, ast.Call) or node.args or node.keywords or called_name(node) not in CLOCKS:
        return False
    return isinstance(node.func, ast.Name) or (
        isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) in ("time", "timeit")
    )


def _timings(source: Source) -> Iterator[_Timing]:
    for node in ast.walk(source.tree):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield from _in_block(block)


def _in_block(block: list[ast.stmt]) -> Iterator[_Timing]:
    """Each start in a block of statements, with the first difference to it later in the same block."""
    for first, start in enumerate(block):
        name = _read_into(start)
        again: dict[str, tuple[int, ast.Call]] = {}  # later clock reads, into other variables
        for index, statement in enumerate(block[first + 1 :] if name else (), first + 1):
            if (stop := _difference(statement, name, again, index)) is not None:
                yield _Timing(start, stop[1], block[stop[0]], block[first + 1 : stop[0]])
                break
            other = _read_into(statement)
            if other == name or (
                isinstance(statement, ast.Assign) and any(ast.unparse(target) == name for target in statement.targets)
            ):
                break
            if other and isinstance(statement, ast.Assign) and _is_clock(statement.value):
                again[other] = (index, statement.value)


def _read_into(statement: ast.stmt) -> str:
    """The variable that a statement reads the clock into: `t0 = time.time()`, `self.t0 = ...`."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and _is_clock(statement.value):
        return ast.unparse(statement.targets[0])
    return ""


def _difference(
    statement: ast.stmt, name: str, again: dict[str, tuple[int, ast.Call]], index: int
) -> tuple[int, ast.Call] | None:
    """Index and clock read of the difference that this statement computes; None if it computes none."""
    for node in ast.walk(statement):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and ast.unparse(node.right) == name:
            if _is_clock(node.left):
                return index, node.left
            if (read := ast.unparse(node.left)) in again:
                return again[read]
    return None


# -- between the clock reads --


def _waits_before(timing: _Timing) -> bool:
    """`print(loss.item(), time.time() - t0)`: a call before the second read, in its statement, waits."""
    reading = (timing.clock.lineno, timing.clock.col_offset)
    for node in ast.walk(timing.stop):
        if not isinstance(node, ast.expr) or (node.lineno, node.col_offset) >= reading:
            continue
        is_wait = isinstance(node, ast.Call) and called_name(node) in WAITS
        if is_wait and not any(inner is timing.clock for inner in ast.walk(node)):
            return True
        if isinstance(node, ast.FormattedValue) and _shows_a_loss(node.value):
            return True
    return False


def _shows_a_loss(expression: ast.expr) -> bool:
    """`if loss > best:`, `f"{loss}"` may wait; `if step % 10 == 0:` and `if self.training:` do not."""
    names = (node for node in ast.walk(expression) if isinstance(node, (ast.Name, ast.Attribute)))
    return any("loss" in ast.unparse(node).lower() for node in names)


class _Between:
    """Work and waits between two clock reads, also in functions of the same file."""

    def __init__(self, source: Source, lines: set[int]) -> None:
        self.lines = lines
        self.work: set[int] = set()
        self.waits = False
        self._functions = {node.name: node for node in ast.walk(source.tree) if isinstance(node, Function)}
        self._imported = _from_other_files(source)
        self._seen: set[str] = set()

    def read(self, statements: list[ast.stmt], depth: int = 0, repeated: bool = False) -> None:
        for statement in statements:
            again = repeated or any(isinstance(node, Loop) for node in ast.walk(statement))
            inside = self.lines.intersection(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
            self.work |= inside
            if inside and again:
                self.waits = True  # many steps: the rest of the queue is small in comparison
            if any(isinstance(node, (ast.If, ast.While)) and _shows_a_loss(node.test) for node in ast.walk(statement)):
                self.waits = True
            for call in calls_in(statement):
                self._follow(call, depth, again)

    def _follow(self, call: ast.Call, depth: int, repeated: bool) -> None:
        name = called_name(call)
        if name in WAITS or name in self._imported:
            self.waits = True
        function = None if isinstance(call.func, ast.Attribute) and name in OWN else self._functions.get(name)
        if function is not None and name not in self._seen and depth < DEPTH:
            self._seen.add(name)
            self.read(function.body, depth + 1, repeated)


def _from_other_files(source: Source) -> set[str]:
    """Functions imported by name, not from torch or the standard library: they may wait."""
    nodes = (node for node in ast.walk(source.tree) if isinstance(node, ast.ImportFrom))
    foreign = (n for n in nodes if n.level or (n.module or "").split(".")[0] not in {"torch", *sys.stdlib_module_names})
    return {alias.asname or alias.name for node in foreign for alias in node.names}
