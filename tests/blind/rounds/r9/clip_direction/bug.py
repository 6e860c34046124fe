"""Recognise the motion in short clips: per-frame CNN, GRU over time."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

FRAMES, SIZE = 16, 14
CLASSES = ["left", "right", "up", "down", "circle", "still"]


class MotionClips(Dataset):
    """A soft blob that moves over a noisy background."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.y = torch.arange(n) % len(CLASSES)
        start = torch.rand(n, 2, generator=g) * 4 + 5
        speed = torch.rand(n, generator=g) * 0.2 + 0.2
        phase = torch.rand(n, generator=g) * 6.283
        step = torch.arange(FRAMES).float() - FRAMES / 2
        dirs = torch.tensor([[-1.0, 0], [1, 0], [0, -1], [0, 1], [0, 0], [0, 0]])
        pos = start[:, None] + dirs[self.y][:, None] * (speed[:, None] * step)[..., None]
        ang = phase[:, None] + 0.5 * step
        circle = 2.5 * torch.stack([ang.cos(), ang.sin()], -1)
        pos = pos + circle * (self.y == 4).float()[:, None, None]
        grid = torch.arange(SIZE).float()
        dx = (grid - pos[..., :1]).pow(2)[:, :, None, :]
        dy = (grid - pos[..., 1:]).pow(2)[:, :, :, None]
        clean = torch.exp(-(dx + dy) / 3.0)
        self.x = (clean + 0.15 * torch.randn(clean.shape, generator=g)).unsqueeze(2)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class FrameEncoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(16 * 4 * 4, dim), nn.ReLU())

    def forward(self, x):
        return self.body(x)


class ClipNet(nn.Module):
    def __init__(self, dim=32, hidden=48):
        super().__init__()
        self.encoder = FrameEncoder(dim)
        self.rnn = nn.GRU(dim, hidden)
        self.head = nn.Linear(hidden, len(CLASSES))

    def forward(self, clips):
        b, t = clips.shape[:2]
        feats = self.encoder(clips.flatten(0, 1))
        feats = feats.view(t, b, -1)
        _, h = self.rnn(feats)
        return self.head(h[-1])


def run_epoch(net, loader, criterion, opt=None):
    net.train(opt is not None)
    loss_sum, hit, n = 0.0, 0, 0
    with torch.set_grad_enabled(opt is not None):
        for x, y in loader:
            logits = net(x)
            loss = criterion(logits, y)
            if opt is not None:
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 5.0)
                opt.step()
            loss_sum += loss.item() * len(y)
            hit += (logits.argmax(1) == y).sum().item()
            n += len(y)
    return loss_sum / n, hit / n


def main():
    torch.manual_seed(3)
    train = DataLoader(MotionClips(800, seed=0), batch_size=32, shuffle=True)
    valid = DataLoader(MotionClips(240, seed=1), batch_size=50)
    net = ClipNet()
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(1, 9):
        tl, ta = run_epoch(net, train, criterion, opt)
        vl, va = run_epoch(net, valid, criterion)
        print(f"epoch {epoch:2d}  train {tl:.3f}/{ta:.3f}  valid {vl:.3f}/{va:.3f}")
    print(f"final valid accuracy {va:.3f}")


if __name__ == "__main__":
    main()
