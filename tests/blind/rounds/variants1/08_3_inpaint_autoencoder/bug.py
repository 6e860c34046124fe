import math
import numpy as np
import torch
from torch import nn


def rate_at(step, total, warm, peak):
    if step < warm:
        return peak * (step + 1) / warm
    done = (step - warm) / max(1, total - warm)
    return 0.5 * peak * (1 + math.cos(math.pi * done))


def plaids(n, rng, side=12):
    u = np.linspace(0, 2 * np.pi, side)
    fx, fy = rng.integers(1, 3, (2, n, 1))
    px, py = rng.uniform(0, 2 * np.pi, (2, n, 1))
    img = np.sin(fx * u + px)[:, :, None] + np.sin(fy * u + py)[:, None, :]
    return torch.tensor(img.reshape(n, -1) / 2, dtype=torch.float32)


def hide(x, gen, share=0.3):
    keep = (torch.rand(x.shape, generator=gen) > share).float()
    return torch.cat([x * keep, keep], 1), keep


def masked_error(net, x, gen):
    seen, keep = hide(x, gen)
    lost = 1 - keep
    return ((net(seen) - x) ** 2 * lost).sum() / lost.sum()


def main():
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    gen = torch.Generator().manual_seed(1)
    train, held = plaids(2000, rng), plaids(300, rng)
    net = nn.Sequential(nn.Linear(288, 192), nn.ReLU(), nn.Linear(192, 192), nn.ReLU(), nn.Linear(192, 144))
    opt = torch.optim.SGD(net.parameters(), lr=0.0, momentum=0.9)
    epochs, batch = 12, 80
    per_epoch = len(train) // batch
    total = epochs * per_epoch
    for epoch in range(epochs):
        net.train()
        losses = []
        order = torch.randperm(len(train), generator=gen)
        for i, idx in enumerate(order.split(batch)):
            lr = rate_at(i, total, warm=total // 4, peak=0.6)
            for group in opt.param_groups:
                group["lr"] = lr
            loss = masked_error(net, train[idx], gen)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        net.eval()
        with torch.no_grad():
            check = masked_error(net, held, torch.Generator().manual_seed(5)).item()
        print(f"epoch {epoch:2d} train {np.mean(losses):.4f} held-out {check:.4f}")


if __name__ == "__main__":
    main()
