"""resume-is-exact: a run that is killed and resumed ends bit-identical to an undisturbed one.

The recipe is trained twice for some steps, in processes of their own. One is killed (SIGKILL) at a random step, and
resumed. Weights, optimizer, random states and every row of metrics are then compared. A script is killed and started
again in the same copy of its folder, and compared step by step.
"""

import json
import random
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, final

import torch

from trueloop.checkpoint.contents import read_contents
from trueloop.checkpoint.store import Folder
from trueloop.claims.claim import Claim
from trueloop.claims.kill_and_resume import UNDISTURBED
from trueloop.claims.repeat_runs import short_run_words
from trueloop.claims.script_resume import NotTested, resume_script
from trueloop.claims.subject import RecipeSubject, ScriptSubject, dataset_place, function_place, last_line, run_python
from trueloop.claims.tensor_digest import differing_names, digest_of_all
from trueloop.engine.call_model import call_model
from trueloop.engine.parts import Parts
from trueloop.event import Place
from trueloop.measure.randomness import fence
from trueloop.results.proof import Cause, Proof
from trueloop.usercode.ownership import class_place

__all__ = ["ResumeIsExact"]

STEPS: Final = 30
SAVE_EVERY: Final = 4  # steps between checkpoints: the kill is mostly between two of them
EVALUATE_EVERY: Final = 7  # not in step with the checkpoints
MACHINE_METRICS: Final = frozenset(("seconds", "samples_per_second", "data_wait", "memory_mb"))

DATA = Cause(
    "the data have a state of their own: a counter, a generator, a cache that is written",
    "draw from the global generators, which are seeded for each batch, or make a sample depend on its index only",
)
SPLIT = Cause(
    "the data are not the same in every process: an unseeded generator, the order of a set or of a folder",
    "seed the generator with `request.seed`, and sort what has no order",
)
AUGMENT = Cause("the augmentation has its own generator or state", "draw only from the generator that it is given")
MODEL = Cause("the model has a state outside its parameters and buffers", "register it: `self.register_buffer(...)`")
CHANCE = Cause("two undisturbed runs differ too", "the claim runs-are-deterministic names the line")
OPTIMIZER_LOST = Cause("the optimizer's state is not restored", "save and load `optimizer.state_dict()`")
RATE_LOST = Cause("the schedule or scaler is not restored", "save and load `scheduler.state_dict()`")
BATCHES_LOST = Cause(
    "the order of the batches, or other random numbers, are not restored",
    "save and load `torch.get_rng_state()` (CUDA, numpy, random too), and save at the end of an epoch",
)
WEIGHTS_LOST = Cause(
    "different weights are loaded than those of the last step", "the best ones, a moving average, half precision?"
)
POSITION_LOST = Cause("the number of epochs or steps taken is not restored", "save it, and begin the loop with it")
BUFFERS_LOST = Cause("only parameters are saved", "save `model.state_dict()`: it holds buffers (BatchNorm) too")
OF_SCRIPTS: Final = {
    "optimizer": OPTIMIZER_LOST,
    "rates": RATE_LOST,
    "gradients": BATCHES_LOST,
    "weights": WEIGHTS_LOST,
    "length": POSITION_LOST,
    "buffers": BUFFERS_LOST,
}
OPTIMIZER = Cause("the optimizer or the loss has a state that its state_dict does not hold", "look at its state_dict()")


@final
class ResumeIsExact(Claim):
    name = "resume-is-exact"
    tests_own_step = True
    healthy = "weights, optimizer, random states and every row of metrics are bit-identical"
    causes: ClassVar[tuple[Cause, ...]] = (SPLIT, DATA, AUGMENT, MODEL, OPTIMIZER, CHANCE)

    def try_recipe(self, subject: RecipeSubject) -> Proof:
        if not subject.words:
            said = "the recipe was built in Python, so no other process can train it"
            return self.unproved(f"{said}: run `trueloop probe my_recipe.py`")
        runs = subject.scratch / "resume"
        result = _kill_and_resume(subject, runs)
        if result.get("killed_at") is None or result["resumed"] not in (0, 1):
            output = runs / "output.txt"
            text = output.read_text(encoding="utf-8", errors="replace") if output.is_file() else ""
            refused = re.search(r"was trained with (different (?:data|code) \(.*?\))\.", text)
            if refused:
                said = f"a run of it was killed at step {result['killed_at']}, and its resume found {refused[1]}"
                place = function_place(subject.recipe.data)
                return self.fails(said, dict(result), self.likely_first(SPLIT), place)
            error = last_line(text) or "no output"
            return self.unproved(f"a run of it could not be killed and resumed ({error})", dict(result))
        undisturbed, resumed = runs / UNDISTURBED, runs / str(result["name"])
        facts: dict[str, object] = {"steps": STEPS, "killed_at": result["killed_at"]}
        row = _first_differing_row(undisturbed, resumed)
        one, other = _last_checkpoint(undisturbed), _last_checkpoint(resumed)
        differing = differing_names(one, other)
        killed = f"killed at step {result['killed_at']} of {STEPS} and resumed"
        if row is None and not differing:
            rows = len(_rows(undisturbed))
            said = f"{killed}, the run ended with bit-identical {len(one):,} values and {rows} rows of metrics"
            return self.holds(said, {**facts, "rows": rows})
        facts |= {"first_row": row, "differing": differing[:8], "differing_count": len(differing)}
        cause, place = _cause(subject)
        causes = self.causes if cause is None else self.likely_first(cause)
        return self.fails(f"{killed}, the run differs: {_sentence(row, differing, len(one))}", facts, causes, place)

    def try_script(self, subject: ScriptSubject) -> Proof:
        try:
            done = resume_script(subject)
        except NotTested as reason:
            return self.unproved(str(reason))
        facts: dict[str, object] = {"steps": done.steps, "killed_at": done.killed_at, "resumed_at": done.began_at}
        killed = f"killed at step {done.killed_at} of {done.steps} and started again, the script"
        if done.difference is None:
            said = f"{killed} resumed at step {done.began_at}: weights after each of {done.compared} steps"
            return self.holds(f"{said} are bit-identical to those of an undisturbed run", facts)
        facts |= {"differing": done.difference.part}
        where = f" resumed at step {done.began_at}" if done.began_at else " resumed"
        cause = OF_SCRIPTS.get(done.difference.part)
        causes = tuple(OF_SCRIPTS.values()) if cause is None else (cause,)
        return self.fails(f"{killed}{where}: {done.difference.said}", facts, causes, done.resumed.load_place)


