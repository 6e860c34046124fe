import copy, os
import gzip
import json
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

hp = json.load(open(f"{sys.argv[1]}/hparams.json"))
torch.manual_seed(hp["seed"])


def load(split, n):
    with gzip.open(os.environ["TRUELOOP_DATA"] + f"/mnist/{split}-images-idx3-ubyte.gz") as f:
        x = np.frombuffer(f.read(16 + 784 * n)[16:], np.uint8).reshape(n, 1, 28, 28).astype(np.float32)
    return F.avg_pool2d(torch.from_numpy(x) / 255, 2) * 2 - 1


class Denoiser(nn.Module):
    """predicts the clean image from a noisy one and the noise level"""

    def __init__(self, hidden):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(197, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 196))

    def forward(self, x, sigma):
        h = torch.cat([x.flatten(1), sigma.log()[:, None]], 1)
        return self.net(h).view_as(x)


class Ema:
    def __init__(self, model, decay):
        self.decay = decay
        self.model = copy.deepcopy(model).eval().requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for e, p in zip(self.model.parameters(), model.parameters()):
            e.lerp_(p, 1 - self.decay)


def corrupt(x, gen=None):
    sigma = torch.exp(torch.rand(len(x), generator=gen) * 2 - 1.5)
    noise = torch.randn(x.shape, generator=gen)
    return x + sigma[:, None, None, None] * noise, sigma


@torch.no_grad()
def evaluate(model, x):
    model.eval()
    noisy, sigma = corrupt(x, torch.Generator().manual_seed(9))
    return F.mse_loss(model(noisy, sigma), x).item()


train_x, val_x = load("train", 3000), load("t10k", 600)
model = Denoiser(hp["hidden"])
ema = Ema(model, hp["ema_decay"])
optimizer = torch.optim.Adam(model.parameters(), lr=hp["lr"])
running = 0.0
for step in range(1, hp["steps"] + 1):
    model.train()
    x = train_x[torch.randint(0, len(train_x), (hp["batch"],))]
    noisy, sigma = corrupt(x)
    loss = F.mse_loss(model(noisy, sigma), x)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    ema.update(model)
    running += loss.item()
    if step % 100 == 0:
        print(f"step {step} train mse {running / 100:.4f} val mse {evaluate(model, val_x):.4f}")
        running = 0.0
print(f"released EMA weights: val mse {evaluate(ema.model, val_x):.4f} (raw weights {evaluate(model, val_x):.4f})")
