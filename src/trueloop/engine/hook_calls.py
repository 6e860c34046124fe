"""Hooks that get the loop: called at moments of the run, in every process, and saved with every checkpoint.

A hook's random numbers do not change the training (they are fenced, as in evaluation), and a model that it leaves in
eval mode is put back. What it freezes and unfreezes is kept, and is part of a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, final

from trueloop.engine.hook_memory import unsaved_attributes
from trueloop.errors import BadRecipe
from trueloop.hook import Hook, Hooks
from trueloop.measure.randomness import fence

if TYPE_CHECKING:
    from trueloop.engine.loop import Loop

__all__ = ["HookCalls", "gets_loop"]

MOMENTS: Final = ("begin", "stepped", "evaluated", "epoch_ended")


def gets_loop(hook: Hook, moments: Sequence[str] = MOMENTS) -> bool:
    """Does it override a method that gets the loop?"""
    return any(getattr(type(hook), name) is not getattr(Hook, name) for name in moments)


def _misspelled(hook: Hook) -> str:
    """A sentence on a method that looks like one of Hook's, and is never called; empty: there is none."""
    known = [name for name in vars(Hook) if not name.startswith("_")]
    for name in vars(type(hook)):
        near = [] if name in known or name.startswith("_") else get_close_matches(name, known, n=1, cutoff=0.8)
        if near:
            never = f"The hook {type(hook).__name__} has a method `{name}`, which trueloop never calls"
            return f"{never}. Did you mean `{near[0]}`?"
    return ""


def _not_saved(hook: Hook, names: list[str]) -> str:
    kind, changed = type(hook).__name__, ", ".join(f"self.{name}" for name in names)
    return (
        f"The hook {kind} changes {changed} and has no state_dict: a resumed run begins with the value of __init__. "
        f"Give {kind} state_dict and load_state_dict, or keep the value in loop.memory."
    )


@final
class HookCalls:
    """Of one run."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        parts = loop.parts
        given = [hook for hook in _members(parts.hooks) if gets_loop(hook) and hook not in parts.recipe.hooks]
        if given and parts.peers.world > 1:
            raise BadRecipe(
                f"{type(given[0]).__name__} gets the loop, so every process needs it, and there are "
                f"{parts.peers.world}. Nothing was run: give it in Recipe(hooks=...)."
            )
        self.hooks = [hook for hook in (*given, *parts.recipe.hooks) if gets_loop(hook)]
        self._stepping = [hook for hook in self.hooks if gets_loop(hook, ("stepped",))]
        if self._stepping and loop.program.replays:
            raise BadRecipe(
                f"{type(self._stepping[0]).__name__}.stepped is called after each step, and program="
                f"{parts.recipe.program} replays several at once. Nothing was run: set program=eager."
            )
        self._begun = False
        self._pending: Mapping[str, Any] = {}
        self._held = {id(parameter) for parameter in parts.parameters}
        self._frozen: list[str] = []

    # -- moments --

    def begin(self) -> None:
        """Before the first step; of a resumed run, with the weights and counters of its checkpoint."""
        self._frozen = self._frozen_names()
        for sentence in map(_misspelled, self.loop.parts.recipe.hooks):
            if sentence:
                self.loop.parts.hooks.noted(sentence)
        for hook in self.hooks:
            if names := unsaved_attributes(hook):
                self.loop.parts.hooks.noted(_not_saved(hook, names))
        for hook in self.hooks:
            with self._around(hook):
                hook.begin(self.loop)
        self._begun = True
        if self._pending:
            self.restore(self._pending)

    def after_step(self, *, evaluated: bool, ends_epoch: bool) -> None:
        if not (self._stepping or (self.hooks and (evaluated or ends_epoch))):
            return
        if self.loop.state.evaluation_due:
            return  # a signal interrupted the evaluation: a resumed run evaluates first, and calls the hooks then
        for hook in self._stepping:
            with self._around(hook):
                hook.stepped(self.loop)
        values = self.loop.validation.values
        for hook in self.hooks if evaluated and values else ():
            with self._around(hook):
                hook.evaluated(self.loop, values)
        for hook in self.hooks if ends_epoch else ():
            with self._around(hook):
                hook.epoch_ended(self.loop)
        self._agree_on_end()

    def _agree_on_end(self) -> None:
        """One process that ends alone would leave the others waiting for it."""
        peers, state = self.loop.parts.peers, self.loop.state
        reasons = [why for why in peers.gather(state.ended_by) if why] if peers.world > 1 else []
        if reasons and not state.ended_by:
            self.loop.end_training(reasons[0])

    @contextmanager
    def _around(self, hook: Hook) -> Iterator[None]:
        model = self.loop.model
        modes = [(module, module.training) for module in model.modules()]
        with fence():
            yield
        if not model.training:  # as after `model.eval()`; single parts that a hook put into eval mode stay there
            for module, training in modes:
                module.training = training
        frozen = self._frozen_names()
        if frozen != self._frozen:
            self._check_unfrozen(hook)
            self._frozen = frozen

    def _frozen_names(self) -> list[str]:
        return [name for name, parameter in self.loop.model.named_parameters() if not parameter.requires_grad]

    def _check_unfrozen(self, hook: Hook) -> None:
        program, kind = self.loop.recipe.program, type(hook).__name__
        if program != "eager":
            raise BadRecipe(f"{kind} changed requires_grad, and program={program} was built before: set program=eager.")
        for name, parameter in self.loop.model.named_parameters():
            if parameter.requires_grad and id(parameter) not in self._held:
                raise BadRecipe(
                    f"{kind} unfroze {name}, but the optimizer does not hold it, so it would never change. Freeze it "
                    "in the hook's begin(loop) instead of in `model`, or list it in the recipe's groups."
                )

    # -- checkpoints --

    def state(self) -> dict[str, Any]:
        """For a checkpoint; empty without such hooks."""
        if not self.hooks:
            return {}
        modules = self.loop.model.named_modules()
        return {
            "states": {name: hook.state_dict() for name, hook in self._named()},
            "frozen": self._frozen_names(),
            "in_eval_mode": [name for name, module in modules if not module.training],
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Before `begin`, it waits for that: a hook may set up what it is restored into."""
        self._pending = saved
        if not self._begun or not saved:
            return
        for name, hook in self._named():
            if saved["states"].get(name):
                hook.load_state_dict(saved["states"][name])
        for name, parameter in self.loop.model.named_parameters():
            parameter.requires_grad_(name not in saved["frozen"])
        for name, module in self.loop.model.named_modules():
            module.training = name not in saved["in_eval_mode"]
        self._frozen = self._frozen_names()

    def _named(self) -> Iterator[tuple[str, Hook]]:
        """By class; by class and number where there are several of one."""
        counts: dict[str, int] = {}
        for hook in self.hooks:
            kind = type(hook).__name__
            counts[kind] = counts.get(kind, 0) + 1
            yield (kind if counts[kind] == 1 else f"{kind} {counts[kind]}"), hook


def _members(hook: Hook) -> Iterator[Hook]:
    for member in hook.members if isinstance(hook, Hooks) else ():
        yield from _members(member) if isinstance(member, Hooks) else (member,)