def _kill_and_resume(subject: RecipeSubject, runs: Path) -> dict[str, Any]:
    words = short_run_words(subject, STEPS, save_every=SAVE_EVERY, evaluate_every=EVALUATE_EVERY)
    out = subject.scratch / "resume.json"
    step = random.SystemRandom().randrange(SAVE_EVERY + 1, STEPS - SAVE_EVERY)  # different each time
    run_python("-m", "trueloop.claims.kill_and_resume", str(out), str(runs), str(step), *words)
    return dict(json.loads(out.read_text(encoding="utf-8"))) if out.is_file() else {}


# -- comparing --


def _rows(run: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [{name: value for name, value in row.items() if name not in MACHINE_METRICS} for row in rows]


def _first_differing_row(undisturbed: Path, resumed: Path) -> dict[str, Any] | None:
    """Its kind and step, and a differing value in both."""
    ours, theirs = _rows(undisturbed), _rows(resumed)
    for one, other in zip(ours, theirs, strict=False):
        if one != other:
            name = next((name for name in one if one[name] != other.get(name)), "step")
            found = {"kind": one["kind"], "step": one["step"], "value": name}
            return {**found, "undisturbed": one[name], "resumed": other.get(name)}
    if len(ours) == len(theirs):
        return None
    return {"kind": "train", "step": 0, "value": "rows", "undisturbed": len(ours), "resumed": len(theirs)}


def _last_checkpoint(run: Path) -> dict[str, Any]:
    store = Folder(run / "checkpoints")
    contents = read_contents(store, store.names()[-1])
    return dict(_flat({"weights": contents.weights, "training": contents.training}, ""))


def _flat(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from _flat(item, f"{path}.{number}")
    else:
        yield path, value


def _sentence(row: dict[str, Any] | None, differing: list[str], values: int) -> str:
    some = ", ".join(differing[:2])
    said = [f"{len(differing)} of {values:,} values in the last checkpoint differ ({some})"] if differing else []
    if row is not None:
        was = f"is {row['resumed']} instead of {row['undisturbed']}"
        said.insert(0, f"{row['kind']} {row['value']} at step {row['step']} {was}")
    return ", and ".join(said)


# -- the cause --


def _cause(subject: RecipeSubject) -> tuple[Cause | None, Place | None]:
    """Each part is called twice: one with a different second result has a state that no checkpoint holds."""
    parts = subject.parts()
    numbers = next(parts.batches.keys(0, 0)).numbers
    fetched = {_digest(lambda: parts.splits.train.fetch(torch.as_tensor(numbers))) for _ in range(2)}
    if len(fetched) > 1:
        return DATA, dataset_place(parts.splits)
    if len({_digest(lambda: parts.batches.batch_at(0, 0)) for _ in range(2)}) > 1:
        return AUGMENT, function_place(parts.splits.augment)
    return (MODEL, class_place(type(parts.model))) if _has_hidden_state(parts, subject) else (None, None)


def _digest(work: Any) -> int:
    with fence(1), torch.no_grad():
        return digest_of_all(work())


def _has_hidden_state(parts: Parts, subject: RecipeSubject) -> bool:
    batch, state = subject.batch(parts), parts.model.state_dict()
    saved = {name: each.clone() if isinstance(each, torch.Tensor) else each for name, each in state.items()}
    parts.model.train()
    outputs = set()
    for _ in range(2):
        parts.model.load_state_dict(saved)
        outputs.add(_digest(lambda: call_model(parts.model, batch.inputs)))
    return len(outputs) > 1
