"""A script that is killed in the middle and started again in the same folder, compared with an undisturbed run of it.

A script that resumes loads what it saved last and takes the remaining steps. Its first step tells where it is: the
weights before it are those before some step of the undisturbed run. From there on every step must be bit-identical.
"""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from trueloop.claims.script_steps import ScriptSteps, StepDigest, read_steps
from trueloop.claims.subject import ScriptSubject

__all__ = ["Difference", "NotTested", "ResumedScript", "resume_script"]

RECORDER: Final = "trueloop.claims.script_steps"
NEEDS: Final = "to be tested it must load its last checkpoint, if there is one, when it starts"
Part = Literal["weights", "optimizer", "rates", "gradients", "step", "length", "buffers", "error"]


class NotTested(Exception):
    """Why the claim cannot be tested on this script."""


@dataclass(frozen=True, slots=True)
class Difference:
    part: Part
    said: str  # 'step 32 began with different gradients'


@dataclass(frozen=True, slots=True)
class ResumedScript:
    steps: int  # of the undisturbed run
    killed_at: int
    began_at: int  # the first step of the resumed run, from 1
    compared: int  # steps
    resumed: ScriptSteps
    difference: Difference | None


def resume_script(subject: ScriptSubject) -> ResumedScript:
    """Raises NotTested."""
    runs = _Runs(subject)
    undisturbed, wrote = runs.undisturbed()
    killed_at = _kill_step(undisturbed, wrote, subject.steps)
    saved = max((each for each in undisturbed.saved if each < killed_at), default=0)
    with subject.folder.fresh_copy() as copy:
        killed = runs.run("killed", 1, kill_at=killed_at, copy=copy)
        if killed.ended != "killed" or not _same(undisturbed.steps, killed.steps):
            raise NotTested(_not_repeated(undisturbed, killed))
        # A new process has new random states, so a script that does not restore them differs.
        resumed = runs.run("resumed", 2, steps=len(undisturbed.steps) - saved if subject.steps else 0, copy=copy)
    began = _began_at(runs, undisturbed, killed_at, resumed)
    difference = _difference(undisturbed, resumed, began)
    if difference is not None and runs.differ(undisturbed):
        raise NotTested("two undisturbed runs differ too: the claim runs-are-deterministic names the line")
    compared = min(len(undisturbed.steps) - began, len(resumed.steps))
    return ResumedScript(len(undisturbed.steps), killed_at, began + 1, compared, resumed, difference)


@dataclass(frozen=True, slots=True)
class _Runs:
    subject: ScriptSubject

    def undisturbed(self) -> tuple[ScriptSteps, bool]:
        """And whether it wrote any file into its folder."""
        with self.subject.folder.fresh_copy() as copy:
            before = _files(copy)
            done = self.run("undisturbed", 1, steps=self.subject.steps or 0, copy=copy)
            return done, _files(copy) != before

    def differ(self, undisturbed: ScriptSteps) -> bool:
        again = self.run("again", 1, steps=self.subject.steps or 0)
        same = len(again.steps) == len(undisturbed.steps) and again.buffers == undisturbed.buffers
        return not (same and _same(undisturbed.steps, again.steps))

    def run(self, name: str, seed: int, steps: int = 0, kill_at: int = 0, copy: Path | None = None) -> ScriptSteps:
        out = self.subject.scratch / f"resume-{name}.jsonl"
        options = (str(out), str(seed), str(steps), str(kill_at))
        self.subject.run(out, RECORDER, *options, copy=copy, PYTHONHASHSEED=str(seed))
        return read_steps(out)


def _files(copy: Path) -> set[tuple[str, int, int]]:
    found = ((path, path.lstat()) for path in copy.rglob("*") if path.suffix != ".pyc" and not path.is_dir())
    return {(str(path), facts.st_mtime_ns, facts.st_size) for path, facts in found}


