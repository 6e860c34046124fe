"""Density-map counting of people in small overhead crops."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SIDE, STRIDE, SIGMA = 32, 4, 1.5


def gaussians(points, side, sigma):
    """One bump per annotated head, (k, side, side)."""
    grid = torch.arange(side).float()
    gx = torch.exp(-(grid - points[:, :1]) ** 2 / (2 * sigma ** 2))
    gy = torch.exp(-(grid - points[:, 1:]) ** 2 / (2 * sigma ** 2))
    return gy[:, :, None] * gx[:, None, :]


class CrowdCrops(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.images, self.density, self.counts = [], [], []
        for _ in range(n):
            k = int(torch.randint(1, 25, (1,), generator=g))
            pts = torch.rand(k, 2, generator=g) * (SIDE - 1)
            img = 0.1 * torch.randn(SIDE, SIDE, generator=g)
            size = 1.0 + 0.6 * torch.rand(k, 1, generator=g)
            self.images.append(img + gaussians(pts, SIDE, size).sum(0))
            bumps = gaussians(pts, SIDE, SIGMA)
            self.density.append((bumps / bumps.sum(dim=(1, 2), keepdim=True)).sum(0))
            self.counts.append(k)
        self.images = torch.stack(self.images).unsqueeze(1)
        self.density = torch.stack(self.density).unsqueeze(1)
        self.counts = torch.tensor(self.counts).float()

    def __len__(self):
        return len(self.counts)

    def __getitem__(self, i):
        return self.images[i], self.density[i], self.counts[i]


class CountNet(nn.Module):
    """Output map at 1/STRIDE of the input resolution."""

    def __init__(self, ch=12):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, ch, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(ch, ch, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2),
            nn.Conv2d(ch, ch, 3, padding=1), nn.ReLU())
        self.head = nn.Conv2d(ch, 1, 1)

    def forward(self, x):
        return self.head(self.features(x))


def to_output_grid(density):
    return F.interpolate(density, scale_factor=1 / STRIDE, mode="area") * STRIDE ** 2


class Trainer:
    def __init__(self, net, train, valid, lr=4e-3, epochs=9):
        self.net, self.train_loader, self.valid_loader, self.epochs = net, train, valid, epochs
        self.opt = torch.optim.Adam(net.parameters(), lr=lr)
        self.sched = torch.optim.lr_scheduler.StepLR(self.opt, step_size=6, gamma=0.3)

    def fit(self):
        for epoch in range(1, self.epochs + 1):
            self.net.train()
            running = 0.0
            for img, dens, _ in self.train_loader:
                target = to_output_grid(dens)
                loss = (self.net(img) - target).pow(2).sum(dim=(1, 2, 3)).mean()
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                running += loss.item()
            self.sched.step()
            mae, rmse = self.evaluate()
            print(f"epoch {epoch:2d}  loss {running / len(self.train_loader):.4f}  val MAE {mae:.2f}  RMSE {rmse:.2f}")

    @torch.no_grad()
    def evaluate(self):
        self.net.eval()
        err = torch.cat([self.net(img).sum(dim=(1, 2, 3)) - count for img, _, count in self.valid_loader])
        return err.abs().mean().item(), err.pow(2).mean().sqrt().item()


def main():
    torch.manual_seed(11)
    train, valid = CrowdCrops(480, seed=1), CrowdCrops(160, seed=2)
    baseline = (valid.counts - train.counts.mean()).abs().mean().item()
    trainer = Trainer(CountNet(), DataLoader(train, batch_size=16, shuffle=True), DataLoader(valid, batch_size=80))
    trainer.fit()
    mae, rmse = trainer.evaluate()
    print(f"final MAE {mae:.2f}  RMSE {rmse:.2f}  (always the mean count: MAE {baseline:.2f})")


if __name__ == "__main__":
    main()
