# hint: state in attributes of the optimizer
import torch
from torch.optim import Optimizer


class SGD(Optimizer):
    def __init__(self, params, lr=0.01, momentum=0.9, weight_decay=0.0):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self.velocity = {}

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                g = p.grad.add(p, alpha=group["weight_decay"])
                v = self.velocity.get(p)
                self.velocity[p] = v = g.clone() if v is None else v.mul_(group["momentum"]).add_(g)
                p.sub_(v, alpha=group["lr"])
