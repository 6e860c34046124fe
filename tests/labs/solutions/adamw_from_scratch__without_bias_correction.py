# hint: the update itself
import torch
from torch.optim import Optimizer


class MyAdamW(Optimizer):
    def __init__(self, params, lr=0.001, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            lr, (beta1, beta2) = group["lr"], group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                g, state = p.grad, self.state[p]
                if not state:
                    state.update(t=torch.tensor(0.0), m=torch.zeros_like(p), v=torch.zeros_like(p))
                state["t"] += 1
                p.mul_(1 - lr * group["weight_decay"])
                state["m"].mul_(beta1).add_(g, alpha=1 - beta1)
                state["v"].mul_(beta2).addcmul_(g, g, value=1 - beta2)
                root = state["v"].sqrt().add_(group["eps"])
                p.addcdiv_(state["m"], root, value=-lr)
        return loss
