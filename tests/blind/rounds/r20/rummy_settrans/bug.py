# Set transformer that reads a gin rummy hand (any order, any size) and predicts the deadwood count.
import math
import random
from collections import Counter

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

PAD = 52
torch.manual_seed(11)


def pip(card):
    return min(card % 13 + 1, 10)


def deadwood(hand):
    ranks = Counter(c % 13 for c in hand)
    return sum(pip(c) for c in hand if ranks[c % 13] < 3)


def deal(rng):
    n = rng.randint(4, 10)
    deck = list(range(52))
    if rng.random() < 0.6:
        r = rng.randrange(13)
        trio = rng.sample([r + 13 * s for s in range(4)], 3)
        rest = [c for c in deck if c not in trio]
        hand = trio + rng.sample(rest, n - 3)
    else:
        hand = rng.sample(deck, n)
    rng.shuffle(hand)
    return hand


class Hands(Dataset):
    def __init__(self, n, seed):
        rng = random.Random(seed)
        self.hands = [deal(rng) for _ in range(n)]
        self.y = [deadwood(h) / 10.0 for h in self.hands]

    def __len__(self):
        return len(self.hands)

    def __getitem__(self, i):
        return torch.tensor(self.hands[i]), self.y[i]


def collate(batch):
    hands, ys = zip(*batch)
    x = nn.utils.rnn.pad_sequence(hands, batch_first=True, padding_value=PAD)
    return x, torch.tensor(ys)


class Attention(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.h = heads
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, query, items, pad):
        b, m, d = query.shape
        q = self.q(query).view(b, m, self.h, -1).transpose(1, 2)
        k, v = self.kv(items).chunk(2, dim=-1)
        k = k.view(b, -1, self.h, d // self.h).transpose(1, 2)
        v = v.view(b, -1, self.h, d // self.h).transpose(1, 2)
        att = q @ k.transpose(-1, -2) / math.sqrt(d // self.h)
        att = att.masked_fill(~pad[:, None, None, :], -1e9)
        z = att.softmax(-1) @ v
        return self.out(z.transpose(1, 2).reshape(b, m, d))


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.att = Attention(dim)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, query, items, pad):
        h = self.n1(query + self.att(query, items, pad))
        return self.n2(h + self.ff(h))


class HandModel(nn.Module):
    def __init__(self, dim=32, seeds=2):
        super().__init__()
        self.rank = nn.Embedding(14, dim)
        self.suit = nn.Embedding(5, dim)
        self.enc = Block(dim)
        self.seed = nn.Parameter(torch.randn(1, seeds, dim) * 0.1)
        self.pool = Block(dim)
        self.size = nn.Embedding(12, dim)
        self.head = nn.Sequential(nn.Linear((seeds + 1) * dim, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, cards):
        pad = cards.eq(PAD)
        rank = torch.where(pad, torch.full_like(cards, 13), cards % 13)
        suit = torch.where(pad, torch.full_like(cards, 4), cards // 13)
        h = self.rank(rank) + self.suit(suit)
        h = self.enc(h, h, pad)
        z = self.pool(self.seed.expand(len(cards), -1, -1), h, pad)
        n = self.size((~pad).sum(1))
        return self.head(torch.cat([z.flatten(1), n], 1)).squeeze(1)


@torch.no_grad()
def r2(model, loader):
    model.eval()
    p, t = [], []
    for x, y in loader:
        p.append(model(x))
        t.append(y)
    p, t = torch.cat(p), torch.cat(t)
    return 1 - ((p - t) ** 2).sum().item() / ((t - t.mean()) ** 2).sum().item()


train_dl = DataLoader(Hands(6000, 0), batch_size=128, shuffle=True, collate_fn=collate)
val_dl = DataLoader(Hands(1000, 1), batch_size=250, collate_fn=collate)
test_dl = DataLoader(Hands(2000, 2), batch_size=250, collate_fn=collate)

model = HandModel()
EPOCHS = 9
opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-3)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, 4e-3, total_steps=EPOCHS * len(train_dl))
for epoch in range(EPOCHS):
    model.train()
    tot = 0.0
    for x, y in train_dl:
        loss = F.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        tot += loss.item()
    print(f"epoch {epoch:2d}  mse {tot / len(train_dl):.4f}  val r2 {r2(model, val_dl):.3f}")
print(f"test_r2 {r2(model, test_dl):.4f}")
