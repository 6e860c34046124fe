import os
import gzip
import math
import numpy as np
import torch
from torch import nn

DATA = os.environ["TRUELOOP_DATA"] + "/fashion-mnist/train-images-idx3-ubyte.gz"
SIGMA = 0.25
STEPS = 300
BATCH = 12
PATCH = 16
SEED = 1234

with gzip.open(DATA) as fh:
    fh.read(16)
    img = np.frombuffer(fh.read(1360 * 784), dtype=np.uint8).reshape(-1, 1, 28, 28)
img = torch.from_numpy(img.astype(np.float32) / 255)
train, val, test = img[:1200], img[1200:1240], img[1240:1340]


class DnCNN(nn.Module):
    def __init__(self, width=14, depth=3):
        super().__init__()
        layers = [nn.Conv2d(1, width, 3, padding=1), nn.ReLU()]
        for _ in range(depth - 2):
            layers += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
        layers += [nn.Conv2d(width, 1, 3, padding=1)]
        self.body = nn.Sequential(*layers)

    def forward(self, x):
        return x - self.body(x)


def charbonnier(a, b, eps=1e-3):
    return torch.sqrt((a - b) ** 2 + eps ** 2).mean()


def psnr(a, b):
    mse = ((a - b) ** 2).mean(dim=(1, 2, 3))
    return (-10 * torch.log10(mse)).mean().item()


def degrade(clean, gen):
    return clean + SIGMA * torch.randn(clean.shape, generator=gen)


def random_patch(*stacks):
    top, left = torch.randint(0, 28 - PATCH + 1, (2,)).tolist()
    flip_h, flip_v = torch.rand(2) < 0.5
    dims = [d for d, f in ((2, flip_v), (3, flip_h)) if f]
    return [s[:, :, top:top + PATCH, left:left + PATCH].flip(dims) for s in stacks]


torch.manual_seed(SEED)
val_noisy = degrade(val, torch.Generator().manual_seed(SEED + 1))
test_noisy = degrade(test, torch.Generator().manual_seed(SEED + 2))
net = DnCNN()
optim = torch.optim.Adam(net.parameters(), lr=2e-3)
sched = torch.optim.lr_scheduler.OneCycleLR(optim, max_lr=4e-3, total_steps=STEPS)
gen = torch.Generator().manual_seed(SEED)

best, best_state = -math.inf, None
avg = 0.0
for step in range(1, STEPS + 1):
    net.train()
    pick = torch.randint(0, len(train), (BATCH,))
    clean = train[pick]
    noisy = degrade(clean, gen)
    noisy, clean = random_patch(noisy, clean)
    out = net(noisy)
    loss = charbonnier(out, clean)
    optim.zero_grad(set_to_none=True)
    loss.backward()
    optim.step()
    sched.step()
    avg += loss.item()
    if step % 50 == 0:
        net.eval()
        with torch.no_grad():
            p = psnr(net(val_noisy), val)
        if p > best:
            best, best_state = p, {k: v.detach().clone() for k, v in net.state_dict().items()}
        print(f"step {step:4d} train {avg / 50:.4f} val PSNR {p:.2f} dB")
        avg = 0.0

net.load_state_dict(best_state)
net.eval()
with torch.no_grad():
    restored = net(test_noisy)
print(f"test PSNR noisy {psnr(test_noisy, test):.2f} dB -> restored {psnr(restored, test):.2f} dB")
