import argparse
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

ALPHABET = "ACGT"
MOTIF = "GATTGC"
COMPLEMENT = {"A": "T", "C": "G", "G": "C", "T": "A"}


def revcomp_string(s):
    return "".join(COMPLEMENT[c] for c in reversed(s))


def simulate(n, length, seed, both_strands):
    rng = np.random.default_rng(seed)
    seqs, labels = [], []
    for i in range(n):
        s = "".join(rng.choice(list(ALPHABET), length))
        y = int(rng.random() < 0.5)
        if y:
            m = "".join(c if rng.random() < 0.93 else rng.choice(list(ALPHABET)) for c in MOTIF)
            if both_strands and rng.random() < 0.5:
                m = revcomp_string(m)
            p = rng.integers(0, length - len(m))
            s = s[:p] + m + s[p + len(m):]
        seqs.append(s)
        labels.append(y)
    return seqs, labels


def one_hot(seqs):
    codes = np.array([[ALPHABET.index(c) for c in s] for s in seqs])
    return torch.from_numpy(np.eye(4, dtype=np.float32)[codes]).transpose(1, 2)


def augment(x):
    """Replace half of the batch by its reverse complement. x: (B, 4, L), channels A C G T."""
    flip = torch.rand(len(x)) < 0.5
    x = x.clone()
    x[flip] = x[flip].flip(1, 2)
    return x


class BindingNet(nn.Module):
    def __init__(self, filters=24):
        super().__init__()
        self.conv = nn.Conv1d(4, filters, 8, padding=4)
        self.fc = nn.Linear(filters, 1)

    def forward(self, x):
        h = F.relu(self.conv(x)).amax(2)
        return self.fc(h).squeeze(1)


@torch.no_grad()
def auroc(model, x, y):
    model.eval()
    s = model(x)
    pos, neg = s[y == 1], s[y == 0]
    return (pos[:, None] > neg[None, :]).float().mean().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=15)
    p.add_argument("--batch", type=int, default=50)
    p.add_argument("--lr", type=float, default=8e-3)
    args = p.parse_args()
    torch.manual_seed(0)
    seqs, labels = simulate(1500, 40, 1, both_strands=False)
    x, y = one_hot(seqs), torch.tensor(labels, dtype=torch.float32)
    seqs, labels = simulate(600, 40, 2, both_strands=True)
    xv, yv = one_hot(seqs), torch.tensor(labels)
    model = BindingNet()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        model.train()
        losses = []
        for idx in torch.randperm(len(x)).split(args.batch):
            loss = F.binary_cross_entropy_with_logits(model(augment(x[idx])), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        print(f"epoch {epoch:2d} loss {np.mean(losses):.4f} val AUROC (both strands) {auroc(model, xv, yv):.4f}")


if __name__ == "__main__":
    main()
