import math
import torch
import torch.nn.functional as F

torch.manual_seed(0)
CLASSES, DIM, EXPERTS, HID = 6, 10, 4, 24


def rings(n):
    y = torch.randint(0, CLASSES, (n,))
    angle = 2 * math.pi * (y.float() / CLASSES) + 0.25 * torch.randn(n)
    radius = 1.0 + 0.2 * torch.randn(n)
    plane = torch.stack([radius * angle.cos(), radius * angle.sin()], 1)
    return torch.cat([plane, 0.5 * torch.randn(n, DIM - 2)], 1), y


def init(*shape):
    return (torch.randn(*shape) / math.sqrt(shape[-2])).requires_grad_()


params = {
    "w1": init(EXPERTS, DIM, HID), "b1": torch.zeros(EXPERTS, 1, HID, requires_grad=True),
    "w2": init(EXPERTS, HID, CLASSES), "b2": torch.zeros(EXPERTS, 1, CLASSES, requires_grad=True),
    "gate": init(DIM, EXPERTS),
}


def mixture(p, x):
    hidden = torch.tanh(torch.einsum("nd,edh->enh", x, p["w1"]) + p["b1"])
    votes = torch.einsum("enh,ehc->enc", hidden, p["w2"]) + p["b2"]
    shares = F.softmax(x @ p["gate"], dim=1)
    return torch.einsum("ne,enc->nc", shares, F.softmax(votes, dim=2))


def objective(p, x, y):
    out = mixture(p, x)
    return F.cross_entropy(out, y)


x_train, y_train = rings(1500)
x_val, y_val = rings(600)
optimizer = torch.optim.Adam(params.values(), lr=5e-3)
for step in range(300):
    rows = torch.randint(0, len(x_train), (64,))
    optimizer.zero_grad()
    loss = objective(params, x_train[rows], y_train[rows])
    loss.backward()
    optimizer.step()
    if step % 60 == 59:
        with torch.no_grad():
            out = mixture(params, x_val)
            acc = (out.argmax(1) == y_val).float().mean().item()
            conf = out.max(1).values.mean().item()
            held = objective(params, x_val, y_val).item()
        print(f"step {step + 1} train {loss.item():.3f} val {held:.3f} acc {acc:.3f} confidence {conf:.3f}")
