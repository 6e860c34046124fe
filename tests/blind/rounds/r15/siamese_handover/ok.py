"""Siamese pretraining of an encoder on pairs of key strokes, then a person classifier on top."""
import torch
import torch.nn as nn
import torch.nn.functional as F

PEOPLE, DIMS = 8, 24


def strokes(n, seed):
    fixed = torch.Generator().manual_seed(1234)
    centre = torch.randn(PEOPLE, 6, generator=fixed)
    lift = torch.randn(6, DIMS, generator=fixed)
    g = torch.Generator().manual_seed(seed)
    who = torch.randint(0, PEOPLE, (n,), generator=g)
    z = centre[who] + 0.45 * torch.randn(n, 6, generator=g)
    return torch.tanh(z @ lift / 2) + 0.3 * torch.randn(n, DIMS, generator=g), who


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(DIMS, 64), nn.ReLU(), nn.Linear(64, 16))
        self.head = nn.Linear(16, 16)

    def forward(self, x):
        return self.head(self.layers(x))


def contrastive(a, b, same, margin=1.0):
    dist = F.pairwise_distance(a, b)
    return torch.where(same, dist ** 2, F.relu(margin - dist) ** 2).mean()


def pretrain(enc, x, who, steps):
    opt = torch.optim.Adam(enc.parameters(), lr=2e-3)
    for step in range(steps):
        i, j = torch.randint(0, len(x), (2, 64))
        loss = contrastive(enc(x[i]), enc(x[j]), who[i] == who[j])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"pretraining done, pair loss {loss.item():.4f}")
    return enc


def finetune(enc, x, who, epochs):
    for p in enc.layers.parameters():
        p.requires_grad = False
    enc.head = nn.Linear(16, PEOPLE)
    opt = torch.optim.Adam([p for p in enc.parameters() if p.requires_grad], lr=1e-2)
    for epoch in range(epochs):
        order = torch.randperm(len(x))
        losses = []
        for part in order.split(50):
            opt.zero_grad()
            loss = F.cross_entropy(enc(x[part]), who[part])
            loss.backward()
            opt.step()
            losses.append(loss.item())
        if epoch % 5 == 0:
            print(f"fine-tune epoch {epoch}: {sum(losses) / len(losses):.4f}")
    return enc


def main():
    torch.manual_seed(6)
    x, who = strokes(1200, 1)
    x_few, who_few = strokes(300, 2)
    x_test, who_test = strokes(1000, 3)
    enc = pretrain(Encoder(), x, who, steps=500)
    enc = finetune(enc, x_few, who_few, epochs=20)
    with torch.no_grad():
        acc = (enc(x_test).argmax(1) == who_test).float().mean().item()
    print(f"accuracy on new strokes = {acc:.3f}")


main()
