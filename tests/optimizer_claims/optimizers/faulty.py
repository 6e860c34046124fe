"""Custom optimizers with exactly one silent bug each (test material for an optimizer probe).

None of them crashes in an ordinary training loop. `shows when` says what a test has to do.
"""

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


def _check(lr=0.0, betas=(0.0, 0.0), momentum=0.0, **nonnegative):
    if not lr >= 0.0:
        raise ValueError(f"invalid lr {lr}")
    if not all(0.0 <= b < 1.0 for b in betas):
        raise ValueError(f"invalid betas {betas}")
    if not 0.0 <= momentum < 1.0:
        raise ValueError(f"invalid momentum {momentum}")
    for name, value in nonnegative.items():
        if not value >= 0.0:
            raise ValueError(f"invalid {name} {value}")


# against: torch.optim.SGD
# arguments: lr=0.05, momentum=0.9
# bug: the momentum buffer of the first step is p.grad itself, not a clone
# visible without a reference: yes
# shows when: gradients are kept in place (zero_grad(set_to_none=False)) or read after step()
class AliasedMomentumSGD(Optimizer):
    def __init__(self, params, lr=0.01, momentum=0.9):
        _check(lr=lr, momentum=momentum)
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
                state = self.state[p]
                if "momentum_buffer" not in state:
                    buf = state["momentum_buffer"] = _dense(p)
                else:
                    buf = state["momentum_buffer"]
                    buf.mul_(group["momentum"]).add_(_dense(p))
                p.add_(buf, alpha=-group["lr"])
        return loss


# against: torch.optim.Adam
# arguments: lr=0.01
# bug: the second moment is not bias-corrected
# visible without a reference: no
# shows when: compared with Adam in the first steps
class AdamHalfCorrected(Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        _check(lr=lr, betas=betas, eps=eps)
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
                if len(s) == 0:
                    s["step"] = 0
                    s["exp_avg"] = torch.zeros_like(p)
                    s["exp_avg_sq"] = torch.zeros_like(p)
                s["step"] += 1
                s["exp_avg"].mul_(b1).add_(g, alpha=1 - b1)
                s["exp_avg_sq"].mul_(b2).addcmul_(g, g, value=1 - b2)
                m_hat = s["exp_avg"] / (1 - b1 ** s["step"])
                p.addcdiv_(m_hat, s["exp_avg_sq"].sqrt().add_(group["eps"]), value=-group["lr"])
        return loss


# against: torch.optim.Adam
# arguments: lr=0.01
# bug: the step counter of the group is increased once per parameter, so the bias correction fades too early
# visible without a reference: no
# shows when: the group holds more than one parameter
class AdamGroupStep(Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        _check(lr=lr, betas=betas, eps=eps)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, step=0))

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
                group["step"] += 1
                if not s:
                    s["m"], s["v"] = torch.zeros_like(p), torch.zeros_like(p)
                s["m"].lerp_(g, 1 - b1)
                s["v"].lerp_(g.square(), 1 - b2)
                m_hat = s["m"] / (1 - b1 ** group["step"])
                v_hat = s["v"] / (1 - b2 ** group["step"])
                p.sub_(group["lr"] * m_hat / (v_hat.sqrt() + group["eps"]))
        return loss


