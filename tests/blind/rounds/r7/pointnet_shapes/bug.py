"""Small PointNet for classifying sampled 3D shapes."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

SHAPES = ("sphere", "cube", "cylinder", "cone", "torus")
N_POINTS = 128
torch.manual_seed(21)


def sample_shape(name, n, g):
    u, v = torch.rand(n, generator=g), torch.rand(n, generator=g)
    phi = 2 * math.pi * u
    if name == "sphere":
        p = F.normalize(torch.randn(n, 3, generator=g), dim=1)
    elif name == "cube":
        p = torch.rand(n, 3, generator=g) * 2 - 1
        face = torch.randint(0, 3, (n,), generator=g)
        p[torch.arange(n), face] = torch.randint(0, 2, (n,), generator=g).float() * 2 - 1
    elif name == "cylinder":
        p = torch.stack([torch.cos(phi), torch.sin(phi), 2 * v - 1], 1)
    elif name == "cone":
        r = v.sqrt()
        p = torch.stack([r * torch.cos(phi), r * torch.sin(phi), 1 - 2 * r], 1)
    else:
        theta = 2 * math.pi * v
        p = torch.stack([(1 + 0.35 * torch.cos(theta)) * torch.cos(phi),
                         (1 + 0.35 * torch.cos(theta)) * torch.sin(phi), 0.35 * torch.sin(theta)], 1)
    yaw = 2 * math.pi * torch.rand(1, generator=g).item()
    c, s = math.cos(yaw), math.sin(yaw)
    turn = torch.tensor([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    p = (p * (0.8 + 0.4 * torch.rand(3, generator=g))) @ turn
    p = p + 0.03 * torch.randn(n, 3, generator=g)
    p = p - p.mean(0)
    return p / p.norm(dim=1).max()


def make_set(per_class, seed):
    g = torch.Generator().manual_seed(seed)
    clouds = torch.stack([sample_shape(s, N_POINTS, g) for s in SHAPES for _ in range(per_class)])
    labels = torch.arange(len(SHAPES)).repeat_interleave(per_class)
    return clouds, labels


class PointNet(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Conv1d(3, 32, 1), nn.BatchNorm1d(32), nn.ReLU(),
            nn.Conv1d(32, width, 1), nn.BatchNorm1d(width),
        )
        self.head = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, len(SHAPES)))

    def forward(self, clouds):
        feats = self.mlp(clouds.transpose(1, 2))
        return self.head(feats.max(dim=1).values)


def accuracy(model, clouds, labels):
    model.eval()
    with torch.no_grad():
        return (model(clouds).argmax(1) == labels).float().mean().item()


train_x, train_y = make_set(100, seed=1)
test_x, test_y = make_set(60, seed=2)
model = PointNet()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
sched = torch.optim.lr_scheduler.StepLR(opt, step_size=6, gamma=0.5)

for epoch in range(17):
    model.train()
    order = torch.randperm(len(train_x))
    losses = []
    for batch in order.split(30):
        loss = F.cross_entropy(model(train_x[batch]), train_y[batch])
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    sched.step()
    if epoch % 3 == 1:
        print(f"epoch {epoch:2d} loss {sum(losses) / len(losses):.3f} test acc {accuracy(model, test_x, test_y):.3f}")
