"""reload-gives-same-output: a model that is built anew and given the saved state answers the same, to the last bit.

Saved are the weights and buffers. Whatever else a forward needs (a tensor that is no buffer, a number that was drawn in
the constructor, a layer that is made in the first call) is lost, and the loaded model is another one than the one that
was trained.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar, Final, final

from trueloop.checkpoint.contents import read_contents, taken
from trueloop.checkpoint.plan import name_of
from trueloop.checkpoint.store import Folder
from trueloop.claims.claim import Claim
from trueloop.claims.reload import Reloaded, reloaded, through_a_file
from trueloop.claims.subject import RecipeSubject, ScriptSubject, python
from trueloop.engine.loop import Loop
from trueloop.engine.parts import Parts
from trueloop.recipe.model import build_model
from trueloop.results.proof import Cause, Proof

__all__ = ["ReloadGivesSameOutput"]

STEPS: Final = 2
"""That are trained before: what a model makes of its first batch is there then."""

LOOSE: Final = Cause(
    "a layer, tensor or number that the forward needs is in no checkpoint",
    'nn.ModuleList for a list of layers, self.register_buffer("name", ...) for a tensor; `trueloop explain MDL101` and MDL103',
)
LAZY: Final = Cause(
    "a part is made in the first forward", "make it in the constructor, or call the model once before loading"
)
DRAWN: Final = Cause(
    "something is drawn at random when the model is built", "draw it from a seed of its own, or register it as a buffer"
)
EXTRA: Final = Cause(
    "state_dict or load_state_dict are written by hand and leave something out",
    "compare their keys with named_parameters()",
)


@final
class ReloadGivesSameOutput(Claim):
    name = "reload-gives-same-output"
    healthy = "the loaded model's answers are the same to the last bit"
    causes: ClassVar[tuple[Cause, ...]] = (LOOSE, DRAWN, LAZY, EXTRA)

    def of_recipe(self, subject: RecipeSubject) -> Proof:
        parts = subject.parts(epochs=None, steps=STEPS, warmup=0, patience=None, compile="off")
        Loop(parts).train()
        batch = subject.batch(parts)

        def ask(model: Any) -> Any:
            with parts.precision.autocast():
                return model(batch.inputs)

        states = {"checkpoint": _checkpointed(parts, subject), "state_dict": through_a_file(parts.model.state_dict())}
        made = {
            way: reloaded(parts.model, lambda: build_model(parts.recipe, parts.splits.facts), state, ask)
            for way, state in states.items()
        }
        worst = next((way for way, each in made.items() if not each.same), "checkpoint")
        return self._judged(made[worst], worst, "a checkpoint of trueloop's and a state_dict of torch's")

    def of_script(self, subject: ScriptSubject) -> Proof:
        out = subject.scratch / "reload.json"
        done = python("-m", "trueloop.claims.reload", str(out), str(subject.steps or 0), *subject.command)
        if not out.is_file():
            return self.unproved(
                f"the script did not come to its end ({next(reversed(done.stderr.strip().splitlines()), 'no word')})"
            )
        return self._judged(Reloaded(**json.loads(out.read_text(encoding="utf-8"))), "state_dict", "its state_dict")

    def _judged(self, found: Reloaded, way: str, ways: str) -> Proof:
        if found.problem:
            return self.unproved(found.problem)
        facts: dict[str, object] = {"model": found.model, "tensors": found.tensors, "way": way}
        if found.same:
            return self.holds(
                f"{found.model}, built anew and loaded from {ways} ({found.tensors} tensors), answers the same", facts
            )
        facts |= {"layer": found.layer, "attributes": list(found.attributes)}
        if found.refused:
            said = f"a fresh {found.model} cannot load what was saved: {found.refused}"
            return self.fails(said, facts, (LAZY, EXTRA, LOOSE), found.at())
        lost = f"; {', '.join(found.attributes[:3])} is not in the {way} and differs" if found.attributes else ""
        at = f", first in {found.layer}" if found.layer else ""
        said = f"{found.model}, built anew and loaded, gives other answers{at}{lost}"
        return self.fails(said, facts, (LOOSE, DRAWN, LAZY) if found.attributes else None, found.at())


def _checkpointed(parts: Parts, subject: RecipeSubject) -> dict[str, Any]:
    """The model's state, written to a disk and read back as a run does it."""
    store = Folder(subject.scratch / "reload")
    contents = taken({"step": STEPS}, {"model": parts.model.state_dict()}, {})
    contents.wait()
    store.write(name_of(STEPS), contents.about, contents.writers())
    return read_contents(store, name_of(STEPS)).state_of("model")
