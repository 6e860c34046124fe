import torch
from torch.optim import Optimizer


<<<<<<< HEAD
class SGD(Optimizer):
    def __init__(self, params, lr=0.01, momentum=0.9, weight_decay=0.0):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
=======
class MySGD(Optimizer):
    def __init__(self, params, lr=0.01, momentum=0.9, weight_decay=0.01):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
>>>>>>> 3549f31a (Labs of modules and optimizers: a model walked, hooks, SGD and AdamW as exercises, weights moved, bit-exact twice, initializations)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
<<<<<<< HEAD
                g = p.grad.add(p, alpha=group["weight_decay"])
                if group["momentum"]:
                    v = self.state[p].get("v")
                    v = g.clone() if v is None else v.mul_(group["momentum"]).add_(g)
                    self.state[p]["v"] = g = v
                p.sub_(g, alpha=group["lr"])
=======
                d = p.grad + group["weight_decay"] * p
                state = self.state[p]
                if "v" in state:
                    state["v"].mul_(group["momentum"]).add_(d)
                else:
                    state["v"] = d.clone()
                p.sub_(state["v"], alpha=group["lr"])
        return loss
>>>>>>> 3549f31a (Labs of modules and optimizers: a model walked, hooks, SGD and AdamW as exercises, weights moved, bit-exact twice, initializations)
