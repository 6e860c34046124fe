"""step-writes-weights-only: a step writes the weights where they are, and leaves gradients and graph alone."""

from typing import ClassVar, Final, final

import torch
from torch import Tensor

from trueloop.optimizer_claims.optimizer_claim import OptimizerClaim
from trueloop.optimizer_claims.optimizer_subject import OptimizerSubject, snapshot
from trueloop.optimizer_claims.problem import NET
from trueloop.results.proof import Cause, Proof
from trueloop.torch_private.dispatch import pytree

__all__ = ["StepWritesWeightsOnly"]

STEPS: Final = 5

GRADIENT = Cause(
    "an in-place operation on p.grad (add_, mul_, clamp_)", "`grad = p.grad.add(p, alpha=decay)`: without _"
)
ALIAS = Cause("a buffer that is p.grad itself, written in the next step", "clone the first gradient")
REPLACED = Cause("`p.data = ...` gives the parameter new memory", "p.copy_(...), p.add_(...) under torch.no_grad()")
GRAPH = Cause("step() is not under torch.no_grad()", "decorate it: @torch.no_grad()")


@final
class StepWritesWeightsOnly(OptimizerClaim):
    name = "step-writes-weights-only"
    healthy = "gradients are unchanged, weights keep their memory, and no state has a graph"
    causes: ClassVar[tuple[Cause, ...]] = (GRADIENT, ALIAS, REPLACED, GRAPH)

    def try_optimizer(self, subject: OptimizerSubject) -> Proof:
        training = subject.training(NET)
        for step in range(1, STEPS + 1):
            places = [each.data_ptr() for each in training.parameters]
            if not subject.needs_closure:
                training.gradients()
                kept = [(each.grad, each.grad.clone()) for each in training.parameters if each.grad is not None]
                training.optimizer.step()
                if changed := [number for number, (now, before) in enumerate(kept) if not torch.equal(now, before)]:
                    said = f"step {step} changed the gradients of {len(changed)} of {len(kept)} parameters"
                    return self.fails(said, {"step": step, "parameters": changed}, place=subject.place)
            else:
                training.step()
            if places != [each.data_ptr() for each in training.parameters]:
                said = (
                    f"step {step} gave parameters new memory: views, shared weights and CUDA graphs keep the old values"
                )
                return self.fails(said, {"step": step}, self.likely_first(REPLACED), subject.place)
            if graphs := _with_graph(training.optimizer.state):
                said = f"after step {step}, {graphs} of the state's tensors have a graph, which grows from step to step"
                return self.fails(said, {"step": step, "tensors": graphs}, self.likely_first(GRAPH), subject.place)
        return self._alias(subject) or self.holds(f"unchanged gradients and memory in {STEPS} steps", {"steps": STEPS})

    def _alias(self, subject: OptimizerSubject) -> Proof | None:
        """Gradients that are cleared to zero instead of None must not clear the optimizer's buffers."""
        if subject.needs_closure:
            return None
        ends = []
        for to_none in (True, False):
            training = subject.training(NET)
            for _ in range(STEPS):
                training.optimizer.zero_grad(set_to_none=to_none)
                training.problem.loss(training.parameters).backward()  # type: ignore[no-untyped-call]
                training.seed()
                training.optimizer.step()
                training.taken += 1
            ends.append(snapshot(training.parameters))
        if all(map(torch.equal, *ends)):
            return None
        said = f"with zero_grad(set_to_none=False) the weights differ after {STEPS} steps"
        return self.fails(said, {"steps": STEPS}, self.likely_first(ALIAS), subject.place)


def _with_graph(state: object) -> int:
    leaves = pytree.tree_leaves(list(state.values()) if hasattr(state, "values") else [])
    return sum(1 for each in leaves if isinstance(each, Tensor) and each.grad_fn is not None)
