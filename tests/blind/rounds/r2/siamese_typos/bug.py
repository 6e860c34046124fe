import random, os

import torch
import torch.nn as nn
import torch.nn.functional as F

SEED = 18
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def misspell(name, rng):
    chars = list(name)
    for _ in range(2):
        i = rng.randrange(len(chars))
        kind = rng.randrange(3)
        if kind == 0:
            chars[i] = rng.choice(LETTERS)
        elif kind == 1:
            chars.insert(i, rng.choice(LETTERS))
        elif len(chars) > 3:
            del chars[i]
    return "".join(chars)


def trigram_bag(name, buckets=1500):
    padded = f"^{name}$"
    v = torch.zeros(buckets)
    for n in (2, 3):
        for i in range(len(padded) - n + 1):
            h = 0
            for c in padded[i:i + n]:
                h = h * 31 + ord(c)
            v[h % buckets] += 1.0
    return v


def make_pairs(names, count, rng):
    left, right, same = [], [], []
    for k in range(count):
        a = rng.choice(names)
        match = k % 2
        b = misspell(a, rng) if match else misspell(rng.choice([n for n in rng.sample(names, 3) if n != a]), rng)
        left.append(trigram_bag(a))
        right.append(trigram_bag(b))
        same.append(float(match))
    return torch.stack(left), torch.stack(right), torch.tensor(same)


class Siamese(nn.Module):
    def __init__(self, buckets=1500, dim=24):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(buckets, 64), nn.ReLU(), nn.Linear(64, dim))

    def forward(self, a, b):
        return F.pairwise_distance(self.net(a), self.net(b))


def contrastive(dist, same, margin=1.0):
    return (same * F.relu(margin - dist).pow(2) + (1 - same) * dist.pow(2)).mean()


@torch.no_grad()
def auc(model, a, b, same):
    model.eval()
    score = -model(a, b)
    pos, neg = score[same == 1], score[same == 0]
    return (pos[:, None] > neg[None, :]).float().mean().item()


def main():
    rng = random.Random(SEED)
    torch.manual_seed(SEED)
    names = [n for n in open(os.environ["TRUELOOP_DATA"] + "/names/names.txt").read().split() if len(n) > 4]
    rng.shuffle(names)
    a, b, same = make_pairs(names[:3000], 2400, rng)
    va, vb, vsame = make_pairs(names[3000:4000], 600, rng)
    model = Siamese()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(3):
        model.train()
        losses = []
        for idx in torch.randperm(len(a)).split(60):
            loss = contrastive(model(a[idx], b[idx]), same[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        print(f"epoch {epoch} loss {sum(losses) / len(losses):.4f} verification AUC {auc(model, va, vb, vsame):.3f}")


main()
