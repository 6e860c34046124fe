import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(21)
SIZE = 20


def scenes(n):
    img = 0.2 * torch.randn(n, 1, SIZE, SIZE)
    label = torch.randint(0, 2, (n,))
    centre = torch.randint(4, SIZE - 4, (n, 2))
    half = torch.randint(2, 5, (n,))
    for k in range(n):
        (r, c), h = centre[k].tolist(), half[k].item()
        r0, r1, c0, c1 = max(r - h, 0), r + h, max(c - h, 0), c + h
        if label[k]:
            img[k, 0, r0:r1, c0:c1] += 1.0
        else:
            img[k, 0, r0:r1:2, c0:c1] += 1.5
    box = torch.cat([centre.float(), half[:, None].float()], 1) / SIZE
    return img, label, box


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 12, 3, 2, 1), nn.ReLU(), nn.Conv2d(12, 24, 3, 2, 1), nn.ReLU(), nn.Flatten())
        self.cls = nn.Linear(24 * 25, 2)
        self.box = nn.Sequential(nn.Linear(24 * 25, 48), nn.ReLU(), nn.Linear(48, 3))

    def forward(self, x):
        f = self.body(x)
        return self.cls(f), self.box(f)


def losses(out, label, box):
    parts = {"cls": F.cross_entropy(out[0], label), "box": 10 * F.smooth_l1_loss(out[1], box, beta=0.1)}
    parts["total"] = parts["cls"] + parts["box"]
    return parts


train, valid = scenes(1500), scenes(300)
net = Detector()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for epoch in range(8):
    net.train()
    log = []
    for idx in torch.randperm(1500).split(50):
        img, label, box = (t[idx] for t in train)
        parts = losses(net(img), label, box)
        opt.zero_grad()
        parts["total"].backward()
        opt.step()
        log.append(parts["total"].item())
    net.eval()
    with torch.no_grad():
        out = net(valid[0])
        v = losses(out, valid[1], valid[2])
        err = (out[1] - valid[2]).abs().mean().item() * SIZE
    acc = (out[0].argmax(1) == valid[1]).float().mean().item()
    print(f"epoch {epoch} train {sum(log) / len(log):.3f} valid {v['total']:.3f} acc {acc:.3f} box error {err:.2f} px")