# against: torch.optim.AdamW
# arguments: lr=0.01, weight_decay=0.1
# bug: the weight decay is added to the gradient (L2) although this is AdamW
# visible without a reference: no
# shows when: weight_decay > 0
class AdamWCoupled(Optimizer):
    """AdamW (Loshchilov & Hutter)."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2):
        _check(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
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
                g, s = _dense(p), self.state[p]
                if not s:
                    s.update(step=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                s["step"] += 1
                g = g.add(p, alpha=group["weight_decay"])
                s["m"].mul_(b1).add_(g, alpha=1 - b1)
                s["v"].mul_(b2).addcmul_(g, g, value=1 - b2)
                denom = (s["v"].sqrt() / math.sqrt(1 - b2 ** s["step"])).add_(group["eps"])
                p.addcdiv_(s["m"], denom, value=-group["lr"] / (1 - b1 ** s["step"]))
        return loss


# against: torch.optim.Adam
# arguments: lr=0.01, weight_decay=0.1
# bug: the weight decay is decoupled although this is Adam with L2
# visible without a reference: no
# shows when: weight_decay > 0
class AdamDecoupled(Optimizer):
    """Adam with L2 regularisation, foreach version."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
        _check(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

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
            for p in ps:
                if not self.state[p]:
                    self.state[p] = {"step": 0, "m": torch.zeros_like(p), "v": torch.zeros_like(p)}
                self.state[p]["step"] += 1
            ms, vs = [self.state[p]["m"] for p in ps], [self.state[p]["v"] for p in ps]
            b1, b2 = group["betas"]
            torch._foreach_mul_(ps, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_lerp_(ms, gs, 1 - b1)
            torch._foreach_mul_(vs, b2)
            torch._foreach_addcmul_(vs, gs, gs, 1 - b2)
            denom = torch._foreach_sqrt(vs)
            torch._foreach_div_(denom, [math.sqrt(1 - b2 ** self.state[p]["step"]) for p in ps])
            torch._foreach_add_(denom, group["eps"])
            torch._foreach_addcdiv_(ps, ms, denom, [-group["lr"] / (1 - b1 ** self.state[p]["step"]) for p in ps])
        return loss


# against: torch.optim.Adam
# arguments: lr=0.01
# bug: eps stands inside the square root, sqrt(v_hat + eps)
# visible without a reference: no
# shows when: compared with Adam, most with small gradients
class AdamEpsInside(Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        _check(lr=lr, betas=betas, eps=eps)
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
                    s["t"], s["m"], s["v"] = 0, torch.zeros_like(p), torch.zeros_like(p)
                s["t"] += 1
                s["m"].copy_(b1 * s["m"] + (1 - b1) * g)
                s["v"].copy_(b2 * s["v"] + (1 - b2) * g * g)
                m_hat = s["m"] / (1 - b1 ** s["t"])
                v_hat = s["v"] / (1 - b2 ** s["t"])
                p.sub_(group["lr"] * m_hat / torch.sqrt(v_hat + group["eps"]))
        return loss


# against: torch.optim.Adagrad
# arguments: lr=0.05
# bug: eps is accepted but never used, so a gradient that is exactly zero from the start gives 0/0 = NaN
# visible without a reference: yes
# shows when: some entry has only seen zero gradients (dead ReLU, unused embedding row)
class AdagradNoEps(Optimizer):
    def __init__(self, params, lr=1e-2, eps=1e-10):
        _check(lr=lr, eps=eps)
        super().__init__(params, dict(lr=lr, eps=eps))

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
                g, s = _dense(p), self.state[p]
                if "sum" not in s:
                    s["sum"] = torch.zeros_like(p)
                s["sum"].addcmul_(g, g)
                p.addcdiv_(g, s["sum"].sqrt(), value=-group["lr"])
        return loss


# against: torch.optim.SGD
# arguments: lr=0.05, momentum=0.9
# bug: the momentum lives in self.velocity, not in self.state, so state_dict() does not hold it
# visible without a reference: yes
# shows when: training is resumed from state_dict()
class SelfVelocitySGD(Optimizer):
    def __init__(self, params, lr=0.01, momentum=0.9):
        _check(lr=lr, momentum=momentum)
        super().__init__(params, dict(lr=lr, momentum=momentum))
        self.velocity = {}

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
                if p not in self.velocity:
                    self.velocity[p] = torch.zeros_like(p)
                v = self.velocity[p]
                v.mul_(group["momentum"]).add_(_dense(p))
                p.add_(v, alpha=-group["lr"])
        return loss


# against: torch.optim.SGD
# arguments: lr=0.05, momentum=0.9
# bug: self.state is keyed by the running number of the parameter; load_state_dict turns the numbers into parameters, so the momentum is lost
# visible without a reference: yes
# shows when: training is resumed from state_dict()
class NumberedStateSGD(Optimizer):
    def __init__(self, params, lr=0.01, momentum=0.9):
        _check(lr=lr, momentum=momentum)
        super().__init__(params, dict(lr=lr, momentum=momentum))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        i = -1
        for group in self.param_groups:
            for p in group["params"]:
                i += 1
                if p.grad is None:
                    continue
                g, state = _dense(p), self.state[i]
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = g.clone()
                else:
                    state["momentum_buffer"].mul_(group["momentum"]).add_(g)
                p.add_(state["momentum_buffer"], alpha=-group["lr"])
        return loss


# against: torch.optim.RMSprop
# arguments: lr=0.005, alpha=0.95
# bug: the list of states counts all parameters, the list of gradients only those with one, so after a None gradient parameters use a neighbour's average
# visible without a reference: yes
# shows when: a parameter before others of the same shape has no gradient in some step
class MisalignedRMSprop(Optimizer):
    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8):
        _check(lr=lr, alpha=alpha, eps=eps)
        if alpha >= 1:
            raise ValueError("alpha must be below 1")
        super().__init__(params, dict(lr=lr, alpha=alpha, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if "square_avg" not in self.state[p]:
                    self.state[p]["square_avg"] = torch.zeros_like(p)
            params = [p for p in group["params"] if p.grad is not None]
            grads = [_dense(p) for p in params]
            averages = [self.state[p]["square_avg"] for p in group["params"]]
            for p, g, sq in zip(params, grads, averages):
                if sq.shape != p.shape:
                    sq = self.state[p]["square_avg"]
                sq.mul_(group["alpha"]).addcmul_(g, g, value=1 - group["alpha"])
                p.addcdiv_(g, sq.sqrt().add_(group["eps"]), value=-group["lr"])
        return loss


# against: torch.optim.Adam
# arguments: lr=0.01
# bug: the step counter is the attribute self.t, so after a resume the bias correction starts again at 1
# visible without a reference: yes
# shows when: training is resumed from state_dict()
class AttributeStepAdam(Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        _check(lr=lr, betas=betas, eps=eps)
        self.t = 0
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.t += 1
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                g, s = _dense(p), self.state[p]
                if not s:
                    s["m"], s["v"] = torch.zeros_like(p), torch.zeros_like(p)
                s["m"].mul_(b1).add_(g, alpha=1 - b1)
                s["v"].mul_(b2).addcmul_(g, g, value=1 - b2)
                denom = (s["v"] / (1 - b2 ** self.t)).sqrt_().add_(group["eps"])
                p.addcdiv_(s["m"], denom, value=-group["lr"] / (1 - b1 ** self.t))
        return loss


# against: torch.optim.SGD
# arguments: lr=0.05
# bug: only the first parameter group is updated
# visible without a reference: yes
# shows when: there are two parameter groups
class FirstGroupSGD(Optimizer):
    def __init__(self, params, lr=0.01):
        _check(lr=lr)
        super().__init__(params, dict(lr=lr))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        group = self.param_groups[0]
        for p in group["params"]:
            if p.grad is not None:
                p.add_(_dense(p), alpha=-group["lr"])
        return loss


# against: torch.optim.SGD
# arguments: lr=0.05, momentum=0.9
# bug: the learning rate is read once in __init__ (self.lr), so schedulers have no effect
# visible without a reference: yes
# shows when: group['lr'] changes, by a scheduler or by per-group options
class FrozenLrSGD(Optimizer):
    def __init__(self, params, lr=0.01, momentum=0.0):
        _check(lr=lr, momentum=momentum)
        super().__init__(params, dict(lr=lr, momentum=momentum))
        self.lr = lr

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
                buf = self.state[p].get("buf")
                if buf is None:
                    buf = self.state[p]["buf"] = _dense(p).clone()
                else:
                    buf.mul_(group["momentum"]).add_(_dense(p))
                p.add_(buf, alpha=-self.lr)
        return loss


# against: none
# arguments: lr=0.003, weight_decay=0.1
# bug: the learning rate of group 0 is used for all groups
# visible without a reference: yes
# shows when: two groups have different learning rates
class LionGroupZeroLr(Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        _check(lr=lr, betas=betas, weight_decay=weight_decay)
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        lr = self.param_groups[0]["lr"]
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                g, s = _dense(p), self.state[p]
                if not s:
                    s["exp_avg"] = torch.zeros_like(p)
                p.mul_(1 - lr * group["weight_decay"])
                p.add_(s["exp_avg"].lerp(g, 1 - b1).sign_(), alpha=-lr)
                s["exp_avg"].lerp_(g, 1 - b2)
        return loss


# against: torch.optim.AdamW
# arguments: lr=0.01, weight_decay=0.1
# bug: weight_decay is read from self.defaults, so a group with its own weight_decay=0 is still decayed
# visible without a reference: yes
# shows when: groups have different weight_decay (no decay for biases)
class DefaultsDecayAdamW(Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2):
        _check(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
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
                g, s = _dense(p), self.state[p]
                if not s:
                    s["step"], s["m"], s["v"] = 0, torch.zeros_like(p), torch.zeros_like(p)
                s["step"] += 1
                p.mul_(1 - group["lr"] * self.defaults["weight_decay"])
                s["m"].lerp_(g, 1 - b1)
                s["v"].mul_(b2).addcmul_(g, g, value=1 - b2)
                denom = (s["v"].sqrt() / math.sqrt(1 - b2 ** s["step"])).add_(group["eps"])
                p.addcdiv_(s["m"], denom, value=-group["lr"] / (1 - b1 ** s["step"]))
        return loss


# against: torch.optim.SGD
# arguments: lr=0.05
# bug: `break` instead of `continue` at the first parameter without gradient, so all later ones are not trained
# visible without a reference: yes
# shows when: a parameter that is not the last of its group has no gradient
class BreakSGD(Optimizer):
    def __init__(self, params, lr=0.01):
        _check(lr=lr)
        super().__init__(params, dict(lr=lr))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    break
                p.sub_(group["lr"] * _dense(p))
        return loss


# against: torch.optim.SGD
# arguments: lr=0.05, momentum=0.9
# bug: parameters whose gradient is all zero are skipped, although the momentum should still move them
# visible without a reference: no
# shows when: a gradient is exactly zero after some non-zero ones
class ZeroSkippingSGD(Optimizer):
    def __init__(self, params, lr=0.01, momentum=0.9):
        _check(lr=lr, momentum=momentum)
        super().__init__(params, dict(lr=lr, momentum=momentum))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None or not _dense(p).any():
                    continue
                state = self.state[p]
                if "v" not in state:
                    state["v"] = torch.zeros_like(p)
                state["v"].mul_(group["momentum"]).add_(p.grad)
                p.add_(state["v"], alpha=-group["lr"])
        return loss


# against: torch.optim.SGD
# arguments: lr=0.05, momentum=0.9
# bug: a missing gradient (None) is treated as a zero gradient, so momentum keeps moving parameters that take no part
# visible without a reference: yes
# shows when: a parameter's gradient is None after some steps (frozen later, unused branch)
class NoneAsZeroSGD(Optimizer):
    def __init__(self, params, lr=0.01, momentum=0.9):
        _check(lr=lr, momentum=momentum)
        super().__init__(params, dict(lr=lr, momentum=momentum))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            params = group["params"]
            grads = [_dense(p) if p.grad is not None else torch.zeros_like(p) for p in params]
            bufs = [self.state[p].setdefault("buf", torch.zeros_like(p)) for p in params]
            torch._foreach_mul_(bufs, group["momentum"])
            torch._foreach_add_(bufs, grads)
            torch._foreach_add_(params, bufs, alpha=-group["lr"])
        return loss


# against: torch.optim.SGD
# arguments: lr=0.05, weight_decay=0.1
# bug: the weight decay is added to p.grad in place, so the gradient is changed for everybody else
# visible without a reference: yes
# shows when: p.grad is read after step() or gradients accumulate over several steps
class GradWritingSGD(Optimizer):
    def __init__(self, params, lr=0.01, weight_decay=0.0):
        _check(lr=lr, weight_decay=weight_decay)
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
                d_p = _dense(p)
                if group["weight_decay"] != 0:
                    d_p.add_(p, alpha=group["weight_decay"])
                p.add_(d_p, alpha=-group["lr"])
        return loss


# against: torch.optim.SGD
# arguments: lr=0.05
# bug: p.data is replaced by a new tensor instead of being written in place, so views of the weights (flat buffers, shared memory, detached copies) go stale
# visible without a reference: yes
# shows when: p.data_ptr() or a view of p is looked at after step()
class ReplacingSGD(Optimizer):
    def __init__(self, params, lr=0.01):
        _check(lr=lr)
        super().__init__(params, dict(lr=lr))

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
                p.data = p.data - group["lr"] * _dense(p)
        return loss


# against: torch.optim.SGD
# arguments: lr=0.05
# bug: the closure is accepted but never called
# visible without a reference: yes
# shows when: step(closure)
class ClosureIgnoringSGD(Optimizer):
    def __init__(self, params, lr=0.01):
        _check(lr=lr)
        super().__init__(params, dict(lr=lr))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.add_(_dense(p), alpha=-group["lr"])


# against: torch.optim.Adam
# arguments: lr=0.01
# bug: the closure runs under no_grad (no enable_grad), so its backward cannot work
# visible without a reference: yes
# shows when: step(closure) with a closure that calls backward
class NoGradClosureAdam(Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        _check(lr=lr, betas=betas, eps=eps)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            loss = closure()
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                g, s = _dense(p), self.state[p]
                if not s:
                    s["step"], s["m"], s["v"] = 0, torch.zeros_like(p), torch.zeros_like(p)
                s["step"] += 1
                s["m"].lerp_(g, 1 - b1)
                s["v"].mul_(b2).addcmul_(g, g, value=1 - b2)
                denom = (s["v"].sqrt() / math.sqrt(1 - b2 ** s["step"])).add_(group["eps"])
                p.addcdiv_(s["m"], denom, value=-group["lr"] / (1 - b1 ** s["step"]))
        return loss


# against: torch.optim.SGD
# arguments: lr=0.05, momentum=0.9
# bug: the closure is called a second time after the update to get the loss to return
# visible without a reference: yes
# shows when: step(closure): calls counted, returned loss, p.grad afterwards
class TwiceClosureSGD(torch.optim.SGD):
    """SGD that reports the loss."""

    def __init__(self, params, lr=0.01, momentum=0.0):
        _check(lr=lr, momentum=momentum)
        super().__init__(params, lr=lr, momentum=momentum)

    def step(self, closure=None):
        super().step(closure)
        return closure() if closure is not None else None


# against: torch.optim.RMSprop
# arguments: lr=0.005
# bug: step(closure) returns None instead of the loss
# visible without a reference: yes
# shows when: step(closure)
class SilentRMSprop(Optimizer):
    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8):
        _check(lr=lr, eps=eps, betas=(alpha,))
        super().__init__(params, dict(lr=lr, alpha=alpha, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        if closure is not None:
            with torch.enable_grad():
                closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                g, s = _dense(p), self.state[p]
                if "sq" not in s:
                    s["sq"] = torch.zeros_like(p)
                s["sq"].mul_(group["alpha"]).addcmul_(g, g, value=1 - group["alpha"])
                p.addcdiv_(g, s["sq"].sqrt().add_(group["eps"]), value=-group["lr"])


# against: torch.optim.AdamW
# arguments: lr=0.01, weight_decay=0.1
# bug: the weight decay comes before the check for a missing gradient, so frozen or unused parameters shrink
# visible without a reference: yes
# shows when: a parameter has no gradient (requires_grad=False or unused)
class FrozenDecayAdamW(Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2):
        _check(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
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
                p.mul_(1 - group["lr"] * group["weight_decay"])
                if p.grad is None:
                    continue
                g, s = _dense(p), self.state[p]
                if not s:
                    s["step"], s["m"], s["v"] = 0, torch.zeros_like(p), torch.zeros_like(p)
                s["step"] += 1
                s["m"].lerp_(g, 1 - b1)
                s["v"].mul_(b2).addcmul_(g, g, value=1 - b2)
                denom = (s["v"].sqrt() / math.sqrt(1 - b2 ** s["step"])).add_(group["eps"])
                p.addcdiv_(s["m"], denom, value=-group["lr"] / (1 - b1 ** s["step"]))
        return loss


# against: torch.optim.AdamW
# arguments: lr=0.01, weight_decay=0.01
# bug: the moments are always kept in bfloat16, where v * 0.999 + 0.001 * g^2 is mostly rounded away
# visible without a reference: no
# shows when: compared with AdamW over some tens of steps
class LeanAdamW(Optimizer):
    """AdamW with half the optimizer memory."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2):
        _check(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
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
                s = self.state[p]
                if len(s) == 0:
                    s["step"] = 0
                    s["m"] = torch.zeros_like(p, dtype=torch.bfloat16)
                    s["v"] = torch.zeros_like(p, dtype=torch.bfloat16)
                g = _dense(p)
                s["step"] += 1
                s["m"] = s["m"].to(g.dtype).lerp(g, 1 - b1).to(torch.bfloat16)
                s["v"] = s["v"].to(g.dtype).mul(b2).addcmul(g, g, value=1 - b2).to(torch.bfloat16)
                p.mul_(1 - group["lr"] * group["weight_decay"])
                denom = (s["v"].to(p.dtype) / (1 - b2 ** s["step"])).sqrt_().add_(group["eps"])
                p.addcdiv_(s["m"].to(p.dtype), denom, value=-group["lr"] / (1 - b1 ** s["step"]))
        return loss


# against: torch.optim.SGD
# arguments: lr=0.05, momentum=0.9
# bug: the momentum buffer is torch.zeros(p.shape), float32 also for float64 weights
# visible without a reference: yes
# shows when: float64 weights (precision of the state), compared with SGD in float64
class Float32StateSGD(Optimizer):
    def __init__(self, params, lr=0.01, momentum=0.9):
        _check(lr=lr, momentum=momentum)
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
                state = self.state[p]
                if len(state) == 0:
                    state["velocity"] = torch.zeros(p.shape, device=p.device)
                v = state["velocity"]
                v.mul_(group["momentum"]).add_(_dense(p))
                p.add_(v, alpha=-group["lr"])
        return loss


# against: torch.optim.SGD
# arguments: lr=0.05, momentum=0.9
# bug: the float32 master weights and momentum come back as bf16 from load_state_dict (torch casts state to the parameter's dtype)
# visible without a reference: yes
# shows when: bf16 weights and training resumed from state_dict()
class MasterSGD(Optimizer):
    def __init__(self, params, lr=0.01, momentum=0.9):
        _check(lr=lr, momentum=momentum)
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
                work = torch.promote_types(p.dtype, torch.float32)
                g, s = _dense(p).to(work), self.state[p]
                if not s:
                    s["master"] = p.to(work, copy=True)
                    s["buf"] = torch.zeros_like(p, dtype=work)
                if not torch.equal(s["master"].to(p.dtype), p):  # the weights were loaded or edited
                    s["master"].copy_(p)
                s["buf"].mul_(group["momentum"]).add_(g)
                s["master"].add_(s["buf"], alpha=-group["lr"])
                p.copy_(s["master"])
        return loss


# against: torch.optim.Adagrad
# arguments: lr=0.05, initial_accumulator_value=0.1
# bug: state is allocated in __init__ only; parameters of a group added later have none and are skipped
# visible without a reference: yes
# shows when: add_param_group() after construction
class LateGroupAdagrad(Optimizer):
    def __init__(self, params, lr=1e-2, initial_accumulator_value=0.0, eps=1e-10):
        _check(lr=lr, eps=eps, initial_accumulator_value=initial_accumulator_value)
        super().__init__(params, dict(lr=lr, eps=eps, initial_accumulator_value=initial_accumulator_value))
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["sum"] = torch.full_like(p, group["initial_accumulator_value"], requires_grad=False)

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None or p not in self.state:
                    continue
                g = _dense(p)
                acc = self.state[p]["sum"].addcmul_(g, g)
                p.addcdiv_(g, acc.sqrt().add_(group["eps"]), value=-group["lr"])
        return loss


# against: none
# arguments: lr=0.003, betas=(0.9, 0.99)
# bug: no hyperparameter is checked: lr=-1 or betas=(1.5, 2) are accepted
# visible without a reference: yes
# shows when: constructed with nonsense values
class TrustingLion(Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        defaults = dict(lr=lr, betas=betas, weight_decay=weight_decay)
        super().__init__(params, defaults)

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
                if len(s) == 0:
                    s["exp_avg"] = torch.zeros_like(p)
                p.mul_(1 - group["lr"] * group["weight_decay"])
                update = s["exp_avg"] * b1 + g * (1 - b1)
                p.add_(torch.sign(update), alpha=-group["lr"])
                s["exp_avg"].mul_(b2).add_(g, alpha=1 - b2)
        return loss


# against: torch.optim.SGD
# arguments: lr=0.05
# bug: sparse gradients are applied by index without coalescing, so of repeated rows only one counts
# visible without a reference: no
# shows when: nn.Embedding(sparse=True) with a repeated token in the batch
class SparseRowsSGD(Optimizer):
    def __init__(self, params, lr=0.01):
        _check(lr=lr)
        super().__init__(params, dict(lr=lr))

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
                if p.grad.is_sparse:
                    rows, values = p.grad._indices()[0], p.grad._values()
                    p[rows] -= group["lr"] * values
                else:
                    p.add_(p.grad, alpha=-group["lr"])
        return loss


# against: torch.optim.SGD
# arguments: lr=0.05, momentum=0.9, weight_decay=0.01
# bug: the momentum is computed outside no_grad from grad + wd * p, so the buffer drags the graph of all earlier steps along
# visible without a reference: yes
# shows when: the buffer's requires_grad / memory is looked at over the steps, or the state is deep-copied
class GraphGrowingSGD(Optimizer):
    def __init__(self, params, lr=0.01, momentum=0.9, weight_decay=0.0):
        _check(lr=lr, momentum=momentum, weight_decay=weight_decay)
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    def step(self, closure=None):
        loss = closure() if closure is not None else None
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                d = _dense(p) + group["weight_decay"] * p
                state = self.state[p]
                state["velocity"] = group["momentum"] * state["velocity"] + d if "velocity" in state else d
                with torch.no_grad():
                    p.sub_(state["velocity"], alpha=group["lr"])
        return loss


# against: torch.optim.SGD
# arguments: lr=0.05, momentum=0.9
# reference arguments: lr=0.05, momentum=0.9, nesterov=True
# bug: the Nesterov look-ahead uses the momentum buffer of before the update
# visible without a reference: no
# shows when: compared with SGD(nesterov=True)
class WrongNesterovSGD(Optimizer):
    def __init__(self, params, lr=0.01, momentum=0.9):
        _check(lr=lr, momentum=momentum)
        super().__init__(params, dict(lr=lr, momentum=momentum))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            mu = group["momentum"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                g, s = _dense(p), self.state[p]
                if "v" not in s:
                    s["v"] = torch.zeros_like(p)
                update = g + mu * s["v"]
                s["v"].mul_(mu).add_(g)
                p.add_(update, alpha=-group["lr"])
        return loss


# against: torch.optim.Adam
# arguments: lr=0.01, betas=(0.9, 0.9)
# reference arguments: lr=0.01, betas=(0.9, 0.9), amsgrad=True
# bug: the running maximum is computed but not stored, so it is only the maximum of v and zero
# visible without a reference: no
# shows when: gradients shrink during training, compared with amsgrad=True
class ForgetfulAMSGrad(Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        _check(lr=lr, betas=betas, eps=eps)
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
                    s["step"] = 0
                    for key in ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"):
                        s[key] = torch.zeros_like(p)
                s["step"] += 1
                s["exp_avg"].mul_(b1).add_(g, alpha=1 - b1)
                s["exp_avg_sq"].mul_(b2).addcmul_(g, g, value=1 - b2)
                v_max = torch.maximum(s["max_exp_avg_sq"], s["exp_avg_sq"])
                denom = (v_max.sqrt() / math.sqrt(1 - b2 ** s["step"])).add_(group["eps"])
                p.addcdiv_(s["exp_avg"], denom, value=-group["lr"] / (1 - b1 ** s["step"]))
        return loss


# against: torch.optim.SGD
# arguments: lr=0.05, momentum=0.9, dampening=0.5
# bug: dampening also applies to the very first gradient
# visible without a reference: no
# shows when: dampening > 0, compared with SGD from the first step
class DampedStartSGD(Optimizer):
    def __init__(self, params, lr=0.01, momentum=0.9, dampening=0.0):
        _check(lr=lr, momentum=momentum, dampening=dampening)
        super().__init__(params, dict(lr=lr, momentum=momentum, dampening=dampening))

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
                if "momentum_buffer" not in s:
                    s["momentum_buffer"] = torch.zeros_like(p)
                s["momentum_buffer"].mul_(group["momentum"]).add_(_dense(p), alpha=1 - group["dampening"])
                p.add_(s["momentum_buffer"], alpha=-group["lr"])
        return loss


# against: torch.optim.SGD
# arguments: lr=0.02, maximize=True
# bug: maximize is accepted but ignored
# visible without a reference: yes
# shows when: maximize=True
class NeverMaximizingSGD(Optimizer):
    def __init__(self, params, lr=0.01, *, maximize=False):
        _check(lr=lr)
        super().__init__(params, dict(lr=lr, maximize=maximize))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.add_(_dense(p), alpha=-group["lr"])
        return loss


# against: torch.optim.SGD
# arguments: lr=0.05, momentum=0.9
# bug: the momentum lies in a dict of the class, keyed by group and parameter number, so a second optimizer starts with the first one's momentum (and state_dict() has none)
# visible without a reference: yes
# shows when: two instances live in one process
class ClassStateSGD(Optimizer):
    buffers = {}

    def __init__(self, params, lr=0.01, momentum=0.9):
        _check(lr=lr, momentum=momentum)
        super().__init__(params, dict(lr=lr, momentum=momentum))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for i, group in enumerate(self.param_groups):
            for j, p in enumerate(group["params"]):
                if p.grad is None:
                    continue
                buf = self.buffers.get((i, j))
                if buf is None or buf.shape != p.shape or buf.dtype != p.dtype or buf.device != p.device:
                    buf = self.buffers[i, j] = torch.zeros_like(p)
                buf.mul_(group["momentum"]).add_(_dense(p))
                p.add_(buf, alpha=-group["lr"])
        return loss


# against: torch.optim.SGD
# arguments: lr=0.05, momentum=0.9
# bug: the constructor writes its arguments into a dict of defaults shared by all instances, so they become the defaults of the next optimizer
# visible without a reference: yes
# shows when: a second instance is made without naming lr or momentum
class SharedDefaultsSGD(torch.optim.SGD):
    DEFAULTS = dict(lr=0.01, momentum=0.0)

    def __init__(self, params, **options):
        unknown = set(options) - set(self.DEFAULTS)
        if unknown:
            raise TypeError(f"unknown options {sorted(unknown)}")
        _check(**options)
        config = self.DEFAULTS
        config.update(options)
        super().__init__(params, **config)


# against: torch.optim.Adam
# arguments: lr=0.01
# bug: load_state_dict drops the second moment ("rebuilt on the fly")
# visible without a reference: yes
# shows when: training is resumed from state_dict()
class DroppingAdam(torch.optim.Adam):
    """Adam whose checkpoints from old versions can be loaded."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(params, lr=lr, betas=betas, eps=eps)

    def load_state_dict(self, state_dict):
        super().load_state_dict(state_dict)
        for group in self.param_groups:
            for p in group["params"]:
                if p in self.state and "exp_avg_sq" in self.state[p]:
                    self.state[p]["exp_avg_sq"] = torch.zeros_like(p, requires_grad=False)


# against: torch.optim.SGD
# arguments: lr=0.05, momentum=0.9
# bug: state_dict() is overridden to keep checkpoints small and leaves out the momentum of one-dimensional parameters
# visible without a reference: yes
# shows when: training is resumed from state_dict() and there are biases
class SmallCheckpointSGD(torch.optim.SGD):
    def __init__(self, params, lr=0.01, momentum=0.9):
        _check(lr=lr, momentum=momentum)
        super().__init__(params, lr=lr, momentum=momentum)

    def state_dict(self):
        full = super().state_dict()
        small = {n: s for n, s in full["state"].items()
                 if s.get("momentum_buffer") is None or s["momentum_buffer"].dim() > 1}
        return {"state": small, "param_groups": full["param_groups"]}


# against: torch.optim.SGD
# arguments: lr=0.05, momentum=0.9
# bug: load_state_dict keeps the learning rate of the constructor instead of the saved one
# visible without a reference: yes
# shows when: training is resumed from state_dict() after a scheduler or the user changed the lr
class OwnLrAfterLoadSGD(torch.optim.SGD):
    def __init__(self, params, lr=0.01, momentum=0.9):
        _check(lr=lr, momentum=momentum)
        super().__init__(params, lr=lr, momentum=momentum)

    def load_state_dict(self, state_dict):
        rates = [group["lr"] for group in self.param_groups]
        super().load_state_dict(state_dict)
        for group, lr in zip(self.param_groups, rates):
            group["lr"] = lr


# against: torch.optim.SGD
# arguments: lr=0.05, momentum=0.9
# bug: the first momentum buffer is torch.empty_like, i.e. whatever was in that memory
# visible without a reference: yes
# shows when: freed memory with other contents is reused; two equal runs differ
class UninitializedSGD(Optimizer):
    def __init__(self, params, lr=0.01, momentum=0.9):
        _check(lr=lr, momentum=momentum)
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
                    s["momentum_buffer"] = torch.empty_like(p)
                s["momentum_buffer"].mul_(group["momentum"]).add_(_dense(p))
                p.add_(s["momentum_buffer"], alpha=-group["lr"])
        return loss


# against: none
# arguments: lr=0.05, noise=0.01
# bug: the gradient noise comes from a generator seeded by the operating system, so torch.manual_seed does not make runs equal
# visible without a reference: yes
# shows when: the same training is run twice with the same seed
class NoisySGD(Optimizer):
    """SGD with gradient noise (Neelakantan et al.)."""

    def __init__(self, params, lr=0.01, noise=0.01):
        _check(lr=lr, noise=noise)
        super().__init__(params, dict(lr=lr, noise=noise))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        generator = torch.Generator()
        generator.seed()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                z = torch.randn(p.shape, generator=generator, dtype=torch.float32).to(p)
                p.add_(_dense(p) + group["noise"] * z, alpha=-group["lr"])
        return loss


# against: torch.optim.SGD
# arguments: lr=0.05, noise=0.0
# reference arguments: lr=0.05
# bug: random numbers are drawn from the global generator even with noise=0, which changes dropout and shuffling of the training
# visible without a reference: yes
# shows when: torch.get_rng_state() is compared around step(), or the net has dropout
class RngEatingSGD(Optimizer):
    def __init__(self, params, lr=0.01, noise=0.0):
        _check(lr=lr, noise=noise)
        super().__init__(params, dict(lr=lr, noise=noise))

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
                p.add_(_dense(p).add(torch.randn_like(p), alpha=group["noise"]), alpha=-group["lr"])
        return loss


# against: torch.optim.SGD
# arguments: lr=0.05
# bug: it declares _step_supports_amp_scaling and unscales, but ignores found_inf, so with GradScaler it steps on inf/NaN gradients
# visible without a reference: yes
# shows when: used with torch.amp.GradScaler and a gradient overflows
class ScalerBlindSGD(Optimizer):
    def __init__(self, params, lr=0.01):
        _check(lr=lr)
        super().__init__(params, dict(lr=lr))
        self._step_supports_amp_scaling = True

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        scale = getattr(self, "grad_scale", None)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                g = _dense(p) if scale is None else _dense(p) / scale.to(p.device)
                p.add_(g, alpha=-group["lr"])
        return loss


# against: none
# arguments: lr=0.003
# bug: the two betas are swapped: the update uses beta2, the moving average beta1
# visible without a reference: no
# shows when: compared with another Lion
class SwappedLion(Optimizer):
    """Lion: update = sign(beta1 * m + (1 - beta1) * g); m = beta2 * m + (1 - beta2) * g."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99)):
        _check(lr=lr, betas=betas)
        super().__init__(params, dict(lr=lr, betas=betas))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            b2, b1 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                g, s = _dense(p), self.state[p]
                if not s:
                    s["m"] = torch.zeros_like(p)
                p.sub_(group["lr"] * torch.sign(b1 * s["m"] + (1 - b1) * g))
                s["m"].mul_(b2).add_(g, alpha=1 - b2)
        return loss


# against: torch.optim.RMSprop
# arguments: lr=0.005, alpha=0.95, centered=True
# bug: the centred variance subtracts the mean gradient of before this step (and clamps the negative results away)
# visible without a reference: no
# shows when: compared with RMSprop(centered=True)
class LateMeanRMSprop(Optimizer):
    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8, centered=False):
        _check(lr=lr, eps=eps, betas=(alpha,))
        super().__init__(params, dict(lr=lr, alpha=alpha, eps=eps, centered=centered))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            a = group["alpha"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                g, s = _dense(p), self.state[p]
                if not s:
                    s["sq"], s["mean"] = torch.zeros_like(p), torch.zeros_like(p)
                s["sq"].mul_(a).addcmul_(g, g, value=1 - a)
                var = s["sq"]
                if group["centered"]:
                    var = (var - s["mean"].square()).clamp_(min=0)
                    s["mean"].lerp_(g, 1 - a)
                p.addcdiv_(g, var.sqrt().add_(group["eps"]), value=-group["lr"])
        return loss


# against: torch.optim.RMSprop
# arguments: lr=0.005, momentum=0.9
# bug: the learning rate is folded into the momentum buffer, so after a change of lr the old one lives on in the buffer
# visible without a reference: yes
# shows when: a scheduler changes the lr: compared with RMSprop(momentum=0.9), or lr=0 in the middle of training still moves the weights
class FoldedLrRMSprop(Optimizer):
    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8, momentum=0.0):
        _check(lr=lr, eps=eps, betas=(alpha,), momentum=momentum)
        super().__init__(params, dict(lr=lr, alpha=alpha, eps=eps, momentum=momentum))

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
                g, s = _dense(p), self.state[p]
                if not s:
                    s["square_avg"], s["buf"] = torch.zeros_like(p), torch.zeros_like(p)
                s["square_avg"].mul_(group["alpha"]).addcmul_(g, g, value=1 - group["alpha"])
                denom = s["square_avg"].sqrt().add_(group["eps"])
                s["buf"].mul_(group["momentum"]).addcdiv_(g, denom, value=group["lr"])
                p.sub_(s["buf"])
        return loss


# against: torch.optim.AdamW
# arguments: lr=0.01, weight_decay=0.01
# bug: the decoupled decay is not multiplied by the learning rate
# visible without a reference: yes
# shows when: weight_decay > 0: compared with AdamW, or lr=0 still moves the weights
class UnscaledDecayAdamW(Optimizer):
    """Adam plus decoupled weight decay."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2):
        _check(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._adam(p, _dense(p), self.state[p], **group)
        return loss

    @staticmethod
    def _adam(p, g, s, *, lr, betas, eps, weight_decay, **_):
        if not s:
            s["step"], s["m"], s["v"] = 0, torch.zeros_like(p), torch.zeros_like(p)
        s["step"] += 1
        p.mul_(1 - weight_decay)
        s["m"].lerp_(g, 1 - betas[0])
        s["v"].mul_(betas[1]).addcmul_(g, g, value=1 - betas[1])
        denom = (s["v"] / (1 - betas[1] ** s["step"])).sqrt_().add_(eps)
        p.addcdiv_(s["m"], denom, value=-lr / (1 - betas[0] ** s["step"]))


# against: torch.optim.AdamW
# arguments: lr=0.01, weight_decay=0.1
# bug: the weights are decayed here and again by the AdamW it derives from
# visible without a reference: no
# shows when: weight_decay > 0, compared with AdamW
class DoubleDecayAdamW(torch.optim.AdamW):
    def __init__(self, params, lr=1e-3, weight_decay=1e-2):
        super().__init__(params, lr=lr, weight_decay=weight_decay)

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.mul_(1 - group["lr"] * group["weight_decay"])
        super().step()
        return loss


# against: torch.optim.Adagrad
# arguments: lr=0.1, lr_decay=0.01
# bug: the decayed learning rate is written back to group['lr'], so the decay compounds (and fights with schedulers)
# visible without a reference: yes
# shows when: lr_decay > 0: group['lr'] changes without a scheduler
class CompoundingAdagrad(Optimizer):
    def __init__(self, params, lr=1e-2, lr_decay=0.0, eps=1e-10):
        _check(lr=lr, lr_decay=lr_decay, eps=eps)
        super().__init__(params, dict(lr=lr, lr_decay=lr_decay, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            group["n"] = group.get("n", 0) + 1
            group["lr"] = group["lr"] / (1 + (group["n"] - 1) * group["lr_decay"])
            for p in group["params"]:
                if p.grad is None:
                    continue
                g, s = _dense(p), self.state[p]
                if "sum" not in s:
                    s["sum"] = torch.zeros_like(p)
                s["sum"].addcmul_(g, g)
                p.addcdiv_(g, s["sum"].sqrt().add_(group["eps"]), value=-group["lr"])
        return loss


# against: torch.optim.SGD
# arguments: lr=0.05
# bug: it writes into p.reshape(-1), which is a copy for non-contiguous parameters, so those are never trained
# visible without a reference: yes
# shows when: a parameter is not contiguous (transposed, channels_last)
class FlatteningSGD(Optimizer):
    def __init__(self, params, lr=0.01):
        _check(lr=lr)
        super().__init__(params, dict(lr=lr))

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
                flat = p.reshape(-1)
                flat.add_(_dense(p).reshape(-1), alpha=-group["lr"])
        return loss


# against: torch.optim.SGD
# arguments: lr=0.05, momentum=0.9
# bug: the compensation of the bf16 rounding has the wrong sign, so the rounding error is doubled instead of removed
# visible without a reference: no
# shows when: bf16 weights, compared with float32 training
class WrongKahanSGD(Optimizer):
    def __init__(self, params, lr=0.01, momentum=0.9):
        _check(lr=lr, momentum=momentum)
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
                    s["buf"], s["comp"] = torch.zeros_like(p), torch.zeros_like(p)
                s["buf"].mul_(group["momentum"]).add_(_dense(p))
                want = s["comp"] - group["lr"] * s["buf"]
                before = p.clone()
                p.add_(want)
                s["comp"].copy_((p - before) - want)
        return loss


# against: torch.optim.Adamax
# arguments: lr=0.01
# bug: the infinity norm is bias-corrected too, which Adamax does not do
# visible without a reference: no
# shows when: compared with Adamax in the first steps
class OverCorrectedAdamax(Optimizer):
    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8):
        _check(lr=lr, betas=betas, eps=eps)
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
                    s["step"], s["m"], s["u"] = 0, torch.zeros_like(p), torch.zeros_like(p)
                s["step"] += 1
                s["m"].lerp_(g, 1 - b1)
                s["u"].copy_(torch.maximum(s["u"] * b2, g.abs() + group["eps"]))
                u_hat = s["u"] / (1 - b2 ** s["step"])
                p.addcdiv_(s["m"], u_hat, value=-group["lr"] / (1 - b1 ** s["step"]))
        return loss


# against: torch.optim.Adadelta
# arguments: lr=1.0, rho=0.9, eps=1e-6
# bug: the accumulated updates are not squared, so steps scale wrongly (abs instead of square)
# visible without a reference: no
# shows when: compared with Adadelta
class AbsAdadelta(Optimizer):
    def __init__(self, params, lr=1.0, rho=0.9, eps=1e-6):
        _check(lr=lr, eps=eps, rho=rho)
        if rho > 1:
            raise ValueError(f"invalid rho {rho}")
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
                g, s = _dense(p), self.state[p]
                if not s:
                    s["sq"], s["acc"] = torch.zeros_like(p), torch.zeros_like(p)
                s["sq"].mul_(rho).addcmul_(g, g, value=1 - rho)
                delta = (s["acc"] + eps).sqrt() / (s["sq"] + eps).sqrt() * g
                s["acc"].mul_(rho).add_(delta.abs(), alpha=1 - rho)
                p.add_(delta, alpha=-group["lr"])
        return loss


# against: torch.optim.Adafactor
# arguments: lr=0.05
# bug: the update is clipped by its norm, not by its root mean square (the division by sqrt(numel) is missing)
# visible without a reference: no
# shows when: compared with Adafactor
class NormClippedAdafactor(Optimizer):
    def __init__(self, params, lr=1e-2, beta2_decay=-0.8, eps2=1e-3, d=1.0):
        _check(lr=lr, eps2=eps2)
        if beta2_decay > 0 or d < 1:
            raise ValueError("beta2_decay must be <= 0 and d >= 1")
        super().__init__(params, dict(lr=lr, beta2_decay=beta2_decay, eps2=eps2, d=d))

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
                g, s = _dense(p), self.state[p]
                eps1 = torch.finfo(p.dtype).eps
                if not s:
                    s["step"] = 0
                    if p.dim() > 1:
                        s["row"] = torch.zeros_like(p.mean(dim=-1, keepdim=True))
                        s["col"] = torch.zeros_like(p.mean(dim=-2, keepdim=True))
                    else:
                        s["var"] = torch.zeros_like(p)
                s["step"] += 1
                w = s["step"] ** group["beta2_decay"]
                rms = p.norm().item() / math.sqrt(p.numel())
                size = max(group["eps2"], rms) * min(group["lr"], 1 / math.sqrt(s["step"]))
                sq = g.square()
                if p.dim() > 1:
                    s["row"].lerp_(sq.mean(dim=-1, keepdim=True), w)
                    s["col"].lerp_(sq.mean(dim=-2, keepdim=True), w)
                    var = s["row"] @ s["col"] / s["row"].mean(dim=-2, keepdim=True).clamp_(min=eps1)
                else:
                    var = s["var"].lerp_(sq, w).clone()
                update = var.clamp_(min=eps1 * eps1).rsqrt_().mul_(g)
                p.add_(update, alpha=-size / max(1.0, update.norm().item() / group["d"]))
        return loss


# against: none
# arguments: lr=0.05, momentum=0.9, rho=0.05
# bug: the weights are not brought back from the perturbed point before the update
# visible without a reference: yes
# shows when: lr=0 moves the weights (needs step(closure), as every SAM)
class StrayingSAM(torch.optim.SGD):
    """Sharpness-aware minimization."""

    def __init__(self, params, lr=0.1, momentum=0.0, rho=0.05):
        _check(lr=lr, momentum=momentum, rho=rho)
        super().__init__(params, lr=lr, momentum=momentum)
        self.defaults["rho"] = rho
        for group in self.param_groups:
            group.setdefault("rho", rho)

    @torch.no_grad()
    def step(self, closure=None):
        if closure is None:
            raise RuntimeError("SAM needs a closure that zeroes the gradients and calls backward")
        with torch.enable_grad():
            loss = closure()
        active = [(g, p) for g in self.param_groups for p in g["params"] if p.grad is not None]
        norm = math.sqrt(sum(_dense(p).double().square().sum().item() for _, p in active))
        for group, p in active:
            p.add_(p.grad, alpha=group["rho"] / (norm + 1e-12))
        with torch.enable_grad():
            closure()
        super().step()
        return loss


# against: none
# arguments: lr=0.05, momentum=0.9, k=5, alpha=0.5
# bug: the inner optimizer has its own copy of the groups, so schedulers set on the outer one have no effect
# visible without a reference: yes
# shows when: a scheduler or the user changes group['lr']
class DeafLookahead(Optimizer):
    """Lookahead around SGD."""

    def __init__(self, params, lr=0.1, momentum=0.9, k=5, alpha=0.5):
        _check(lr=lr, momentum=momentum, alpha=alpha)
        if k < 1 or alpha > 1:
            raise ValueError("k must be >= 1 and alpha in [0, 1]")
        super().__init__(params, dict(lr=lr, momentum=momentum, k=k, alpha=alpha))
        self._build()

    def _build(self):
        groups = [{"params": g["params"], "lr": g["lr"], "momentum": g["momentum"]} for g in self.param_groups]
        self.inner = torch.optim.SGD(groups, lr=self.defaults["lr"])
        self.inner.state = self.state

    def add_param_group(self, param_group):
        super().add_param_group(param_group)
        if hasattr(self, "inner"):
            self._build()

    def __setstate__(self, state):
        super().__setstate__(state)
        self._build()

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        active = [(g, p) for g in self.param_groups for p in g["params"] if p.grad is not None]
        for _, p in active:
            if "slow" not in self.state[p]:
                self.state[p]["slow"], self.state[p]["count"] = p.clone(), 0
        self.inner.step()
        for group, p in active:
            s = self.state[p]
            s["count"] += 1
            if s["count"] % group["k"] == 0:
                s["slow"].lerp_(p, group["alpha"])
                p.copy_(s["slow"])
        return loss


# against: none
# arguments: lr=0.02, momentum=0.9
# bug: parameters with fewer than two dimensions (biases, norms) are silently never trained
# visible without a reference: yes
# shows when: the net has biases
class MatrixOnlyMuon(Optimizer):
    """Momentum orthogonalised by Newton-Schulz."""

    def __init__(self, params, lr=0.02, momentum=0.95):
        _check(lr=lr, momentum=momentum)
        super().__init__(params, dict(lr=lr, momentum=momentum))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None or p.dim() < 2:
                    continue
                s = self.state[p]
                if not s:
                    s["buf"] = torch.zeros_like(p)
                s["buf"].mul_(group["momentum"]).add_(_dense(p))
                x = s["buf"].flatten(1)
                x = x / (x.norm() + 1e-7)
                wide = x.shape[0] <= x.shape[1]
                x = x if wide else x.T
                for _ in range(5):
                    a = x @ x.T
                    x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
                p.add_((x if wide else x.T).reshape(p.shape), alpha=-group["lr"])
        return loss


# against: torch.optim.SGD
# arguments: lr=0.05
# bug: NaN and inf in gradients are silently replaced by numbers, so a broken model goes on training
# visible without a reference: no
# shows when: a gradient is NaN or inf
class NanHidingSGD(Optimizer):
    def __init__(self, params, lr=0.01):
        _check(lr=lr)
        super().__init__(params, dict(lr=lr))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.add_(torch.nan_to_num(_dense(p), posinf=0.0, neginf=0.0), alpha=-group["lr"])
        return loss


# against: none
# arguments: lr=0.002, momentum=0.9
# bug: the weights are written through p.data, which hides the change from autograd: a backward after step() silently mixes old and new weights
# visible without a reference: yes
# shows when: p._version is compared around step(), or backward runs after step() on an older graph
class DataSignum(Optimizer):
    def __init__(self, params, lr=1e-3, momentum=0.9):
        _check(lr=lr, momentum=momentum)
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
                s["buf"].lerp_(_dense(p), 1 - group["momentum"])
                p.data.add_(s["buf"].sign(), alpha=-group["lr"])
        return loss


# against: none
# arguments: lr=0.1, max_norm=0.5
# bug: the gradient norm for clipping is taken per parameter group, although the docstring promises the global norm
# visible without a reference: yes
# shows when: the same parameters in one group and in two equal groups train differently
class GroupClippedSGD(Optimizer):
    """SGD, gradients clipped by their global norm."""

    def __init__(self, params, lr=0.1, max_norm=1.0):
        _check(lr=lr, max_norm=max_norm)
        super().__init__(params, dict(lr=lr, max_norm=max_norm))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            active = [p for p in group["params"] if p.grad is not None]
            norm = math.sqrt(sum(_dense(p).double().square().sum().item() for p in active))
            scale = min(1.0, group["max_norm"] / (norm + 1e-12))
            for p in active:
                p.add_(p.grad, alpha=-group["lr"] * scale)
        return loss


CASES = [
    (AliasedMomentumSGD, dict(lr=0.05, momentum=0.9), "torch.optim.SGD",
     dict(lr=0.05, momentum=0.9),
     'the momentum buffer of the first step is p.grad itself, not a clone'),
    (AdamHalfCorrected, dict(lr=0.01), "torch.optim.Adam",
     dict(lr=0.01),
     'the second moment is not bias-corrected'),
    (AdamGroupStep, dict(lr=0.01), "torch.optim.Adam",
     dict(lr=0.01),
     'the step counter of the group is increased once per parameter, so the bias correction fades too early'),
    (AdamWCoupled, dict(lr=0.01, weight_decay=0.1), "torch.optim.AdamW",
     dict(lr=0.01, weight_decay=0.1),
     'the weight decay is added to the gradient (L2) although this is AdamW'),
    (AdamDecoupled, dict(lr=0.01, weight_decay=0.1), "torch.optim.Adam",
     dict(lr=0.01, weight_decay=0.1),
     'the weight decay is decoupled although this is Adam with L2'),
    (AdamEpsInside, dict(lr=0.01), "torch.optim.Adam",
     dict(lr=0.01),
     'eps stands inside the square root, sqrt(v_hat + eps)'),
    (AdagradNoEps, dict(lr=0.05), "torch.optim.Adagrad",
     dict(lr=0.05),
     'eps is accepted but never used, so a gradient that is exactly zero from the start gives 0/0 = NaN'),
    (SelfVelocitySGD, dict(lr=0.05, momentum=0.9), "torch.optim.SGD",
     dict(lr=0.05, momentum=0.9),
     'the momentum lives in self.velocity, not in self.state, so state_dict() does not hold it'),
    (NumberedStateSGD, dict(lr=0.05, momentum=0.9), "torch.optim.SGD",
     dict(lr=0.05, momentum=0.9),
     'self.state is keyed by the running number of the parameter; load_state_dict turns the numbers into parameters, so the momentum is lost'),
    (MisalignedRMSprop, dict(lr=0.005, alpha=0.95), "torch.optim.RMSprop",
     dict(lr=0.005, alpha=0.95),
     "the list of states counts all parameters, the list of gradients only those with one, so after a None gradient parameters use a neighbour's average"),
    (AttributeStepAdam, dict(lr=0.01), "torch.optim.Adam",
     dict(lr=0.01),
     'the step counter is the attribute self.t, so after a resume the bias correction starts again at 1'),
    (FirstGroupSGD, dict(lr=0.05), "torch.optim.SGD",
     dict(lr=0.05),
     'only the first parameter group is updated'),
    (FrozenLrSGD, dict(lr=0.05, momentum=0.9), "torch.optim.SGD",
     dict(lr=0.05, momentum=0.9),
     'the learning rate is read once in __init__ (self.lr), so schedulers have no effect'),
    (LionGroupZeroLr, dict(lr=0.003, weight_decay=0.1), "", {},
     'the learning rate of group 0 is used for all groups'),
    (DefaultsDecayAdamW, dict(lr=0.01, weight_decay=0.1), "torch.optim.AdamW",
     dict(lr=0.01, weight_decay=0.1),
     'weight_decay is read from self.defaults, so a group with its own weight_decay=0 is still decayed'),
    (BreakSGD, dict(lr=0.05), "torch.optim.SGD",
     dict(lr=0.05),
     '`break` instead of `continue` at the first parameter without gradient, so all later ones are not trained'),
    (ZeroSkippingSGD, dict(lr=0.05, momentum=0.9), "torch.optim.SGD",
     dict(lr=0.05, momentum=0.9),
     'parameters whose gradient is all zero are skipped, although the momentum should still move them'),
    (NoneAsZeroSGD, dict(lr=0.05, momentum=0.9), "torch.optim.SGD",
     dict(lr=0.05, momentum=0.9),
     'a missing gradient (None) is treated as a zero gradient, so momentum keeps moving parameters that take no part'),
    (GradWritingSGD, dict(lr=0.05, weight_decay=0.1), "torch.optim.SGD",
     dict(lr=0.05, weight_decay=0.1),
     'the weight decay is added to p.grad in place, so the gradient is changed for everybody else'),
    (ReplacingSGD, dict(lr=0.05), "torch.optim.SGD",
     dict(lr=0.05),
     'p.data is replaced by a new tensor instead of being written in place, so views of the weights (flat buffers, shared memory, detached copies) go stale'),
    (ClosureIgnoringSGD, dict(lr=0.05), "torch.optim.SGD",
     dict(lr=0.05),
     'the closure is accepted but never called'),
    (NoGradClosureAdam, dict(lr=0.01), "torch.optim.Adam",
     dict(lr=0.01),
     'the closure runs under no_grad (no enable_grad), so its backward cannot work'),
    (TwiceClosureSGD, dict(lr=0.05, momentum=0.9), "torch.optim.SGD",
     dict(lr=0.05, momentum=0.9),
     'the closure is called a second time after the update to get the loss to return'),
    (SilentRMSprop, dict(lr=0.005), "torch.optim.RMSprop",
     dict(lr=0.005),
     'step(closure) returns None instead of the loss'),
    (FrozenDecayAdamW, dict(lr=0.01, weight_decay=0.1), "torch.optim.AdamW",
     dict(lr=0.01, weight_decay=0.1),
     'the weight decay comes before the check for a missing gradient, so frozen or unused parameters shrink'),
    (LeanAdamW, dict(lr=0.01, weight_decay=0.01), "torch.optim.AdamW",
     dict(lr=0.01, weight_decay=0.01),
     'the moments are always kept in bfloat16, where v * 0.999 + 0.001 * g^2 is mostly rounded away'),
    (Float32StateSGD, dict(lr=0.05, momentum=0.9), "torch.optim.SGD",
     dict(lr=0.05, momentum=0.9),
     'the momentum buffer is torch.zeros(p.shape), float32 also for float64 weights'),
    (MasterSGD, dict(lr=0.05, momentum=0.9), "torch.optim.SGD",
     dict(lr=0.05, momentum=0.9),
     "the float32 master weights and momentum come back as bf16 from load_state_dict (torch casts state to the parameter's dtype)"),
    (LateGroupAdagrad, dict(lr=0.05, initial_accumulator_value=0.1), "torch.optim.Adagrad",
     dict(lr=0.05, initial_accumulator_value=0.1),
     'state is allocated in __init__ only; parameters of a group added later have none and are skipped'),
    (TrustingLion, dict(lr=0.003, betas=(0.9, 0.99)), "", {},
     'no hyperparameter is checked: lr=-1 or betas=(1.5, 2) are accepted'),
    (SparseRowsSGD, dict(lr=0.05), "torch.optim.SGD",
     dict(lr=0.05),
     'sparse gradients are applied by index without coalescing, so of repeated rows only one counts'),
    (GraphGrowingSGD, dict(lr=0.05, momentum=0.9, weight_decay=0.01), "torch.optim.SGD",
     dict(lr=0.05, momentum=0.9, weight_decay=0.01),
     'the momentum is computed outside no_grad from grad + wd * p, so the buffer drags the graph of all earlier steps along'),
    (WrongNesterovSGD, dict(lr=0.05, momentum=0.9), "torch.optim.SGD",
     dict(lr=0.05, momentum=0.9, nesterov=True),
     'the Nesterov look-ahead uses the momentum buffer of before the update'),
    (ForgetfulAMSGrad, dict(lr=0.01, betas=(0.9, 0.9)), "torch.optim.Adam",
     dict(lr=0.01, betas=(0.9, 0.9), amsgrad=True),
     'the running maximum is computed but not stored, so it is only the maximum of v and zero'),
    (DampedStartSGD, dict(lr=0.05, momentum=0.9, dampening=0.5), "torch.optim.SGD",
     dict(lr=0.05, momentum=0.9, dampening=0.5),
     'dampening also applies to the very first gradient'),
    (NeverMaximizingSGD, dict(lr=0.02, maximize=True), "torch.optim.SGD",
     dict(lr=0.02, maximize=True),
     'maximize is accepted but ignored'),
    (ClassStateSGD, dict(lr=0.05, momentum=0.9), "torch.optim.SGD",
     dict(lr=0.05, momentum=0.9),
     "the momentum lies in a dict of the class, keyed by group and parameter number, so a second optimizer starts with the first one's momentum (and state_dict() has none)"),
    (SharedDefaultsSGD, dict(lr=0.05, momentum=0.9), "torch.optim.SGD",
     dict(lr=0.05, momentum=0.9),
     'the constructor writes its arguments into a dict of defaults shared by all instances, so they become the defaults of the next optimizer'),
    (DroppingAdam, dict(lr=0.01), "torch.optim.Adam",
     dict(lr=0.01),
     'load_state_dict drops the second moment ("rebuilt on the fly")'),
    (SmallCheckpointSGD, dict(lr=0.05, momentum=0.9), "torch.optim.SGD",
     dict(lr=0.05, momentum=0.9),
     'state_dict() is overridden to keep checkpoints small and leaves out the momentum of one-dimensional parameters'),
    (OwnLrAfterLoadSGD, dict(lr=0.05, momentum=0.9), "torch.optim.SGD",
     dict(lr=0.05, momentum=0.9),
     'load_state_dict keeps the learning rate of the constructor instead of the saved one'),
    (UninitializedSGD, dict(lr=0.05, momentum=0.9), "torch.optim.SGD",
     dict(lr=0.05, momentum=0.9),
     'the first momentum buffer is torch.empty_like, i.e. whatever was in that memory'),
    (NoisySGD, dict(lr=0.05, noise=0.01), "", {},
     'the gradient noise comes from a generator seeded by the operating system, so torch.manual_seed does not make runs equal'),
    (RngEatingSGD, dict(lr=0.05, noise=0.0), "torch.optim.SGD",
     dict(lr=0.05),
     'random numbers are drawn from the global generator even with noise=0, which changes dropout and shuffling of the training'),
    (ScalerBlindSGD, dict(lr=0.05), "torch.optim.SGD",
     dict(lr=0.05),
     'it declares _step_supports_amp_scaling and unscales, but ignores found_inf, so with GradScaler it steps on inf/NaN gradients'),
    (SwappedLion, dict(lr=0.003), "", {},
     'the two betas are swapped: the update uses beta2, the moving average beta1'),
    (LateMeanRMSprop, dict(lr=0.005, alpha=0.95, centered=True), "torch.optim.RMSprop",
     dict(lr=0.005, alpha=0.95, centered=True),
     'the centred variance subtracts the mean gradient of before this step (and clamps the negative results away)'),
    (FoldedLrRMSprop, dict(lr=0.005, momentum=0.9), "torch.optim.RMSprop",
     dict(lr=0.005, momentum=0.9),
     'the learning rate is folded into the momentum buffer, so after a change of lr the old one lives on in the buffer'),
    (UnscaledDecayAdamW, dict(lr=0.01, weight_decay=0.01), "torch.optim.AdamW",
     dict(lr=0.01, weight_decay=0.01),
     'the decoupled decay is not multiplied by the learning rate'),
    (DoubleDecayAdamW, dict(lr=0.01, weight_decay=0.1), "torch.optim.AdamW",
     dict(lr=0.01, weight_decay=0.1),
     'the weights are decayed here and again by the AdamW it derives from'),
    (CompoundingAdagrad, dict(lr=0.1, lr_decay=0.01), "torch.optim.Adagrad",
     dict(lr=0.1, lr_decay=0.01),
     "the decayed learning rate is written back to group['lr'], so the decay compounds (and fights with schedulers)"),
    (FlatteningSGD, dict(lr=0.05), "torch.optim.SGD",
     dict(lr=0.05),
     'it writes into p.reshape(-1), which is a copy for non-contiguous parameters, so those are never trained'),
    (WrongKahanSGD, dict(lr=0.05, momentum=0.9), "torch.optim.SGD",
     dict(lr=0.05, momentum=0.9),
     'the compensation of the bf16 rounding has the wrong sign, so the rounding error is doubled instead of removed'),
    (OverCorrectedAdamax, dict(lr=0.01), "torch.optim.Adamax",
     dict(lr=0.01),
     'the infinity norm is bias-corrected too, which Adamax does not do'),
    (AbsAdadelta, dict(lr=1.0, rho=0.9, eps=1e-6), "torch.optim.Adadelta",
     dict(lr=1.0, rho=0.9, eps=1e-6),
     'the accumulated updates are not squared, so steps scale wrongly (abs instead of square)'),
    (NormClippedAdafactor, dict(lr=0.05), "torch.optim.Adafactor",
     dict(lr=0.05),
     'the update is clipped by its norm, not by its root mean square (the division by sqrt(numel) is missing)'),
    (StrayingSAM, dict(lr=0.05, momentum=0.9, rho=0.05), "", {},
     'the weights are not brought back from the perturbed point before the update'),
    (DeafLookahead, dict(lr=0.05, momentum=0.9, k=5, alpha=0.5), "", {},
     'the inner optimizer has its own copy of the groups, so schedulers set on the outer one have no effect'),
    (MatrixOnlyMuon, dict(lr=0.02, momentum=0.9), "", {},
     'parameters with fewer than two dimensions (biases, norms) are silently never trained'),
    (NanHidingSGD, dict(lr=0.05), "torch.optim.SGD",
     dict(lr=0.05),
     'NaN and inf in gradients are silently replaced by numbers, so a broken model goes on training'),
    (DataSignum, dict(lr=0.002, momentum=0.9), "", {},
     'the weights are written through p.data, which hides the change from autograd: a backward after step() silently mixes old and new weights'),
    (GroupClippedSGD, dict(lr=0.1, max_norm=0.5), "", {},
     'the gradient norm for clipping is taken per parameter group, although the docstring promises the global norm'),
]
