"""Pawn race endgames: does the white pawn get through?  (K+P versus K, boards as 4 planes of 8x8)"""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(11)
N_TRAIN, N_TEST = 9000, 3000


def cheb(r1, f1, r2, f2):
    return torch.maximum((r1 - r2).abs(), (f1 - f2).abs())


def positions(n):
    pr = torch.randint(1, 7, (n,))
    pf = torch.randint(0, 8, (n,))
    wr, wf, br, bf = (torch.randint(0, 8, (n,)) for _ in range(4))
    stm = torch.randint(0, 2, (n,))          # 1: white to move
    legal = cheb(wr, wf, br, bf) > 1
    legal &= ~((wr == pr) & (wf == pf)) & ~((br == pr) & (bf == pf))
    pr, pf, wr, wf, br, bf, stm = (v[legal] for v in (pr, pf, wr, wf, br, bf, stm))
    m = pr.numel()
    moves = 7 - pr - (pr == 1).long()
    seven = torch.full_like(pr, 7)
    caught = cheb(br, bf, seven, pf) <= moves + (1 - stm)
    blocked = (bf == pf) & (br > pr)
    escorted = (cheb(wr, wf, seven, pf) <= 1) & (wf != pf) & (br < 6)
    win = (~caught & ~blocked) | escorted
    x = torch.zeros(m, 4, 8, 8)
    i = torch.arange(m)
    x[i, 0, pr, pf] = 1
    x[i, 1, wr, wf] = 1
    x[i, 2, br, bf] = 1
    x[:, 3] = stm.float().view(-1, 1, 1)
    return x, win.float()


def augment(x):
    """Mirror half of the boards (queen side <-> king side)."""
    m = torch.rand(x.size(0)) < 0.5
    x = x.clone()
    x[m] = x[m].flip(-2)
    return x


class Judge(nn.Module):
    def __init__(self, width=160):
        super().__init__()
        self.body = nn.Sequential(
            nn.Flatten(),
            nn.Linear(256, width), nn.ReLU(),
            nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, 1),
        )

    def forward(self, x):
        return self.body(x).squeeze(1)


@torch.no_grad()
def accuracy(net, x, y):
    net.eval()
    return ((net(x) > 0) == (y > 0.5)).float().mean().item()


xtr, ytr = positions(N_TRAIN)
xte, yte = positions(N_TEST)
print(f"{len(xtr)} train, {len(xte)} test, wins {ytr.mean():.2f}")

net = Judge()
opt = torch.optim.AdamW(net.parameters(), lr=1.5e-3, weight_decay=1e-2)
EPOCHS, BS = 14, 96
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, EPOCHS)
for ep in range(EPOCHS):
    net.train()
    perm = torch.randperm(len(xtr))
    total = 0.0
    for s in range(0, len(perm), BS):
        idx = perm[s:s + BS]
        xb, yb = augment(xtr[idx]), ytr[idx]
        loss = F.binary_cross_entropy_with_logits(net(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(idx)
    sched.step()
    if ep % 2 == 1:
        print(f"epoch {ep + 1:2d}  train loss {total / len(xtr):.4f}")
print(f"test accuracy {accuracy(net, xte, yte):.4f}")
