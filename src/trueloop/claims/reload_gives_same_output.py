"""reload-gives-same-output: a model that is built again and loaded from the saved state gives bit-identical output.

A checkpoint holds weights and buffers. Everything else that a forward needs (a tensor that is not a buffer, a number
drawn in the constructor, a layer created in the first call) is lost, and the loaded model is not the trained one.
"""

import json
from typing import Any, ClassVar, Final, final

from trueloop.checkpoint.contents import read_contents, take_snapshot
from trueloop.checkpoint.plan import name_of
from trueloop.checkpoint.store import Folder
from trueloop.claims.claim import Claim
from trueloop.claims.rebuild import Rebuilt, rebuild_and_load, save_and_load
from trueloop.claims.subject import RecipeSubject, ScriptSubject, last_line
from trueloop.engine.build_model import build_model
from trueloop.engine.call_model import call_model
from trueloop.engine.loop import Loop
from trueloop.engine.parts import Parts
from trueloop.results.proof import Cause, Proof

__all__ = ["ReloadGivesSameOutput"]

STEPS: Final = 2  # trained before: lazily created parts exist then

UNSAVED = Cause(
    "a layer, tensor or number that the forward needs is not in the checkpoint",
    'nn.ModuleList for a list of layers, self.register_buffer("name", ...) for a tensor; '
    "`trueloop explain MDL101` and `trueloop explain MDL103`",
)
LAZY = Cause("a part is created in the first forward", "create it in the constructor, or call the model before loading")
DRAWN = Cause("the constructor draws a random value", "draw it with a seed of its own, or register it as a buffer")
CUSTOM = Cause("a custom state_dict or load_state_dict omits something", "compare its keys with named_parameters()")


@final
class ReloadGivesSameOutput(Claim):
    name = "reload-gives-same-output"
    healthy = "the outputs of the loaded model are bit-identical"
    causes: ClassVar[tuple[Cause, ...]] = (UNSAVED, DRAWN, LAZY, CUSTOM)

    def try_recipe(self, subject: RecipeSubject) -> Proof:
        parts = subject.parts(epochs=None, steps=STEPS, warmup=0, patience=None, compile="off")
        Loop(parts).train()
        batch = subject.batch(parts)

        def call(model: Any) -> Any:
            with parts.precision.autocast():
                return call_model(model, batch.inputs)

        states = {"checkpoint": _checkpoint(parts, subject), "state_dict": save_and_load(parts.model.state_dict())}
        results = {
            kind: rebuild_and_load(parts.model, lambda: build_model(parts.recipe, parts.splits.facts), state, call)
            for kind, state in states.items()
        }
        worst = next((kind for kind, result in results.items() if not result.same), "checkpoint")
        return self._result(results[worst], worst, "a trueloop checkpoint and a torch state_dict")

    def try_script(self, subject: ScriptSubject) -> Proof:
        out = subject.scratch / "rebuild.json"
        done = subject.run(out, "trueloop.claims.rebuild", str(out), str(subject.steps or 0))
        if not out.is_file():
            return self.unproved(f"the script did not finish ({last_line(done.stderr) or 'no output on stderr'})")
        return self._result(Rebuilt(**json.loads(out.read_text(encoding="utf-8"))), "state_dict", "its state_dict")

    def _result(self, result: Rebuilt, kind: str, loaded_from: str) -> Proof:
        if result.problem:
            return self.unproved(result.problem)
        facts: dict[str, object] = {"model": result.model, "tensors": result.tensors, "loaded_from": kind}
        if result.same:
            said = f"{result.model}, built again and loaded from {loaded_from} ({result.tensors} tensors)"
            return self.holds(f"{said}, gives bit-identical output", facts)
        facts |= {"layer": result.layer, "attributes": list(result.attributes)}
        if result.load_error:
            said = f"a new {result.model} cannot load the saved state: {result.load_error}"
            return self.fails(said, facts, (LAZY, CUSTOM, UNSAVED), result.at())
        attributes = ", ".join(result.attributes[:3])
        lost = f"; {attributes} is not in the {kind} and differs" if attributes else ""
        first = f", first in {result.layer}" if result.layer else ""
        said = f"{result.model}, built again and loaded, gives different output{first}{lost}"
        return self.fails(said, facts, (UNSAVED, DRAWN, LAZY) if attributes else None, result.at())


def _checkpoint(parts: Parts, subject: RecipeSubject) -> dict[str, Any]:
    """The model's state, written to disk and read back like in a run."""
    store = Folder(subject.scratch / "reload")
    contents = take_snapshot({"step": STEPS}, {"model": parts.model.state_dict()}, {})
    contents.wait()
    store.write(name_of(STEPS), contents.about, contents.writers())
    return read_contents(store, name_of(STEPS)).state_of("model")
