# hint: which line adds to it in place?
import torch
from torch.optim import Optimizer


class MySGD(Optimizer):
    def __init__(self, params, lr=0.01, momentum=0.9, weight_decay=0.01):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                d = p.grad.add_(p, alpha=group["weight_decay"])
                state = self.state[p]
                if "v" in state:
                    state["v"].mul_(group["momentum"]).add_(d)
                else:
                    state["v"] = d.clone()
                p.sub_(state["v"], alpha=group["lr"])
        return loss
