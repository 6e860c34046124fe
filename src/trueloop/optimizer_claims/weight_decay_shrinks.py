"""weight-decay-shrinks: weight decay pulls the weights toward zero, in the way that is named here.

Where gradients are zero, decoupled decay multiplies the weights by (1 - lr * weight_decay) in each step; coupled decay
enters the gradient, and an adaptive optimizer takes full steps by it.
"""

from collections.abc import Sequence
from typing import ClassVar, Final, final

import torch
from torch import Tensor, nn

from trueloop.optimizer_claims.optimizer_claim import OptimizerClaim
from trueloop.optimizer_claims.optimizer_subject import NotTaken, OptimizerSubject, apart, arguments_of, snapshot
from trueloop.optimizer_claims.problem import SEPARABLE
from trueloop.results.proof import Cause, Proof

__all__ = ["WeightDecayShrinks"]

DECAY: Final = 0.1
STEPS: Final = 3
LONGER: Final = 20

UNUSED = Cause("weight_decay is accepted and not used", "search for it in step()")
SIGN = Cause("its sign: the weights are pushed away from zero", "`p.mul_(1 - lr * decay)`, or `grad + decay * p`")
OTHER = Cause(
    "decay of the other kind than the reference's", "Adam adds it to the gradient, AdamW multiplies the weights"
)


@final
class WeightDecayShrinks(OptimizerClaim):
    name = "weight-decay-shrinks"
    healthy = "with zero gradients the weights shrink, by the same kind of decay as the reference's"
    causes: ClassVar[tuple[Cause, ...]] = (UNUSED, SIGN, OTHER)

    def try_optimizer(self, subject: OptimizerSubject) -> Proof:
        if not subject.has("weight_decay"):
            return self.unproved("it has no argument weight_decay")
        if subject.needs_closure:
            return self.unproved("it needs a closure, and computes gradients that are not zero itself")
        try:
            mine, start = self._decayed(subject, reference=False)
        except NotTaken as error:
            return self.unproved(f"weight_decay={DECAY} is refused ({error})")
        sizes = [sum(float(each.norm()) for each in tensors) for tensors in (start, mine)]
        evidence = {"weight_decay": DECAY, "size_before": sizes[0], "size_after": sizes[1]}
        if sizes[0] == sizes[1]:
            if self._matters(subject):
                return self.unproved("with gradients of zero it takes no step; otherwise weight_decay has an effect")
            said = f"weight_decay={DECAY} changes nothing where gradients are zero"
            return self.fails(said, evidence, self.likely_first(UNUSED), subject.place)
        if sizes[1] > sizes[0]:
            said = (
                f"weight_decay={DECAY} makes the weights grow, from {sizes[0]:.4g} to {sizes[1]:.4g} in {STEPS} steps"
            )
            return self.fails(said, evidence, self.likely_first(SIGN), subject.place)
        multiplied = [each * (1 - (subject.lr or 0.0) * DECAY) ** STEPS for each in start]
        kind = "by 1 - lr * weight_decay" if apart(mine, multiplied, start) < 1e-2 else "as a part of the gradient"
        if subject.reference is not None and "weight_decay" in arguments_of(subject.reference):
            other, _ = self._decayed(subject, reference=True)
            distance = apart(mine, other, start)
            if distance > 1e-2:
                said = f"weight decay acts {kind}; {subject.against} decays differently ({distance:.2g} apart)"
                return self.fails(said, evidence | {"apart": distance}, self.likely_first(OTHER), subject.place)
        return self.holds(f"weight decay acts {kind}", evidence | {"kind": kind})

    def _matters(self, subject: OptimizerSubject) -> bool:
        """Does it change a training whose gradients are not zero?"""
        with_decay, without = (
            subject.training(SEPARABLE, weight_decay=decay).run(LONGER).parameters for decay in (DECAY, 0.0)
        )
        return not all(map(torch.equal, with_decay, without))

    def _decayed(self, subject: OptimizerSubject, *, reference: bool) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        def zero(_: int, parameters: Sequence[nn.Parameter]) -> None:
            for each in parameters:
                if each.grad is not None:
                    each.grad.zero_()

        make = subject.reference_training if reference else subject.training
        training = make(SEPARABLE, edit=zero, weight_decay=DECAY)
        start = snapshot(training.parameters)
        return training.run(STEPS).parameters, start
