import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset, random_split

WORDS = ["up", "down", "go", "stop", "left", "right"]
BANDS, FRAMES = 16, 40


class KeywordClips(Dataset):
    def __init__(self, mels, labels, augment=True):
        self.mels, self.labels, self.augment = mels, labels, augment

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        mel = self.mels[i]
        if self.augment:
            mel = torch.roll(mel, int(torch.randint(-10, 11, (1,))), dims=1)
            mel = mel + 0.3 * torch.randn_like(mel)
        return mel, self.labels[i]


def record(n_per_word, seed):
    rng = np.random.default_rng(seed)
    shapes = np.random.default_rng(100).normal(0, 1, (len(WORDS), BANDS, 12))
    mels, labels = [], []
    for w in range(len(WORDS)):
        for _ in range(n_per_word):
            mel = rng.normal(0, 1.0, (BANDS, FRAMES))
            onset = rng.integers(4, FRAMES - 16)
            mel[:, onset:onset + 12] += shapes[w] * rng.uniform(0.8, 1.4)
            mels.append(mel)
            labels.append(w)
    return torch.tensor(np.array(mels), dtype=torch.float32), torch.tensor(labels)


class Spotter(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(BANDS * FRAMES, 128), nn.ReLU(), nn.Dropout(0.2),
                                 nn.Linear(128, len(WORDS)))

    def forward(self, x):
        return self.net(x)


def run_epoch(model, loader, opt=None):
    model.train(opt is not None)
    loss_sum = hits = n = 0
    with torch.set_grad_enabled(opt is not None):
        for x, y in loader:
            logits = model(x)
            loss = nn.functional.cross_entropy(logits, y)
            if opt is not None:
                opt.zero_grad()
                loss.backward()
                opt.step()
            loss_sum += loss.item() * len(y)
            hits += (logits.argmax(1) == y).sum().item()
            n += len(y)
    return loss_sum / n, hits / n


def main():
    torch.manual_seed(8)
    mels, labels = record(60, seed=8)
    split = torch.Generator().manual_seed(8)
    train_set, val_set = random_split(KeywordClips(mels, labels), [260, 100], generator=split)
    val_set.dataset.augment = False
    train_loader = DataLoader(train_set, batch_size=20, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=100)
    model = Spotter()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4)
    for epoch in range(1, 41):
        train_loss, train_acc = run_epoch(model, train_loader, opt)
        val_loss, val_acc = run_epoch(model, val_loader)
        if epoch % 8 == 0:
            print(f"epoch {epoch} train loss {train_loss:.3f} acc {train_acc:.3f} | val loss {val_loss:.3f} acc {val_acc:.3f}")


main()