def _kill_step(undisturbed: ScriptSteps, wrote: bool, limit: int | None) -> int:
    """At random, after something was saved and before the last step."""
    steps = len(undisturbed.steps)
    if undisturbed.ended in ("exception", "interrupted"):
        raise NotTested(f"the script failed ({undisturbed.error})")
    if not steps:
        raise NotTested("no torch optimizer took a step in this run")
    saved = sorted({each for each in undisturbed.saved if 0 < each < steps - 1})
    more = f" in its first {steps} steps: `--steps all` runs it to its end" if undisturbed.ended == "cut" else ""
    if not saved and undisturbed.saved:
        raise NotTested(f"the script saves only at its end, so there is nothing to resume from{more}")
    if not saved and not wrote:
        raise NotTested(f"the script saves nothing{more or ', so there is nothing to resume from'}")
    draw = random.SystemRandom()  # different each time
    if not saved:  # saved by another function than torch.save
        return max(1, steps // 2)
    number = draw.randrange(len(saved))
    last = saved[number + 1] if number + 1 < len(saved) else steps - 1
    return draw.randint(saved[number] + 1, max(last, saved[number] + 1))


def _same(one: list[StepDigest], other: list[StepDigest]) -> bool:
    """As far as both go."""
    return all((a.weights, a.after) == (b.weights, b.after) for a, b in zip(one, other, strict=False))


def _not_repeated(undisturbed: ScriptSteps, killed: ScriptSteps) -> str:
    if killed.ended == "killed":
        return "two runs differ already before the kill: the claim runs-are-deterministic names the line"
    return f"the second run ended before it could be killed ({killed.error or killed.ended})"


def _began_at(runs: _Runs, undisturbed: ScriptSteps, killed_at: int, resumed: ScriptSteps) -> int:
    """The index of the undisturbed run's step that the resumed one began with; -1: no such step."""
    again = f"killed at step {killed_at} of {len(undisturbed.steps)} and started again, the script"
    loaded = resumed.loads > undisturbed.loads
    if not resumed.steps:
        if loaded:
            return -1
        raise NotTested(f"{again} took no step ({resumed.error or 'it ended by itself'}); {NEEDS}")
    first = resumed.steps[0].weights
    found = [index for index, step in enumerate(undisturbed.steps) if step.weights == first]
    if found:  # more than one only if some steps change nothing
        began = max(found, key=lambda index: _equal_steps(undisturbed.steps[index:], resumed.steps))
        if began:
            return began
    elif loaded and runs.run("fresh", 2, steps=1).steps[0].weights != first:
        return -1
    raise NotTested(f"{again} began with step 1 again: it does not resume; {NEEDS}")


def _equal_steps(one: list[StepDigest], other: list[StepDigest]) -> int:
    pairs = list(zip(one, other, strict=False))
    return next((number for number, (a, b) in enumerate(pairs) if not _same([a], [b])), len(pairs))


def _difference(undisturbed: ScriptSteps, resumed: ScriptSteps, began: int) -> Difference | None:
    if resumed.ended in ("exception", "interrupted"):
        return Difference("error", f"the resumed run failed ({resumed.error})")
    if not resumed.steps:
        return Difference("length", "the resumed run loaded a state and took no step")
    if began < 0:
        said = "the resumed run began with weights that the undisturbed run had before none of its steps"
        return Difference("weights", said)
    rest = undisturbed.steps[began:]
    equal = _equal_steps(rest, resumed.steps)
    if equal < min(len(rest), len(resumed.steps)):
        return _differing_step(rest[equal], resumed.steps[equal], began + equal + 1)
    total, expected = began + len(resumed.steps), len(undisturbed.steps)
    early = resumed.ended != "cut" and total < expected
    if early or (undisturbed.ended != "cut" and total > expected):
        return Difference("length", f"the resumed run ended after step {total} instead of {expected}")
    if total == expected and resumed.buffers != undisturbed.buffers:
        return Difference("buffers", "the weights are bit-identical, but buffers of the model are not")
    return None


def _differing_step(one: StepDigest, other: StepDigest, number: int) -> Difference:
    words: dict[Part, str] = {"weights": "weights", "optimizer": "optimizer states"}
    words |= {"rates": "optimizer settings (learning rate)", "gradients": "gradients"}
    part: Part = next((each for each in words if getattr(one, each) != getattr(other, each)), "step")
    if part == "step":
        return Difference(part, f"step {number} gave different weights from the same gradients")
    return Difference(part, f"step {number} begins with different {words[part]}")
