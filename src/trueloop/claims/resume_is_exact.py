"""resume-is-exact: a run that is killed and resumed ends with the same bits as one that was left alone.

The recipe is really trained, twice, for some steps, in processes of their own. One of the two is killed (SIGKILL) at a
step that is drawn by lot, and resumed. Weights, optimizer, random states and every row of metrics are then compared to
the last bit.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, final

import torch

from trueloop.checkpoint.contents import read_contents
from trueloop.checkpoint.store import Folder
from trueloop.claims.claim import Claim
from trueloop.claims.digest import differing, digest_of_all
from trueloop.claims.interrupt import UNDISTURBED
from trueloop.claims.rerun import short_words
from trueloop.claims.subject import RecipeSubject, python
from trueloop.engine.parts import Parts
from trueloop.event import Place
from trueloop.measure.randomness import fence
from trueloop.results.proof import Cause, Proof
from trueloop.usercode.ownership import class_place

__all__ = ["ResumeIsExact"]

STEPS: Final = 30
EVERY: Final = 4
"""Steps between two checkpoints: the kill falls between two of them, mostly."""
EVALUATED: Final = 7
"""Steps between two evaluations: not in step with the checkpoints."""
TIMES: Final = frozenset(("seconds", "samples_per_second", "data_wait", "memory_mb"))
"""What rows of metrics tell of the machine, not of the training."""

DATA: Final = Cause(
    "the data keep a state of their own: a counter, a generator, a cache that is written into",
    "draw from the global generators, which are seeded for each batch, or make everything follow from the sample's number",
)
AUGMENT: Final = Cause(
    "the augmentation draws from a generator of its own, or keeps a state",
    "draw from the generator that it is given, and from nothing else",
)
MODEL: Final = Cause(
    "the model keeps a state outside of its parameters and buffers",
    "register it: self.register_buffer(...), and it is in every checkpoint",
)
CHANCE: Final = Cause("two runs that are left alone differ as well", "the claim runs-are-deterministic names the line")
OPTIMIZER: Final = Cause(
    "the optimizer, or the loss, keeps a state that its state_dict does not hold", "look at its state_dict()"
)


@final
class ResumeIsExact(Claim):
    name = "resume-is-exact"
    healthy = "weights, optimizer, random states and every row of metrics are the same to the last bit"
    causes: ClassVar[tuple[Cause, ...]] = (DATA, AUGMENT, MODEL, OPTIMIZER, CHANCE)

    def of_recipe(self, subject: RecipeSubject) -> Proof:
        if not subject.words:
            return self.unproved(
                "the recipe was made in Python, so that no other process can train it: `trueloop probe my_recipe.py` can"
            )
        runs = subject.scratch / "resume"
        told = _interrupted(subject, runs)
        if told.get("killed_at") is None or told["resumed"] not in (0, 1):
            return self.unproved(f"a run of it could not be killed and resumed ({_last_words(runs)})", dict(told))
        left, resumed = runs / UNDISTURBED, runs / str(told["name"])
        facts: dict[str, object] = {"steps": STEPS, "killed_at": told["killed_at"]}
        parted = _first_row(left, resumed)
        one, other = _last_checkpoint(left), _last_checkpoint(resumed)
        unlike = differing(one, other)
        killed = f"killed at step {told['killed_at']} of {STEPS} and resumed"
        if parted is None and not unlike:
            rows = len(_rows(left))
            return self.holds(
                f"{killed}, it ended with the same {len(one):,} values and {rows} rows of metrics",
                {**facts, "rows": rows},
            )
        facts |= {"first_row": parted, "unlike": unlike[:8], "unlike_count": len(unlike)}
        cause, place = _blamed(subject)
        causes = self.causes if cause is None else (cause, *(each for each in self.causes if each is not cause))
        return self.fails(f"{killed}, it is another run: {_told(parted, unlike, len(one))}", facts, causes, place)


def _interrupted(subject: RecipeSubject, runs: Path) -> dict[str, Any]:
    words = short_words(subject, STEPS, save_every=EVERY, evaluate_every=EVALUATED)
    out = subject.scratch / "resume.json"
    step = random.SystemRandom().randrange(EVERY + 1, STEPS - EVERY)  # another moment each time
    python("-m", "trueloop.claims.interrupt", str(out), str(runs), str(step), *words)
    return dict(json.loads(out.read_text(encoding="utf-8"))) if out.is_file() else {}


def _last_words(runs: Path) -> str:
    said = runs / "said.txt"
    lines = said.read_text(encoding="utf-8", errors="replace").strip().splitlines() if said.is_file() else []
    return lines[-1] if lines else "it said nothing"


# -- what is compared --


def _rows(run: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [{name: value for name, value in row.items() if name not in TIMES} for row in rows]


def _first_row(left: Path, resumed: Path) -> dict[str, Any] | None:
    """The first that differs: its kind and step, and what it is in both."""
    here, there = _rows(left), _rows(resumed)
    for one, other in zip(here, there, strict=False):
        if one != other:
            value = next((name for name in one if one[name] != other.get(name)), "step")
            return {
                "kind": one["kind"],
                "step": one["step"],
                "value": value,
                "left_alone": one[value],
                "resumed": other.get(value),
            }
    return (
        None
        if len(here) == len(there)
        else {"kind": "train", "step": 0, "value": "rows", "left_alone": len(here), "resumed": len(there)}
    )


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


def _told(parted: dict[str, Any] | None, unlike: list[str], whole: int) -> str:
    said = (
        f"{len(unlike)} of {whole:,} values in the last checkpoint differ ({', '.join(unlike[:2])})" if unlike else ""
    )
    if parted is None:
        return said
    first = f"{parted['kind']} {parted['value']} at step {parted['step']} is {parted['resumed']} instead of {parted['left_alone']}"
    return f"{first}{', and ' + said if said else ''}"


# -- who is to blame --


def _blamed(subject: RecipeSubject) -> tuple[Cause | None, Place | None]:
    """Each part is asked twice for the same: one that answers otherwise the second time keeps a state that no
    checkpoint holds."""
    parts = subject.parts()
    numbers = next(parts.batches.keys(0, 0)).numbers
    fetched = [_fenced(lambda: parts.splits.train.fetch(torch.as_tensor(numbers))) for _ in range(2)]
    if fetched[0] != fetched[1]:
        samples = getattr(parts.splits.train, "samples", parts.splits.train)
        return DATA, class_place(type(samples))
    if len({_fenced(lambda: parts.batches.batch_at(0, 0)) for _ in range(2)}) > 1:
        code = getattr(parts.splits.augment, "__code__", None)
        return AUGMENT, Place(code.co_filename, code.co_firstlineno, code.co_qualname) if code is not None else None
    return (MODEL, class_place(type(parts.model))) if _remembers(parts, subject) else (None, None)


def _fenced(work: Any) -> int:
    with fence(1), torch.no_grad():
        return digest_of_all(work())


def _remembers(parts: Parts, subject: RecipeSubject) -> bool:
    batch = subject.batch(parts)
    kept = {
        name: value.clone() if isinstance(value, torch.Tensor) else value
        for name, value in parts.model.state_dict().items()
    }
    parts.model.train()
    answers = set()
    for _ in range(2):
        parts.model.load_state_dict(kept)
        answers.add(_fenced(lambda: parts.model(batch.inputs)))
    return len(answers) > 1
