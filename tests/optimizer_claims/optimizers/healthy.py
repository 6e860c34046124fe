"""Correct custom optimizers in many styles (test material for an optimizer probe)."""

import math

import torch
from torch.optim import Optimizer


def _dense(p):
    """The gradient of p; refuses what these optimizers do not implement."""
    if p.grad.is_sparse:
        raise RuntimeError("sparse gradients are not supported")
    if torch.is_complex(p):
        raise RuntimeError("complex parameters are not supported")
    return p.grad


# against: torch.optim.SGD
# arguments: lr=0.1, weight_decay=0.01
class PlainSGD(Optimizer):
    def __init__(self, params, lr=0.1, weight_decay=0.0):
        if not 0.0 <= lr:
            raise ValueError(f"invalid lr {lr}")
        if not 0.0 <= weight_decay:
            raise ValueError(f"invalid weight_decay {weight_decay}")
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay))

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
                d_p = p.grad
                if group["weight_decay"] != 0:
                    d_p = _dense(p).add(p, alpha=group["weight_decay"])
                p.add_(d_p, alpha=-group["lr"])
        return loss


# against: torch.optim.SGD
# arguments: lr=0.05, momentum=0.9, dampening=0.3, weight_decay=0.001, maximize=False
class MomentumSGD(Optimizer):
    """Momentum with dampening; the first buffer is the undamped gradient, as in torch."""

    def __init__(self, params, lr=1e-2, momentum=0.9, dampening=0.0, weight_decay=0.0, *, maximize=False):
        if not 0.0 <= lr:
            raise ValueError(f"invalid lr {lr}")
        if not 0.0 <= momentum < 1.0:
            raise ValueError(f"invalid momentum {momentum}")
        if not 0.0 <= dampening <= 1.0:
            raise ValueError(f"invalid dampening {dampening}")
        if not 0.0 <= weight_decay:
            raise ValueError(f"invalid weight_decay {weight_decay}")
        defaults = dict(lr=lr, momentum=momentum, dampening=dampening,
                        weight_decay=weight_decay, maximize=maximize)
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            momentum, damp = group["momentum"], group["dampening"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                g = _dense(p)
                if group["maximize"]:
                    g = -g
                if group["weight_decay"]:
                    g = g.add(p, alpha=group["weight_decay"])
                if momentum:
                    state = self.state[p]
                    if "momentum_buffer" not in state:
                        state["momentum_buffer"] = g.clone()
                    else:
                        state["momentum_buffer"].mul_(momentum).add_(g, alpha=1 - damp)
                    g = state["momentum_buffer"]
                p.add_(g, alpha=-group["lr"])
        return loss


# against: torch.optim.SGD
# arguments: lr=0.05, momentum=0.9
# reference arguments: lr=0.05, momentum=0.9, nesterov=True
class NesterovSGD(Optimizer):
    def __init__(self, params, lr, momentum=0.9):
        if lr < 0:
            raise ValueError("lr must not be negative")
        if not 0 < momentum < 1:
            raise ValueError("momentum must lie in (0, 1)")
        super().__init__(params, {"lr": lr, "momentum": momentum})

    def step(self, closure=None):
        loss = closure() if closure is not None else None
        with torch.no_grad():
            for group in self.param_groups:
                for p in filter(lambda q: q.grad is not None, group["params"]):
                    g = _dense(p)
                    s = self.state[p]
                    if len(s) == 0:
                        s["v"] = torch.zeros_like(p, memory_format=torch.preserve_format)
                    v = s["v"]
                    v.mul_(group["momentum"]).add_(g)
                    p.add_(g.add(v, alpha=group["momentum"]), alpha=-group["lr"])
        return loss


# against: torch.optim.SGD
# arguments: lr=0.05, momentum=0.8, weight_decay=0.01
class ForeachSGD(Optimizer):
    """Multi-tensor SGD."""

    def __init__(self, params, lr=1e-2, momentum=0.0, weight_decay=0.0):
        for name, value in (("lr", lr), ("momentum", momentum), ("weight_decay", weight_decay)):
            if not value >= 0.0:
                raise ValueError(f"{name}={value} must be >= 0")
        if momentum >= 1.0:
            raise ValueError("momentum must be below 1")
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if not params:
                continue
            grads = [_dense(p) for p in params]
            if group["weight_decay"] != 0:
                grads = torch._foreach_add(grads, params, alpha=group["weight_decay"])
            if group["momentum"] != 0:
                bufs = []
                for p in params:
                    if "momentum_buffer" not in self.state[p]:
                        self.state[p]["momentum_buffer"] = torch.zeros_like(p)
                    bufs.append(self.state[p]["momentum_buffer"])
                torch._foreach_mul_(bufs, group["momentum"])
                torch._foreach_add_(bufs, grads)
                grads = bufs
            torch._foreach_add_(params, grads, alpha=-group["lr"])
        return loss


# against: torch.optim.Adam
# arguments: lr=0.01, betas=(0.9, 0.99), weight_decay=0.01
class AdamScratch(Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0):
        if not 0.0 <= lr:
            raise ValueError("Invalid learning rate: {}".format(lr))
        if not 0.0 <= eps:
            raise ValueError("Invalid epsilon value: {}".format(eps))
        if not 0.0 <= betas[0] < 1.0:
            raise ValueError("Invalid beta parameter at index 0: {}".format(betas[0]))
        if not 0.0 <= betas[1] < 1.0:
            raise ValueError("Invalid beta parameter at index 1: {}".format(betas[1]))
        if not 0.0 <= weight_decay:
            raise ValueError("Invalid weight_decay value: {}".format(weight_decay))
        defaults = dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        super(AdamScratch, self).__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad = _dense(p)
                state = self.state[p]
                if len(state) == 0:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(p, memory_format=torch.preserve_format)
                    state["exp_avg_sq"] = torch.zeros_like(p, memory_format=torch.preserve_format)
                m, v = state["exp_avg"], state["exp_avg_sq"]
                state["step"] += 1
                bc1 = 1 - beta1 ** state["step"]
                bc2 = 1 - beta2 ** state["step"]
                if group["weight_decay"] != 0:
                    grad = grad.add(p, alpha=group["weight_decay"])
                m.mul_(beta1).add_(grad, alpha=1 - beta1)
                v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
                denom = (v.sqrt() / math.sqrt(bc2)).add_(group["eps"])
                p.addcdiv_(m, denom, value=-group["lr"] / bc1)
        return loss


# against: torch.optim.AdamW
# arguments: lr=0.01, weight_decay=0.1
class AdamWScratch(Optimizer):
    """Textbook notation: m_hat and v_hat are written out, step is a tensor."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2):
        beta1, beta2 = betas
        if not (lr >= 0 and eps >= 0 and weight_decay >= 0):
            raise ValueError("lr, eps and weight_decay must be >= 0")
        if not (0 <= beta1 < 1 and 0 <= beta2 < 1):
            raise ValueError("betas must lie in [0, 1)")
        super().__init__(params, dict(lr=lr, beta1=beta1, beta2=beta2, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._update(p, _dense(p), group)
        return loss

    def _update(self, p, g, group):
        state = self.state[p]
        if not state:
            state["step"] = torch.tensor(0.0)
            state["m"] = torch.zeros_like(p)
            state["v"] = torch.zeros_like(p)
        b1, b2 = group["beta1"], group["beta2"]
        state["step"] += 1
        t = state["step"].item()
        p.mul_(1 - group["lr"] * group["weight_decay"])
        state["m"].lerp_(g, 1 - b1)
        state["v"].mul_(b2).add_(g * g, alpha=1 - b2)
        m_hat = state["m"] / (1 - b1 ** t)
        v_hat = state["v"] / (1 - b2 ** t)
        p.sub_(group["lr"] * m_hat / (v_hat.sqrt() + group["eps"]))


# against: torch.optim.AdamW
# arguments: lr=0.005, betas=(0.9, 0.95), weight_decay=0.05
class ForeachAdamW(Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        if lr < 0 or eps < 0 or weight_decay < 0:
            raise ValueError("lr, eps, weight_decay must be non-negative")
        if any(not 0 <= b < 1 for b in betas):
            raise ValueError(f"betas {betas} must lie in [0, 1)")
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    def _init_state(self, p):
        state = self.state[p]
        if "step" not in state:
            state["step"] = 0
            state["exp_avg"] = torch.zeros_like(p)
            state["exp_avg_sq"] = torch.zeros_like(p)
        return state

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            ps = [p for p in group["params"] if p.grad is not None]
            if not ps:
                continue
            gs = [_dense(p) for p in ps]
            states = [self._init_state(p) for p in ps]
            for s in states:
                s["step"] += 1
            ms = [s["exp_avg"] for s in states]
            vs = [s["exp_avg_sq"] for s in states]
            b1, b2 = group["betas"]
            lr = group["lr"]
            torch._foreach_mul_(ps, 1 - lr * group["weight_decay"])
            torch._foreach_lerp_(ms, gs, 1 - b1)
            torch._foreach_mul_(vs, b2)
            torch._foreach_addcmul_(vs, gs, gs, 1 - b2)
            denoms = torch._foreach_sqrt(vs)
            torch._foreach_div_(denoms, [math.sqrt(1 - b2 ** s["step"]) for s in states])
            torch._foreach_add_(denoms, group["eps"])
            torch._foreach_addcdiv_(ps, ms, denoms, [-lr / (1 - b1 ** s["step"]) for s in states])
        return loss


# against: torch.optim.Adam
# arguments: lr=0.01, betas=(0.9, 0.9)
# reference arguments: lr=0.01, betas=(0.9, 0.9), amsgrad=True
class AMSGrad(Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        if lr < 0 or eps < 0:
            raise ValueError("lr and eps must be non-negative")
        if not all(0 <= b < 1 for b in betas):
            raise ValueError("betas must lie in [0, 1)")
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                g, s = _dense(p), self.state[p]
                if not s:
                    s.update(step=0, m=torch.zeros_like(p), v=torch.zeros_like(p), v_max=torch.zeros_like(p))
                s["step"] += 1
                s["m"].mul_(b1).add_(g, alpha=1 - b1)
                s["v"].mul_(b2).addcmul_(g, g, value=1 - b2)
                torch.maximum(s["v_max"], s["v"], out=s["v_max"])
                denom = s["v_max"].sqrt().div_(math.sqrt(1 - b2 ** s["step"])).add_(group["eps"])
                p.addcdiv_(s["m"], denom, value=-group["lr"] / (1 - b1 ** s["step"]))
        return loss


# against: torch.optim.RMSprop
# arguments: lr=0.005, alpha=0.95, momentum=0.5, centered=True
class RMSpropScratch(Optimizer):
    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8, momentum=0.0, centered=False, weight_decay=0.0):
        if not (lr >= 0 and eps >= 0 and 0 <= momentum < 1 and 0 <= alpha < 1 and weight_decay >= 0):
            raise ValueError("invalid hyperparameter")
        super().__init__(params, dict(lr=lr, alpha=alpha, eps=eps, momentum=momentum,
                                      centered=centered, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            alpha = group["alpha"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad = _dense(p)
                state = self.state[p]
                if "square_avg" not in state:
                    state["square_avg"] = torch.zeros_like(p)
                if group["momentum"] > 0 and "momentum_buffer" not in state:
                    state["momentum_buffer"] = torch.zeros_like(p)
                if group["centered"] and "grad_avg" not in state:
                    state["grad_avg"] = torch.zeros_like(p)
                if group["weight_decay"] != 0:
                    grad = grad.add(p, alpha=group["weight_decay"])
                sq = state["square_avg"].mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
                if group["centered"]:
                    ga = state["grad_avg"].lerp_(grad, 1 - alpha)
                    avg = sq.addcmul(ga, ga, value=-1).sqrt_().add_(group["eps"])
                else:
                    avg = sq.sqrt().add_(group["eps"])
                if group["momentum"] > 0:
                    buf = state["momentum_buffer"].mul_(group["momentum"]).addcdiv_(grad, avg)
                    p.add_(buf, alpha=-group["lr"])
                else:
                    p.addcdiv_(grad, avg, value=-group["lr"])
        return loss


# against: torch.optim.Adagrad
# arguments: lr=0.05, lr_decay=0.01, initial_accumulator_value=0.1
class AdagradScratch(Optimizer):
    """State is allocated when a group is added, so also for groups added later."""

    def __init__(self, params, lr=1e-2, lr_decay=0.0, initial_accumulator_value=0.0, eps=1e-10):
        for name, v in dict(lr=lr, lr_decay=lr_decay, eps=eps,
                            initial_accumulator_value=initial_accumulator_value).items():
            if not v >= 0:
                raise ValueError(f"{name} must be >= 0, got {v}")
        super().__init__(params, dict(lr=lr, lr_decay=lr_decay, eps=eps,
                                      initial_accumulator_value=initial_accumulator_value))

    def add_param_group(self, param_group):
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for p in group["params"]:
            self.state[p]["step"] = 0
            self.state[p]["sum"] = torch.full_like(p, group["initial_accumulator_value"], requires_grad=False)

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
                g = _dense(p)
                state = self.state[p]
                state["step"] += 1
                clr = group["lr"] / (1 + (state["step"] - 1) * group["lr_decay"])
                state["sum"].addcmul_(g, g, value=1)
                p.addcdiv_(g, state["sum"].sqrt().add_(group["eps"]), value=-clr)
        return loss


# against: torch.optim.Adadelta
# arguments: lr=1.0, rho=0.9, eps=1e-6
class AdadeltaScratch(Optimizer):
    def __init__(self, params, lr=1.0, rho=0.9, eps=1e-6):
        if lr < 0.0:
            raise ValueError("negative lr")
        if not 0.0 <= rho <= 1.0:
            raise ValueError("rho outside [0, 1]")
        if eps < 0.0:
            raise ValueError("negative eps")
        super().__init__(params, dict(lr=lr, rho=rho, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            rho, eps = group["rho"], group["eps"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                g = _dense(p)
                st = self.state[p]
                if len(st) == 0:
                    st["square_avg"] = torch.zeros_like(p)
                    st["acc_delta"] = torch.zeros_like(p)
                st["square_avg"].mul_(rho).addcmul_(g, g, value=1 - rho)
                std = st["square_avg"].add(eps).sqrt_()
                delta = st["acc_delta"].add(eps).sqrt_().div_(std).mul_(g)
                st["acc_delta"].mul_(rho).addcmul_(delta, delta, value=1 - rho)
                p.add_(delta, alpha=-group["lr"])
        return loss


# against: torch.optim.Adamax
# arguments: lr=0.01
class AdamaxScratch(Optimizer):
    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8):
        if not lr >= 0 or not eps >= 0:
            raise ValueError("lr and eps must be >= 0")
        if not all(0.0 <= b < 1.0 for b in betas):
            raise ValueError("betas must lie in [0, 1)")
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                g = _dense(p)
                st = self.state[p]
                if len(st) == 0:
                    st["step"] = 0
                    st["exp_avg"] = torch.zeros_like(p)
                    st["exp_inf"] = torch.zeros_like(p)
                st["step"] += 1
                st["exp_avg"].lerp_(g, 1 - b1)
                st["exp_inf"].copy_(torch.maximum(st["exp_inf"] * b2, g.abs() + group["eps"]))
                p.addcdiv_(st["exp_avg"], st["exp_inf"], value=-group["lr"] / (1 - b1 ** st["step"]))
        return loss


# against: torch.optim.NAdam
# arguments: lr=0.005
class NAdamScratch(Optimizer):
    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, momentum_decay=4e-3):
        if lr < 0 or eps < 0 or momentum_decay < 0:
            raise ValueError("lr, eps and momentum_decay must be >= 0")
        if min(betas) < 0 or max(betas) >= 1:
            raise ValueError("betas must lie in [0, 1)")
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, momentum_decay=momentum_decay))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                g = _dense(p)
                s = self.state[p]
                if not s:
                    s["step"], s["mu_product"] = 0, 1.0
                    s["exp_avg"], s["exp_avg_sq"] = torch.zeros_like(p), torch.zeros_like(p)
                s["step"] += 1
                t = s["step"]
                mu = b1 * (1.0 - 0.5 * 0.96 ** (t * group["momentum_decay"]))
                mu_next = b1 * (1.0 - 0.5 * 0.96 ** ((t + 1) * group["momentum_decay"]))
                s["mu_product"] = (torch.tensor(s["mu_product"]) * mu).item()  # float32, as in torch
                s["exp_avg"].lerp_(g, 1 - b1)
                s["exp_avg_sq"].mul_(b2).addcmul_(g, g, value=1 - b2)
                denom = s["exp_avg_sq"].div(1 - b2 ** t).sqrt_().add_(group["eps"])
                p.addcdiv_(g, denom, value=-group["lr"] * (1 - mu) / (1 - s["mu_product"]))
                p.addcdiv_(s["exp_avg"], denom, value=-group["lr"] * mu_next / (1 - s["mu_product"] * mu_next))
        return loss


# against: torch.optim.Adafactor
# arguments: lr=0.05, weight_decay=0.01
class AdafactorScratch(Optimizer):
    """Factored second moment for matrices, full for vectors."""

    def __init__(self, params, lr=1e-2, beta2_decay=-0.8, eps2=1e-3, d=1.0, weight_decay=0.0):
        if lr < 0 or eps2 < 0 or weight_decay < 0:
            raise ValueError("lr, eps2 and weight_decay must be >= 0")
        if beta2_decay > 0:
            raise ValueError("beta2_decay must be <= 0")
        if d < 1:
            raise ValueError("d must be >= 1")
        super().__init__(params, dict(lr=lr, beta2_decay=beta2_decay, eps2=eps2, d=d, weight_decay=weight_decay))

    @staticmethod
    def _rms(x):
        return x.norm(2).item() / math.sqrt(x.numel())

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None or p.numel() == 0:
                    continue
                g = _dense(p)
                eps1 = torch.finfo(p.dtype).eps
                s = self.state[p]
                if len(s) == 0:
                    s["step"] = 0
                    if p.dim() > 1:
                        s["row"] = g.new_zeros(p.shape[:-1] + (1,))
                        s["col"] = g.new_zeros(p.shape[:-2] + (1, p.shape[-1]))
                    else:
                        s["var"] = torch.zeros_like(g)
                s["step"] += 1
                w = s["step"] ** group["beta2_decay"]
                size = max(group["eps2"], self._rms(p)) * min(group["lr"], 1 / math.sqrt(s["step"]))
                if group["weight_decay"]:
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                if p.dim() > 1:
                    s["row"].lerp_(g.square().mean(dim=-1, keepdim=True), w)
                    s["col"].lerp_(g.square().mean(dim=-2, keepdim=True), w)
                    var = s["row"] @ s["col"] / s["row"].mean(dim=-2, keepdim=True).clamp_(min=eps1)
                else:
                    s["var"].lerp_(g.square(), w)
                    var = s["var"].clone()
                update = var.clamp_(min=eps1 * eps1).rsqrt_().mul_(g)
                p.add_(update, alpha=-size / max(1.0, self._rms(update) / group["d"]))
        return loss


# against: torch.optim.AdamW
# arguments: lr=0.01
# reference arguments: lr=0.01, betas=(0.9, 0.95), weight_decay=0.1
class LLMAdamW(torch.optim.AdamW):
    """AdamW with the defaults of language-model training."""

    def __init__(self, params, lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, **kwargs):
        super().__init__(params, lr=lr, betas=betas, weight_decay=weight_decay, **kwargs)


# against: none
# arguments: lr=0.003, weight_decay=0.1
class Lion(Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        if not 0.0 <= lr:
            raise ValueError(f"invalid lr {lr}")
        if not all(0.0 <= b < 1.0 for b in betas):
            raise ValueError(f"invalid betas {betas}")
        if not 0.0 <= weight_decay:
            raise ValueError(f"invalid weight_decay {weight_decay}")
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            lr, wd, (b1, b2) = group["lr"], group["weight_decay"], group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                g, state = _dense(p), self.state[p]
                if len(state) == 0:
                    state["exp_avg"] = torch.zeros_like(p)
                p.mul_(1 - lr * wd)
                p.add_(state["exp_avg"].lerp(g, 1 - b1).sign_(), alpha=-lr)
                state["exp_avg"].lerp_(g, 1 - b2)
        return loss


# against: none
# arguments: lr=0.002, momentum=0.9
class Signum(Optimizer):
    def __init__(self, params, lr=1e-3, momentum=0.9):
        if lr < 0:
            raise ValueError("lr")
        if not 0 <= momentum < 1:
            raise ValueError("momentum")
        super().__init__(params, dict(lr=lr, momentum=momentum))

    def step(self, closure=None):
        loss = None
        if closure is not None:
            loss = closure()
        with torch.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    buf = self.state[p].setdefault("buf", torch.zeros_like(p))
                    buf.mul_(group["momentum"]).add_(_dense(p), alpha=1 - group["momentum"])
                    p.sub_(buf.sign(), alpha=group["lr"])
        return loss


# against: none
# arguments: lr=0.05, momentum=0.9, k=5, alpha=0.5
class Lookahead(Optimizer):
    """Lookahead around torch.optim.SGD; groups and state are shared with the inner optimizer."""

    def __init__(self, params, lr=0.1, momentum=0.9, k=5, alpha=0.5):
        if not (isinstance(k, int) and k >= 1):
            raise ValueError(f"invalid k {k}")
        if not 0.0 <= alpha <= 1.0:
            raise ValueError(f"invalid alpha {alpha}")
        if not 0.0 <= momentum < 1.0:
            raise ValueError(f"invalid momentum {momentum}")
        self.base = torch.optim.SGD(params, lr=lr, momentum=momentum)
        super().__init__(self.base.param_groups, dict(self.base.defaults, k=k, alpha=alpha))
        self._link()

    def _link(self):
        self.base.param_groups = self.param_groups
        self.base.state = self.state

    def __getstate__(self):
        return dict(super().__getstate__(), base=self.base)

    def __setstate__(self, state):
        super().__setstate__(state)
        self._link()

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None and "slow" not in self.state[p]:
                    self.state[p]["slow"] = p.clone()
                    self.state[p]["fast_steps"] = 0
        self.base.step()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                state["fast_steps"] += 1
                if state["fast_steps"] % group["k"] == 0:
                    state["slow"].lerp_(p, group["alpha"])
                    p.copy_(state["slow"])
        return loss


# against: none
# arguments: lr=0.05, rho=0.05, momentum=0.9
# needs: step(closure), the closure zeroes the gradients and calls backward
class SAM(torch.optim.SGD):
    """Sharpness-aware minimization: climb, second gradient, back, SGD step."""

    def __init__(self, params, lr=0.1, rho=0.05, momentum=0.0, weight_decay=0.0):
        if not rho >= 0.0:
            raise ValueError(f"invalid rho {rho}")
        if not momentum < 1.0:
            raise ValueError(f"invalid momentum {momentum}")
        super().__init__(params, lr=lr, momentum=momentum, weight_decay=weight_decay)
        self.defaults["rho"] = rho
        for group in self.param_groups:
            group.setdefault("rho", rho)

    @torch.no_grad()
    def step(self, closure=None):
        if closure is None:
            raise RuntimeError("SAM needs a closure that zeroes the gradients and calls backward")
        with torch.enable_grad():
            loss = closure()
        active = [(group, p) for group in self.param_groups for p in group["params"] if p.grad is not None]
        if active:
            norm = torch.stack([_dense(p).norm().to(torch.float64) for _, p in active]).norm().item()
            saved = [p.clone() for _, p in active]
            for group, p in active:
                p.add_(p.grad, alpha=group["rho"] / (norm + 1e-12))
            try:
                with torch.enable_grad():
                    closure()
            finally:
                for (_, p), old in zip(active, saved):
                    p.copy_(old)
        super().step()
        return loss


# against: none
# arguments: lr=1.0, c=0.1, shrink=0.5
# needs: step(closure), the closure zeroes the gradients and calls backward
class ArmijoGD(Optimizer):
    """Gradient descent with backtracking line search; lr is the first trial length."""

    def __init__(self, params, lr=1.0, c=0.1, shrink=0.5, max_trials=20):
        if lr < 0:
            raise ValueError("lr must be >= 0")
        if not 0 < c < 1 or not 0 < shrink < 1:
            raise ValueError("c and shrink must lie in (0, 1)")
        super().__init__(params, dict(lr=lr, c=c, shrink=shrink, max_trials=max_trials))

    @torch.no_grad()
    def step(self, closure):
        closure = torch.enable_grad()(closure)
        loss = closure()
        work = [(g, p, p.clone(), _dense(p).clone()) for g in self.param_groups for p in g["params"]
                if p.grad is not None]
        if not work:
            return loss
        start = float(loss)
        first = self.param_groups[0]
        scale = 1.0
        for _ in range(first["max_trials"]):
            decrease = 0.0
            for group, p, x, g in work:
                p.copy_(x).add_(g, alpha=-scale * group["lr"])
                decrease += scale * group["lr"] * g.square().sum().item()
            if float(closure()) <= start - first["c"] * decrease:
                break
            scale *= first["shrink"]
        else:
            for _, p, x, _ in work:
                p.copy_(x)
        for _, p, _, g in work:  # leave the gradients of the starting point, as other optimizers do
            p.grad.copy_(g) if p.grad is not None else setattr(p, "grad", g)
        return loss


# against: torch.optim.SGD
# arguments: lr=0.05, weight_decay=0.01
# note: equal to SGD on float32/float64; bf16 weights are rounded stochastically, reproducible from `seed`
class StochasticRoundingSGD(Optimizer):
    """The noise is a function of (seed, parameter number, step): no global RNG, resumable."""

    def __init__(self, params, lr=0.1, weight_decay=0.0, seed=0):
        if lr < 0 or weight_decay < 0:
            raise ValueError("lr and weight_decay must be >= 0")
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay, seed=seed))

    @staticmethod
    def _round(x, generator):
        bits = x.view(torch.int32)
        noise = torch.randint(0, 1 << 16, x.shape, generator=generator, dtype=torch.int32, device=x.device)
        rounded = ((bits + noise) & -65536).view(torch.float32)
        return torch.where(torch.isfinite(x), rounded, x)

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        number = 0
        for group in self.param_groups:
            for p in group["params"]:
                number += 1
                if p.grad is None:
                    continue
                g = _dense(p)
                if p.dtype != torch.bfloat16:
                    if group["weight_decay"]:
                        g = g.add(p, alpha=group["weight_decay"])
                    p.add_(g, alpha=-group["lr"])
                    continue
                state = self.state[p]
                state["step"] = state.get("step", 0) + 1
                generator = torch.Generator(device=p.device)
                generator.manual_seed((group["seed"] * 1_000_003 + number) * 1_000_000_007 + state["step"])
                x = p.float()
                g = g.float().add(x, alpha=group["weight_decay"])
                p.copy_(self._round(x.add(g, alpha=-group["lr"]), generator))
        return loss


# against: torch.optim.AdamW
# arguments: lr=0.005, weight_decay=0.1
# note: equal to AdamW on float32/float64; for bf16/fp16 weights it follows AdamW on float32 weights
class MasterAdamW(Optimizer):
    """Keeps float32 weights and moments for half-precision parameters."""

    KEPT = ("master", "exp_avg", "exp_avg_sq")

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2):
        if lr < 0 or eps < 0 or weight_decay < 0:
            raise ValueError("lr, eps and weight_decay must be >= 0")
        if not all(0 <= b < 1 for b in betas):
            raise ValueError("betas must lie in [0, 1)")
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                half = p.dtype in (torch.bfloat16, torch.float16)
                work = torch.float32 if half else p.dtype
                g = _dense(p).to(work)
                s = self.state[p]
                if not s:
                    s["step"] = 0
                    s["exp_avg"] = torch.zeros_like(p, dtype=work)
                    s["exp_avg_sq"] = torch.zeros_like(p, dtype=work)
                    if half:
                        s["master"] = p.to(work)
                w = p
                if half:
                    w = s["master"]
                    if not torch.equal(w.to(p.dtype), p):  # somebody else wrote the weights
                        w.copy_(p)
                s["step"] += 1
                w.mul_(1 - group["lr"] * group["weight_decay"])
                s["exp_avg"].lerp_(g, 1 - b1)
                s["exp_avg_sq"].mul_(b2).addcmul_(g, g, value=1 - b2)
                denom = s["exp_avg_sq"].sqrt().div_(math.sqrt(1 - b2 ** s["step"])).add_(group["eps"])
                w.addcdiv_(s["exp_avg"], denom, value=-group["lr"] / (1 - b1 ** s["step"]))
                if half:
                    p.copy_(w)
        return loss

    @torch.no_grad()
    def load_state_dict(self, state_dict):
        super().load_state_dict(state_dict)  # casts state to the dtype of the weights
        numbers = [n for g in state_dict["param_groups"] for n in g["params"]]
        params = [p for g in self.param_groups for p in g["params"]]
        for n, p in zip(numbers, params):
            if p.dtype in (torch.bfloat16, torch.float16):
                for key in self.KEPT:
                    if key in state_dict["state"].get(n, {}):
                        kept = state_dict["state"][n][key].detach()
                        self.state[p][key] = kept.to(p.device, torch.float32, copy=True)


# against: torch.optim.SGD
# arguments: lr=0.05, momentum=0.9
# note: equal to SGD to rounding; on bf16 weights closer to float32 training than SGD is
class KahanSGD(Optimizer):
    """Compensated summation of the weight update."""

    def __init__(self, params, lr=1e-2, momentum=0.0):
        if lr < 0:
            raise ValueError("lr must be >= 0")
        if not 0 <= momentum < 1:
            raise ValueError("momentum must lie in [0, 1)")
        super().__init__(params, dict(lr=lr, momentum=momentum))

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
                s = self.state[p]
                if not s:
                    s["buf"] = torch.zeros_like(p)
                    s["lost"] = torch.zeros_like(p)
                s["buf"].mul_(group["momentum"]).add_(_dense(p))
                want = s["lost"].sub_(s["buf"], alpha=group["lr"])  # what should be added, with the last rest
                before = p.clone()
                p.add_(want)
                want.sub_(p - before)  # what did not fit
        return loss


# against: none
# arguments: lr=0.05, momentum=0.9
class GradientCentralizedSGD(torch.optim.SGD):
    """Removes the mean of each output row's gradient, without touching p.grad."""

    def __init__(self, params, lr=0.1, momentum=0.0):
        if not momentum < 1.0:
            raise ValueError("momentum must be below 1")
        super().__init__(params, lr=lr, momentum=momentum)

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        kept = []
        try:
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None and _dense(p).dim() > 1:
                        kept.append((p, p.grad))
                        p.grad = p.grad - p.grad.mean(dim=tuple(range(1, p.grad.dim())), keepdim=True)
            super().step()
        finally:
            for p, grad in kept:
                p.grad = grad
        return loss


# against: none
# arguments: lr=0.5, momentum=0.9, trust=0.02, weight_decay=0.001
class LARS(Optimizer):
    def __init__(self, params, lr=0.1, momentum=0.9, trust=1e-3, weight_decay=0.0):
        if not (lr >= 0 and trust > 0 and weight_decay >= 0 and 0 <= momentum < 1):
            raise ValueError("invalid hyperparameter")
        super().__init__(params, dict(lr=lr, momentum=momentum, trust=trust, weight_decay=weight_decay))

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
                g = _dense(p).add(p, alpha=group["weight_decay"])
                w_norm, g_norm = p.norm().item(), g.norm().item()
                local = group["trust"] * w_norm / g_norm if p.dim() > 1 and w_norm > 0 and g_norm > 0 else group["trust"]
                state = self.state[p]
                if "v" not in state:
                    state["v"] = torch.zeros_like(p)
                state["v"].mul_(group["momentum"]).add_(g, alpha=local)
                p.sub_(state["v"], alpha=group["lr"])
        return loss


# against: none
# arguments: lr=0.1, max_norm=0.5
class ClippedSGD(Optimizer):
    """Clips by the norm over all groups; p.grad is only read."""

    def __init__(self, params, lr=0.1, max_norm=1.0):
        if lr < 0:
            raise ValueError("lr must be >= 0")
        if max_norm <= 0:
            raise ValueError("max_norm must be > 0")
        super().__init__(params, dict(lr=lr, max_norm=max_norm))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        grads = [_dense(p) for g in self.param_groups for p in g["params"] if p.grad is not None]
        if not grads:
            return loss
        norm = math.sqrt(sum(g.double().square().sum().item() for g in grads))
        for group in self.param_groups:
            scale = min(1.0, group["max_norm"] / (norm + 1e-12))
            for p in group["params"]:
                if p.grad is not None:
                    p.add_(p.grad, alpha=-group["lr"] * scale)
        return loss


# against: none
# arguments: lr=0.01, warmup=10
class WarmupAdam(torch.optim.Adam):
    """Linear warm-up inside the optimizer; group['lr'] keeps the scheduler's value."""

    def __init__(self, params, lr=1e-3, warmup=100, **kwargs):
        if warmup < 0:
            raise ValueError("warmup must be >= 0")
        super().__init__(params, lr=lr, **kwargs)
        self.defaults.update(warmup=warmup, warm_steps=0)
        for group in self.param_groups:
            group.setdefault("warmup", warmup)
            group.setdefault("warm_steps", 0)

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        full = [group["lr"] for group in self.param_groups]
        try:
            for group in self.param_groups:
                group["warm_steps"] += 1
                if group["warm_steps"] < group["warmup"]:
                    group["lr"] = group["lr"] * group["warm_steps"] / group["warmup"]
            super().step()
        finally:
            for group, lr in zip(self.param_groups, full):
                group["lr"] = lr
        return loss


CASES = [
    (PlainSGD, dict(lr=0.1, weight_decay=0.01), "torch.optim.SGD", dict(lr=0.1, weight_decay=0.01), ""),
    (MomentumSGD, dict(lr=0.05, momentum=0.9, dampening=0.3, weight_decay=0.001, maximize=False), "torch.optim.SGD",
     dict(lr=0.05, momentum=0.9, dampening=0.3, weight_decay=0.001, maximize=False), ""),
    (NesterovSGD, dict(lr=0.05, momentum=0.9), "torch.optim.SGD", dict(lr=0.05, momentum=0.9, nesterov=True), ""),
    (ForeachSGD, dict(lr=0.05, momentum=0.8, weight_decay=0.01), "torch.optim.SGD",
     dict(lr=0.05, momentum=0.8, weight_decay=0.01), ""),
    (AdamScratch, dict(lr=0.01, betas=(0.9, 0.99), weight_decay=0.01), "torch.optim.Adam",
     dict(lr=0.01, betas=(0.9, 0.99), weight_decay=0.01), ""),
    (AdamWScratch, dict(lr=0.01, weight_decay=0.1), "torch.optim.AdamW", dict(lr=0.01, weight_decay=0.1), ""),
    (ForeachAdamW, dict(lr=0.005, betas=(0.9, 0.95), weight_decay=0.05), "torch.optim.AdamW",
     dict(lr=0.005, betas=(0.9, 0.95), weight_decay=0.05), ""),
    (AMSGrad, dict(lr=0.01, betas=(0.9, 0.9)), "torch.optim.Adam", dict(lr=0.01, betas=(0.9, 0.9), amsgrad=True), ""),
    (RMSpropScratch, dict(lr=0.005, alpha=0.95, momentum=0.5, centered=True), "torch.optim.RMSprop",
     dict(lr=0.005, alpha=0.95, momentum=0.5, centered=True), ""),
    (AdagradScratch, dict(lr=0.05, lr_decay=0.01, initial_accumulator_value=0.1), "torch.optim.Adagrad",
     dict(lr=0.05, lr_decay=0.01, initial_accumulator_value=0.1), ""),
    (AdadeltaScratch, dict(lr=1.0, rho=0.9, eps=1e-6), "torch.optim.Adadelta", dict(lr=1.0, rho=0.9, eps=1e-6), ""),
    (AdamaxScratch, dict(lr=0.01), "torch.optim.Adamax", dict(lr=0.01), ""),
    (NAdamScratch, dict(lr=0.005), "torch.optim.NAdam", dict(lr=0.005), ""),
    (AdafactorScratch, dict(lr=0.05, weight_decay=0.01), "torch.optim.Adafactor", dict(lr=0.05, weight_decay=0.01), ""),
    (LLMAdamW, dict(lr=0.01), "torch.optim.AdamW", dict(lr=0.01, betas=(0.9, 0.95), weight_decay=0.1), ""),
    (Lion, dict(lr=0.003, weight_decay=0.1), "", {}, ""),
    (Signum, dict(lr=0.002, momentum=0.9), "", {}, ""),
    (Lookahead, dict(lr=0.05, momentum=0.9, k=5, alpha=0.5), "", {}, ""),
    (SAM, dict(lr=0.05, rho=0.05, momentum=0.9), "", {}, ""),
    (ArmijoGD, dict(lr=1.0, c=0.1, shrink=0.5), "", {}, ""),
    (StochasticRoundingSGD, dict(lr=0.05, weight_decay=0.01), "torch.optim.SGD", dict(lr=0.05, weight_decay=0.01), ""),
    (MasterAdamW, dict(lr=0.005, weight_decay=0.1), "torch.optim.AdamW", dict(lr=0.005, weight_decay=0.1), ""),
    (KahanSGD, dict(lr=0.05, momentum=0.9), "torch.optim.SGD", dict(lr=0.05, momentum=0.9), ""),
    (GradientCentralizedSGD, dict(lr=0.05, momentum=0.9), "", {}, ""),
    (LARS, dict(lr=0.5, momentum=0.9, trust=0.02, weight_decay=0.001), "", {}, ""),
    (ClippedSGD, dict(lr=0.1, max_norm=0.5), "", {}, ""),
    (WarmupAdam, dict(lr=0.01, warmup=10), "", {}, ""),
]
