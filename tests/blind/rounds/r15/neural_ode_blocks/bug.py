import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class VectorField(nn.Module):
    """dx/dt for one stretch of time; the time is appended to the state."""

    def __init__(self, dim, hidden):
        super().__init__()
        self.inner = nn.Linear(dim + 1, hidden)
        self.outer = nn.Linear(hidden, dim)

    def forward(self, t, x):
        tt = torch.full((x.shape[0], 1), t)
        return self.outer(torch.tanh(self.inner(torch.cat([x, tt], dim=1))))


class EulerFlow(nn.Module):
    def __init__(self, dim=3, hidden=24, pieces=4, steps_per_piece=4):
        super().__init__()
        self.dim = dim
        self.fields = [VectorField(dim, hidden) for _ in range(pieces)]
        self.steps = steps_per_piece
        self.readout = nn.Linear(dim, 3)

    def forward(self, x):
        x = F.pad(x, (0, self.dim - x.shape[1]))
        h = 1.0 / (len(self.fields) * self.steps)
        t = 0.0
        for field in self.fields:
            for _ in range(self.steps):
                x = x + 3.0 * h * field(t, x)
                t += h
        return self.readout(x)


def spirals(n, gen):
    """three arms"""
    arm = torch.randint(0, 3, (n,), generator=gen)
    r = torch.rand(n, generator=gen) * 1.6 + 0.2
    phi = 2.2 * r + arm * (2 * math.pi / 3)
    xy = torch.stack([r * phi.cos(), r * phi.sin()], 1)
    return xy + 0.05 * torch.randn(n, 2, generator=gen), arm


def accuracy(model, x, y):
    model.eval()
    with torch.no_grad():
        hits = (model(x).argmax(1) == y).float().mean().item()
    model.train()
    return hits


def main():
    torch.manual_seed(11)
    gen = torch.Generator().manual_seed(4)
    x_train, y_train = spirals(900, gen)
    x_test, y_test = spirals(900, gen)
    model = EulerFlow()
    optimiser = torch.optim.AdamW(model.parameters(), lr=6e-3, weight_decay=1e-4)
    for epoch in range(30):
        order = torch.randperm(len(x_train), generator=gen)
        running = 0.0
        for chunk in order.split(90):
            optimiser.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(x_train[chunk]), y_train[chunk])
            loss.backward()
            optimiser.step()
            running += loss.item() * len(chunk)
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1:3d} loss {running / len(x_train):.3f} "
                  f"test {accuracy(model, x_test, y_test):.3f}")
    print("test accuracy", round(accuracy(model, x_test, y_test), 4))


main()
