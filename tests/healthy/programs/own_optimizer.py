"""From scratch: hand-written layers and hand-written updates, then an Optimizer class of one's own."""

import math

import torch
from torch import nn
from torch.optim import Optimizer


class Lion(Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

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
                state = self.state[p]
                if not state:
                    state["m"] = torch.zeros_like(p)
                update = state["m"] * b1 + p.grad * (1 - b1)
                p.mul_(1 - group["lr"] * group["weight_decay"]).add_(update.sign_(), alpha=-group["lr"])
                state["m"].mul_(b2).add_(p.grad, alpha=1 - b2)
        return loss


def log_softmax(x):
    return x - x.exp().sum(-1).log().unsqueeze(-1)


def nll(log_probs, target):
    return -log_probs[range(target.shape[0]), target].mean()


def accuracy(out, yb):
    return (torch.argmax(out, dim=1) == yb).float().mean()


torch.manual_seed(43)
centres = torch.randn(5, 10) * 2
y_train = torch.randint(0, 5, (400,))
x_train = centres[y_train] + torch.randn(400, 10)

# Part one: tensors and arithmetic only.
weights = torch.randn(10, 5) / math.sqrt(10)
weights.requires_grad_()
bias = torch.zeros(5, requires_grad=True)
bs, lr = 50, 0.2
for epoch in range(3):
    for i in range((len(x_train) - 1) // bs + 1):
        xb, yb = x_train[i * bs : i * bs + bs], y_train[i * bs : i * bs + bs]
        loss = nll(log_softmax(xb @ weights + bias), yb)
        loss.backward()
        with torch.no_grad():
            weights -= weights.grad * lr
            bias -= bias.grad * lr
            weights.grad.zero_()
            bias.grad.zero_()
    print("by hand", epoch, loss.item(), accuracy(log_softmax(xb @ weights + bias), yb).item())

# Part two: a module, updated by hand with momentum.
model = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 5))
velocity = [torch.zeros_like(p) for p in model.parameters()]
for step in range(20):
    index = torch.randint(0, len(x_train), (bs,))
    loss = nn.functional.cross_entropy(model(x_train[index]), y_train[index])
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for p, v in zip(model.parameters(), velocity, strict=True):
            v.mul_(0.9).add_(p.grad)
            p -= 0.05 * v
print("momentum", loss.item())

# Part three: the same network anew, by an optimizer class of one's own.
for layer in model:
    if isinstance(layer, nn.Linear):
        layer.reset_parameters()
optimizer = Lion(model.parameters(), lr=3e-3, weight_decay=0.01)
for step in range(40):
    index = torch.randint(0, len(x_train), (bs,))
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x_train[index]), y_train[index])
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        with torch.no_grad():
            print("lion", step, loss.item(), accuracy(model(x_train), y_train).item())
