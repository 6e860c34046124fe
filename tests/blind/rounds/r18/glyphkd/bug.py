"""Distil a wide glyph classifier into a tiny one. Teacher logits are computed once and kept."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

S, K = 12, 10
GLYPHS = ["01110 10001 10011 10101 11001 10001 01110", "00100 01100 00100 00100 00100 00100 01110",
          "01110 10001 00001 00110 01000 10000 11111", "11110 00001 00001 01110 00001 00001 11110",
          "00010 00110 01010 10010 11111 00010 00010", "11111 10000 11110 00001 00001 10001 01110",
          "00110 01000 10000 11110 10001 10001 01110", "11111 00001 00010 00100 01000 01000 01000",
          "01110 10001 10001 01110 10001 10001 01110", "01110 10001 10001 01111 00001 00010 01100"]


def render(n, gen):
    proto = torch.tensor([[[float(c) for c in row] for row in g.split()] for g in GLYPHS])
    y = torch.randint(K, (n,), generator=gen)
    img = torch.zeros(n, S, S)
    dx = torch.randint(0, S - 5 + 1, (n,), generator=gen).clamp(3, 5)
    dy = torch.randint(0, S - 7 + 1, (n,), generator=gen).clamp(2, 4)
    for i in range(n):
        img[i, dy[i]:dy[i] + 7, dx[i]:dx[i] + 5] = proto[y[i]] * (0.7 + 0.3 * torch.rand(1, generator=gen))
    img = F.avg_pool2d(F.pad(img[:, None], (1, 1, 1, 1)), 2, 1)[:, 0, :S, :S]
    return (img + 0.15 * torch.randn(img.shape, generator=gen)).flatten(1), y


def mlp(*w):
    layers = []
    for a, b in zip(w[:-2], w[1:-1]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(w[-2], w[-1]))


def accuracy(net, x, y):
    with torch.no_grad():
        return (net(x).argmax(1) == y).float().mean().item()


gen = torch.Generator().manual_seed(8)
torch.manual_seed(8)
x, y = render(6000, gen)
xt, yt = render(2000, gen)
y_noisy = torch.where(torch.rand(len(y), generator=gen) < 0.25, torch.randint(K, y.shape, generator=gen), y)

teacher = mlp(S * S, 256, 128, K)
opt = torch.optim.AdamW(teacher.parameters(), lr=1e-3, weight_decay=0.05)
for ep in range(6):
    for idx in torch.randperm(len(x)).split(64):
        loss = F.cross_entropy(teacher(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
print(f"teacher accuracy {accuracy(teacher, xt, yt):.3f}")

TEMP, ALPHA, BATCH = 2.0, 0.7, 64
teacher.eval()
loader = DataLoader(TensorDataset(x, y_noisy), batch_size=BATCH, shuffle=True, generator=torch.Generator().manual_seed(1))
with torch.no_grad():
    kept = [teacher(xb) for xb, _ in loader]

student = mlp(S * S, 32, K)
opt = torch.optim.Adam(student.parameters(), lr=3e-3)
for ep in range(8):
    total = 0.0
    for i, (xb, yb) in enumerate(loader):
        out = student(xb)
        soft = F.kl_div(F.log_softmax(out / TEMP, 1), F.softmax(kept[i] / TEMP, 1), reduction="batchmean") * TEMP ** 2
        loss = ALPHA * soft + (1 - ALPHA) * F.cross_entropy(out, yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    print(f"student epoch {ep} loss {total / len(loader):.3f}")
print(f"student accuracy {accuracy(student, xt, yt):.3f}")
