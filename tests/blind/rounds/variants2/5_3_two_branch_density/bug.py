import math
import torch

torch.manual_seed(14)
COMPONENTS, HIDDEN = 3, 40


def branches(n):
    x = 4 * torch.rand(n) - 2
    upper = torch.rand(n) < torch.sigmoid(2 * x)
    y = torch.where(upper, 1.5 + 0.4 * torch.sin(2 * x), -1.0 - 0.3 * x) + 0.12 * torch.randn(n)
    return x, y


def new_weights():
    shapes = {"a": (1, HIDDEN), "b": (HIDDEN, HIDDEN), "c": (HIDDEN, 3 * COMPONENTS)}
    out = {}
    for name, (i, o) in shapes.items():
        out[name] = (torch.randn(i, o) / math.sqrt(i)).requires_grad_()
        out[name + "0"] = (0.5 * torch.randn(o)).requires_grad_()
    return out


def heads(w, x):
    h = torch.tanh(x[:, None] @ w["a"] + w["a0"])
    h = torch.tanh(h @ w["b"] + w["b0"])
    mix, mean, raw = (h @ w["c"] + w["c0"]).chunk(3, dim=1)
    return torch.log_softmax(mix, dim=0), mean, raw.clamp(-4, 3)


def log_density(w, x, y):
    log_mix, mean, log_std = heads(w, x)
    unit = (y[:, None] - mean) / log_std.exp()
    log_normal = -0.5 * unit ** 2 - log_std - 0.5 * math.log(2 * math.pi)
    return torch.logsumexp(log_mix + log_normal, dim=1)


def adam(w, lr=4e-3, b1=0.9, b2=0.99):
    m = {k: torch.zeros_like(v) for k, v in w.items()}
    s = {k: torch.zeros_like(v) for k, v in w.items()}
    t = 0

    def update(grads):
        nonlocal t
        t += 1
        with torch.no_grad():
            for (k, v), g in zip(w.items(), grads):
                m[k].mul_(b1).add_(g, alpha=1 - b1)
                s[k].mul_(b2).addcmul_(g, g, value=1 - b2)
                v -= lr * (m[k] / (1 - b1 ** t)) / ((s[k] / (1 - b2 ** t)).sqrt() + 1e-8)
    return update


x_train, y_train = branches(2000)
x_val, y_val = branches(500)
w = new_weights()
update = adam(w)
for step in range(1, 401):
    rows = torch.randint(0, len(x_train), (128,))
    loss = -log_density(w, x_train[rows], y_train[rows]).mean()
    update(torch.autograd.grad(loss, list(w.values())))
    if step % 80 == 0:
        with torch.no_grad():
            held = -log_density(w, x_val, y_val).mean().item()
        print(f"step {step} train nll {loss.item():.3f} val nll {held:.3f}")
