import torch
from torch.optim import Optimizer


class SGD(Optimizer):
    def __init__(self, params, lr=0.01, momentum=0.9, weight_decay=0.0):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                g = p.grad.add(p, alpha=group["weight_decay"])
                if group["momentum"]:
                    v = self.state[p].get("v")
                    v = g.clone() if v is None else v.mul_(group["momentum"]).add_(g)
                    self.state[p]["v"] = g = v
                p.sub_(g, alpha=group["lr"])
