"""runs-are-deterministic: two runs with the same seed give bit-identical weights.

Without it no change can be compared and no failure reproduced. Two new processes run the same training. Their weights
are compared after every step, and of a difference, the first operation that differs is found, with its line.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ClassVar, Final, final

from trueloop.claims.claim import Claim
from trueloop.claims.first_difference import Difference, Kind, first_difference
from trueloop.claims.operation_trace import Trace, tracing
from trueloop.claims.repeat_runs import START, trace_recipe, trace_script
from trueloop.claims.subject import RecipeSubject, ScriptSubject
from trueloop.engine.assemble import assemble
from trueloop.engine.loop import Loop
from trueloop.measure.randomness import fence
from trueloop.results.proof import Cause, Proof

__all__ = ["RunsAreDeterministic"]

STEPS: Final = 40  # of a recipe: twice as many as are traced operation by operation
Run = Callable[[tuple[str, ...]], list[Trace]]  # Names of runs -> their traces

TORCH = Cause("torch is not seeded before it draws", "call `torch.manual_seed(0)` before anything else")
PYTHON = Cause("Python's `random` is not seeded", "call `random.seed(0)` before anything else")
NUMPY = Cause("numpy is not seeded", "call `numpy.random.seed(0)` first; give a seed: `default_rng(0)`")
HASHES = Cause("the order of a set, or of hashes, has an effect", "`sorted(the_set)`, or PYTHONHASHSEED=0 outside")
DEVICE = Cause(
    "an operation is nondeterministic here", "`torch.use_deterministic_algorithms(True)`, `deterministic=true`"
)
HOST = Cause(
    "an operation gives different output for the same inputs: threads that add in a random order, uninitialized memory",
    "try `torch.set_num_threads(1)`; look for torch.empty whose values are used",
)
LOADER = Cause("the loader yields different samples", "a seeded `generator=`; seed other libraries in `worker_init_fn`")
OUTSIDE = Cause(
    "something outside torch differs: a separate generator, the clock, the order of files in a folder, an id()",
    "look at what the line reads: `sorted(os.listdir(...))`, a seed for every generator",
)
CAUSES: Final[Mapping[Kind, Cause]] = {
    "torch": TORCH,
    "device": DEVICE,
    "computed": HOST,
    "loader": LOADER,
    "outside": OUTSIDE,
    "length": OUTSIDE,
}
GENERATORS: Final = {"python": PYTHON, "numpy": NUMPY}
UNEXPLAINED: Final = ("outside", "loader", "length", "unknown")


@final
class RunsAreDeterministic(Claim):
    name = "runs-are-deterministic"
    tests_own_step = True
    healthy = "the weights of two runs are bit-identical after every step"
    causes: ClassVar[tuple[Cause, ...]] = (TORCH, PYTHON, NUMPY, LOADER, HASHES, DEVICE, HOST, OUTSIDE)

    def try_recipe(self, subject: RecipeSubject) -> Proof:
        if not subject.words:
            return self._result(lambda runs: _in_this_process(subject, runs), "two runs in one process")
        traces, error = trace_recipe(subject, STEPS)
        if len(traces) < 2:
            return self.unproved(f"a run of it failed ({error})")
        return self._result(lambda runs: trace_recipe(subject, STEPS, runs)[0], "two runs in separate processes")

    def try_script(self, subject: ScriptSubject) -> Proof:
        traces, error = trace_script(subject)
        if len(traces) < 2:
            return self.unproved(f"the script could not be traced twice ({error})")
        if not all(trace.steps for trace in traces):
            return self.unproved("no torch optimizer took a step in this run")
        return self._result(lambda runs: trace_script(subject, runs)[0], "two runs in separate processes")

    def _result(self, run: Run, where: str) -> Proof:
        first, second = run(("first", "second"))
        found = first_difference(first, second)
        steps, operations = min(len(first.steps), len(second.steps)), min(len(first.operations), len(second.operations))
        facts: dict[str, object] = {"steps": steps, "operations": operations, "runs": where}
        if found is None:
            said = f"{where} had bit-identical weights after each of {steps} steps"
            return self.holds(f"{said}; {operations:,} operations were traced", facts)
        facts |= {"differs_at_step": found.step, "operation": found.operation, "kind": found.kind}
        facts |= {"equal_operations": found.compared}
        said = f"the weights of {where} differ after step {found.step}"
        for suspect in found.suspects:
            if _explains(run, suspect.kind, first):
                facts |= {"drawn_by": suspect.function}
                said += f": {suspect.function} drew different numbers; with the same numbers, the weights are identical"
                return self.fails(said, facts, (GENERATORS[suspect.kind],), suspect.place)
        if found.kind in UNEXPLAINED and _explains(run, "hashes", first):
            said += f": {_sentence(found)}; with the same PYTHONHASHSEED the weights are identical"
            return self.fails(said, facts, (HASHES,), found.place)
        seen = [CAUSES[found.kind]] if found.kind in CAUSES else []
        causes = (TORCH,) if found.kind == "torch" else self.likely_first(*seen)
        return self.fails(f"{said}: {_sentence(found)}", facts, causes, found.place)


def _explains(run: Run, shared: str, first: Trace) -> bool:
    """A third run shares only this with the first: are its weights identical?"""
    traces = run((shared,))
    return bool(traces) and first_difference(first, traces[0]) is None


def _sentence(found: Difference) -> str:
    first = f"{found.operation} was the first operation to differ"
    sentences: dict[Kind, str] = {
        "torch": f"{found.operation} drew different random numbers, and nothing before it differed",
        "device": f"{first}, with the same inputs",
        "computed": f"{first}, with the same inputs",
        "outside": f"{first}, and torch did not compute its inputs",
        "loader": "a loader yielded a different batch",
        "length": "one of them took fewer steps",
        "unknown": "no single operation was found",
    }
    return sentences[found.kind]


def _in_this_process(subject: RecipeSubject, runs: tuple[str, ...]) -> list[Trace]:
    warmup = min(subject.recipe.warmup, STEPS // 4)
    recipe = replace(subject.recipe, epochs=None, steps=STEPS, patience=None, warmup=warmup)
    traces = []
    for name in runs:
        with fence(), tracing(START[name]) as trace:
            Loop(assemble(recipe, subject.request)).train()
        traces.append(trace)
    return traces
