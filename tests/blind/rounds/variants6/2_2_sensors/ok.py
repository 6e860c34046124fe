import argparse

import numpy as np
import pandas as pd
import torch
from torch import autograd, nn, optim


def make_table(n, seed):
    rng = np.random.default_rng(seed)
    load = rng.beta(2, 3, n)
    regime = rng.random(n) < 0.3
    temp = 40 + 35 * load + 8 * regime + rng.normal(0, 1.5, n)
    vib = np.exp(-1.2 + 1.6 * load + 0.8 * regime + rng.normal(0, 0.15, n))
    current = 5 + 12 * load ** 1.5 + rng.normal(0, 0.4, n)
    pressure = 2.0 + 0.03 * temp - 0.9 * regime + rng.normal(0, 0.12, n)
    return pd.DataFrame(dict(load=load, temperature=temp, vibration=vib, current=current, pressure=pressure))


class Scaler:
    def fit(self, frame):
        self.mean, self.std = frame.mean(), frame.std()
        return self

    def __call__(self, frame):
        return torch.tensor(((frame - self.mean) / self.std).to_numpy(), dtype=torch.float32)


def block(i, o):
    return nn.Sequential(nn.Linear(i, o), nn.LeakyReLU(0.2))


def build(n_cols, z, width):
    gen = nn.Sequential(block(z, width), block(width, width), nn.Linear(width, n_cols))
    critic = nn.Sequential(block(n_cols, width), block(width, width), nn.Linear(width, 1))
    return gen, critic


def gradient_penalty(critic, real, fake):
    alpha = torch.rand(len(real), 1)
    mix = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    score = critic(mix)
    grads = autograd.grad(outputs=score, inputs=mix, grad_outputs=torch.ones_like(score), create_graph=True)[0]
    return ((grads.norm(2, dim=1) - 1) ** 2).mean()


def sliced_distance(a, b, projections=100):
    d = torch.randn(a.shape[1], projections, generator=torch.Generator().manual_seed(0))
    d = d / d.norm(dim=0)
    return ((a @ d).sort(0).values - (b @ d).sort(0).values).abs().mean().item()


def train(args):
    torch.manual_seed(args.seed)
    frame = make_table(6000, seed=args.seed)
    train_df, test_df = frame.iloc[:4500], frame.iloc[4500:]
    scale = Scaler().fit(train_df)
    x, x_test = scale(train_df), scale(test_df)
    gen, critic = build(x.shape[1], args.z, args.width)
    opt_g = optim.Adam(gen.parameters(), lr=args.lr, betas=(0.5, 0.9))
    opt_c = optim.Adam(critic.parameters(), lr=args.lr, betas=(0.5, 0.9))
    for it in range(args.iters):
        for opt in (opt_g, opt_c):
            opt.param_groups[0]["lr"] = args.lr * (1 - it / args.iters)
        for _ in range(args.n_critic):
            real = x[torch.randint(0, len(x), (args.batch,))]
            with torch.no_grad():
                fake = gen(torch.randn(args.batch, args.z))
            w = critic(real).mean() - critic(fake).mean()
            loss_c = -w + args.gp * gradient_penalty(critic, real, fake)
            opt_c.zero_grad()
            loss_c.backward()
            opt_c.step()
        loss_g = -critic(gen(torch.randn(args.batch, args.z))).mean()
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()
        if it % 90 == 0:
            print(f"{it:4d} wasserstein estimate {w.item():.3f}")
    with torch.no_grad():
        synth = gen(torch.randn(len(x_test), args.z))
    print(f"sliced distance to test table: {sliced_distance(synth, x_test):.4f}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--iters", type=int, default=450)
    ap.add_argument("--n-critic", type=int, default=3, dest="n_critic")
    ap.add_argument("--batch", type=int, default=128)
    ap.add_argument("--width", type=int, default=64)
    ap.add_argument("--z", type=int, default=8)
    ap.add_argument("--gp", type=float, default=2.0)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--seed", type=int, default=7)
    train(ap.parse_args())
