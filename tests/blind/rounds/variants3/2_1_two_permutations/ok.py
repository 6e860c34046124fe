import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, Subset

torch.manual_seed(5)
SIDE = 16


class Discs(Dataset):
    def __init__(self, n):
        grid = torch.arange(SIDE).float()
        gy, gx = torch.meshgrid(grid, grid, indexing="ij")
        c = torch.rand(n, 2, 1, 1) * (SIDE - 6) + 3
        r = torch.rand(n, 1, 1) * 3 + 2
        inside = (gy - c[:, 0]) ** 2 + (gx - c[:, 1]) ** 2 < r ** 2
        self.mask = inside.float().unsqueeze(1)
        self.image = self.mask + 0.8 * torch.randn(n, 1, SIDE, SIDE)

    def __len__(self):
        return len(self.image)

    def __getitem__(self, i):
        return self.image[i], self.mask[i]


def dice(logits, mask):
    hard = (logits > 0).float()
    return (2 * (hard * mask).sum((1, 2, 3)) + 1) / (hard.sum((1, 2, 3)) + mask.sum((1, 2, 3)) + 1)


data = Discs(500)
n_train = 400
order = torch.randperm(len(data)).tolist()
fit_part = Subset(data, order[:n_train])
held_part = Subset(data, order[n_train:])
fit_dl = DataLoader(fit_part, batch_size=40, shuffle=True)
held_dl = DataLoader(held_part, batch_size=50)

net = nn.Sequential(
    nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(),
    nn.Conv2d(16, 16, 3, padding=2, dilation=2), nn.ReLU(),
    nn.Conv2d(16, 1, 3, padding=1),
)
opt = torch.optim.Adam(net.parameters(), lr=4e-3)

for epoch in range(12):
    net.train()
    seen, total = 0, 0.0
    for image, mask in fit_dl:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = net(image)
        loss = F.binary_cross_entropy_with_logits(logits.float(), mask)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(image)
        seen += len(image)
    net.eval()
    with torch.no_grad():
        scores = torch.cat([dice(net(image), mask) for image, mask in held_dl])
    print(f"epoch {epoch:2d}  loss {total / seen:.4f}  held-out dice {scores.mean():.4f}")
