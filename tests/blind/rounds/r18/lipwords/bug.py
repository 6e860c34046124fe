# Word recognition from lip landmarks (mouth width, opening, protrusion, ...), attention pooling over time.
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

VISEMES = {
    "sil": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0], "p": [0.0, -1.0, -1.0, 0.1, -0.3, -1.0],
    "f": [0.2, -0.6, -0.3, 0.0, -0.1, 0.9], "t": [0.3, -0.1, 0.1, 0.0, 0.1, 0.6],
    "w": [-1.0, -0.3, -0.1, 1.1, 0.0, -0.8], "a": [0.3, 1.3, 1.1, 0.0, 1.2, 0.2],
    "e": [1.0, 0.4, 0.3, -0.3, 0.3, 0.7], "o": [-0.6, 0.7, 0.6, 0.8, 0.6, -0.4],
}
WORDS = [("map", "pap"), ("ten", "tet"), ("pat", "pat"), ("tape", "tap"), ("foot", "fot"),
         ("tough", "taf"), ("wet", "wet"), ("wharf", "waf"), ("peep", "pep"), ("pope", "pop")]


class Clips(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.items = []
        for _ in range(n):
            k = int(rng.integers(len(WORDS)))
            keys = ["sil"] + list(WORDS[k][1]) + ["sil"]
            T = int(rng.integers(16, 41))
            cuts = np.sort(rng.uniform(0.12, 0.88, len(keys) - 2))
            cuts = 0.5 * cuts + 0.5 * np.linspace(0.2, 0.8, len(keys) - 2)
            anchors = np.concatenate([[0], cuts, [1]])
            target = np.array([VISEMES[v] for v in keys])
            t = np.linspace(0, 1, T)
            speaker = rng.normal(1.0, 0.15, 6)
            offset = rng.normal(0, 0.15, 6)
            seq = np.stack([np.interp(t, anchors, target[:, d]) for d in range(6)], 1) * speaker + offset
            seq += rng.normal(0, 0.25, seq.shape)
            self.items.append((torch.tensor(seq, dtype=torch.float32), k))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    T = max(s.size(0) for s, _ in batch)
    x = torch.zeros(len(batch), T, 6)
    mask = torch.zeros(len(batch), T, dtype=torch.bool)
    for i, (s, _) in enumerate(batch):
        x[i, : s.size(0)] = s
        mask[i, : s.size(0)] = True
    return x, mask, torch.tensor([k for _, k in batch])


class LipNet(nn.Module):
    def __init__(self, d=40, n_classes=len(WORDS)):
        super().__init__()
        self.conv1 = nn.Conv1d(6, d, 5, padding=2)
        self.conv2 = nn.Conv1d(d, d, 5, padding=4, dilation=2)
        self.conv3 = nn.Conv1d(d, d, 5, padding=8, dilation=4)
        self.score = nn.Linear(d, 4)
        self.out = nn.Linear(4 * d, n_classes)

    def forward(self, x, mask):
        h = x.reshape(x.size(0), 6, -1)
        h = torch.relu(self.conv1(h))
        h = torch.relu(self.conv2(h)) + h
        h = (torch.relu(self.conv3(h)) + h).transpose(1, 2)
        s = self.score(h).masked_fill(~mask.unsqueeze(-1), -1e9)
        a = torch.softmax(s, dim=1)
        return self.out(torch.einsum("btk,btd->bkd", a, h).flatten(1))


def evaluate(net, loader):
    net.eval()
    hit = n = 0
    with torch.no_grad():
        for x, m, y in loader:
            hit += (net(x, m).argmax(1) == y).sum().item()
            n += len(y)
    return hit / n


def main():
    torch.manual_seed(5)
    train = DataLoader(Clips(1600, 1), batch_size=32, shuffle=True, collate_fn=collate,
                       generator=torch.Generator().manual_seed(2))
    test = DataLoader(Clips(400, 2), batch_size=1, collate_fn=collate)
    net = LipNet()
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    lossf = nn.CrossEntropyLoss()
    for ep in range(7):
        net.train()
        run = []
        for x, m, y in train:
            loss = lossf(net(x, m), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 5.0)
            opt.step()
            run.append(loss.item())
        print(f"[{ep}] loss {np.mean(run):.3f}")
    print(f"word accuracy on held-out clips: {evaluate(net, test):.3f}")


if __name__ == "__main__":
    main()
