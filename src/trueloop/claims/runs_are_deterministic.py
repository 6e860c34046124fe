"""runs-are-deterministic: two runs with the same seed give the same weights, to the last bit.

Without it no change can be judged, and no failure looked at twice. Two fresh processes run the same thing; their
weights are compared after every step, and where they part, the first operation that gave something else is looked up,
with the line that runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ClassVar, Final, final

from trueloop.claims.claim import Claim
from trueloop.claims.parting import Kind, Parting, parting
from trueloop.claims.rerun import START, traced_recipe, traced_script
from trueloop.claims.subject import RecipeSubject, ScriptSubject
from trueloop.claims.trace import Trace, tracing
from trueloop.engine.loop import Loop
from trueloop.measure.randomness import fence
from trueloop.results.proof import Cause, Proof

__all__ = ["RunsAreDeterministic"]

STEPS: Final = 40
"""Of a recipe: twice as many as are written down operation by operation."""

TORCH: Final = Cause(
    "torch's generator is not seeded before it is drawn from", "call torch.manual_seed(0) before anything else"
)
PYTHON: Final = Cause("Python's `random` is not seeded", "call random.seed(0) before anything else")
NUMPY: Final = Cause(
    "numpy's generator is not seeded", "call numpy.random.seed(0) first; give default_rng a seed: default_rng(0)"
)
HASHES: Final = Cause(
    "the order of a set, or of hashes, decides something",
    "sort it: sorted(the_set); with PYTHONHASHSEED=0 in the environment it stands still",
)
DEVICE: Final = Cause(
    "an operation adds up in no fixed order on this device",
    "torch.use_deterministic_algorithms(True); of a recipe: --set deterministic=true",
)
HOST: Final = Cause(
    "an operation gives other bits for the same inputs: threads that add up in no fixed order, or memory that nobody has filled",
    "try torch.set_num_threads(1); look for torch.empty whose numbers are used",
)
LOADER: Final = Cause(
    "the loader hands out other samples",
    "give DataLoader a seeded generator= , and seed in worker_init_fn what torch does not",
)
OUTSIDE: Final = Cause(
    "something from outside of torch differs: a generator of its own, the clock, the order of files in a folder, an id()",
    "look at what the line reads: sorted(os.listdir(...)), a seed for every generator",
)
BLAMED: Final[Mapping[Kind, Cause]] = {
    "torch": TORCH,
    "device": DEVICE,
    "computed": HOST,
    "loader": LOADER,
    "outside": OUTSIDE,
    "length": OUTSIDE,
}


@final
class RunsAreDeterministic(Claim):
    name = "runs-are-deterministic"
    healthy = "the weights of two runs are the same to the last bit after every step"
    causes: ClassVar[tuple[Cause, ...]] = (TORCH, PYTHON, NUMPY, LOADER, HASHES, DEVICE, HOST, OUTSIDE)

    def of_recipe(self, subject: RecipeSubject) -> Proof:
        if not subject.words:
            return self._judged(lambda runs: _in_this_process(subject, runs), "two runs in one process")
        traces, said = traced_recipe(subject, STEPS)
        if len(traces) < 2:
            return self.unproved(f"a run of it came to nothing ({said})")
        return self._judged(lambda runs: traced_recipe(subject, STEPS, runs)[0], "two runs in processes of their own")

    def of_script(self, subject: ScriptSubject) -> Proof:
        traces, said = traced_script(subject)
        if len(traces) < 2:
            return self.unproved(f"the script could not be run twice under a trace ({said})")
        if not all(trace.steps for trace in traces):
            return self.unproved("no optimizer of torch's took a step in this run")
        return self._judged(lambda runs: traced_script(subject, runs)[0], "two runs in processes of their own")

    def _judged(self, run: Run, where: str) -> Proof:
        first, second = run(("first", "second"))
        found = parting(first, second)
        steps, operations = min(len(first.steps), len(second.steps)), min(len(first.operations), len(second.operations))
        facts: dict[str, object] = {"steps": steps, "operations": operations, "runs": where}
        if found is None:
            return self.holds(
                f"{where} had the same weights after each of {steps} steps; {operations:,} operations were traced",
                facts,
            )
        facts |= {
            "parted_at_step": found.step,
            "operation": found.operation,
            "kind": found.kind,
            "operations_alike": found.compared,
        }
        told = f"the weights of {where} differ after step {found.step}"
        for suspect in found.suspects:
            if _is_it(run, suspect.kind, first):
                facts |= {"drawn_by": suspect.function}
                said = f"{told}: {suspect.function} drew other numbers; when it draws the same ones, the weights are the same"
                return self.fails(said, facts, (GENERATORS[suspect.kind],), suspect.place)
        if found.kind in UNEXPLAINED and _is_it(run, "hashes", first):
            said = f"{told}: {_first(found)}; with the same PYTHONHASHSEED the weights are the same"
            return self.fails(said, facts, (HASHES,), found.place)
        seen = [BLAMED[found.kind]] if found.kind in BLAMED else []
        causes = (TORCH,) if found.kind == "torch" else (*seen, *(cause for cause in self.causes if cause not in seen))
        return self.fails(f"{told}: {_first(found)}", facts, causes, found.place)


Run = Callable[[tuple[str, ...]], list[Trace]]
"""Runs, by their names, -> what was traced of them."""
GENERATORS: Final = {"python": PYTHON, "numpy": NUMPY}
UNEXPLAINED: Final = ("outside", "loader", "length", "unknown")


def _is_it(run: Run, shared: str, first: Trace) -> bool:
    """A third run shares just this with the first: has it the same weights?"""
    traces = run((shared,))
    return bool(traces) and parting(first, traces[0]) is None


def _first(found: Parting) -> str:
    match found.kind:
        case "torch":
            return f"{found.operation} drew other random numbers, and nothing before it differed"
        case "device" | "computed":
            return f"{found.operation} was the first operation to differ, with the same inputs"
        case "outside":
            return f"{found.operation} was the first operation to differ, and what it was given did not come from torch's operations"
        case "loader":
            return "a loader handed out another batch"
        case "length":
            return "one of them took no more steps"
        case _:
            return "no single operation could be named"


def _in_this_process(subject: RecipeSubject, runs: tuple[str, ...]) -> list[Trace]:
    recipe = replace(
        subject.recipe, epochs=None, steps=STEPS, patience=None, warmup=min(subject.recipe.warmup, STEPS // 4)
    )
    traces = []
    for name in runs:
        with fence(), tracing(START[name]) as trace:
            Loop.of(recipe, subject.request).train()
        traces.append(trace)
    return traces
