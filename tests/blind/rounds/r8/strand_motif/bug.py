"""Transcription-factor binding from DNA sequence. Training peaks are oriented to the gene;
the genome scan that is used for validation sees sites on both strands."""
import argparse
import numpy as np
import torch
from torch import nn

ALPHABET = "ACGT"
PWM = np.array([  # A    C    G    T
    [.90, .03, .04, .03], [.03, .03, .91, .03], [.05, .05, .85, .05], [.04, .03, .03, .90],
    [.03, .91, .03, .03], [.90, .04, .03, .03], [.30, .10, .50, .10], [.04, .03, .90, .03],
    [.03, .03, .91, .03], [.90, .03, .03, .04],
])
PWM = PWM / PWM.sum(1, keepdims=True)


def sample_site(rng):
    return np.array([rng.choice(4, p=p) for p in PWM])


def make_set(n, length, rng, both_strands):
    seqs = rng.integers(0, 4, size=(n, length))
    labels = rng.integers(0, 2, size=n)
    for i in np.flatnonzero(labels):
        at = rng.integers(0, length - len(PWM))
        seqs[i, at:at + len(PWM)] = sample_site(rng)
        if both_strands and rng.random() < 0.5:
            seqs[i] = 3 - seqs[i][::-1]
    x = np.eye(4, dtype=np.float32)[seqs].transpose(0, 2, 1).copy()
    return torch.from_numpy(x), torch.from_numpy(labels.astype(np.float32))


def reverse_complement(x):
    """x: (batch, 4, length), channels ordered A, C, G, T."""
    return x.flip(2)


class MotifNet(nn.Module):
    def __init__(self, filters=24, width=12, p_drop=0.2):
        super().__init__()
        self.conv = nn.Conv1d(4, filters, width)
        self.drop = nn.Dropout(p_drop)
        self.out = nn.Sequential(nn.Linear(filters, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        h = torch.relu(self.conv(x)).amax(dim=2)
        return self.out(self.drop(h)).squeeze(1)


def auroc(scores, labels):
    order = scores.argsort()
    ranks = torch.empty_like(scores)
    ranks[order] = torch.arange(1, len(scores) + 1, dtype=scores.dtype)
    pos = labels.sum()
    neg = len(labels) - pos
    return ((ranks[labels == 1].sum() - pos * (pos + 1) / 2) / (pos * neg)).item()


@torch.no_grad()
def validate(model, x, y):
    model.eval()
    logits = model(x)
    loss = nn.functional.binary_cross_entropy_with_logits(logits, y).item()
    return loss, ((logits > 0) == (y > 0.5)).float().mean().item(), auroc(logits, y)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=10)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--lr", type=float, default=4e-3)
    ap.add_argument("--seed", type=int, default=3)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    x_tr, y_tr = make_set(4000, 80, rng, both_strands=False)
    x_va, y_va = make_set(1000, 80, rng, both_strands=True)

    model = MotifNet()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs, eta_min=1e-4)
    for epoch in range(args.epochs):
        model.train()
        perm = torch.randperm(len(x_tr))
        total = 0.0
        for k in range(0, len(perm), args.batch):
            idx = perm[k:k + args.batch]
            xb, yb = x_tr[idx], y_tr[idx]
            swap = torch.rand(len(xb)) < 0.5
            xb = torch.where(swap[:, None, None], reverse_complement(xb), xb)
            loss = nn.functional.binary_cross_entropy_with_logits(model(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        sched.step()
        vl, acc, auc = validate(model, x_va, y_va)
        print(f"epoch {epoch:2d} train {total / len(x_tr):.4f} val {vl:.4f} acc {acc:.3f} auroc {auc:.3f}")


if __name__ == "__main__":
    main()
