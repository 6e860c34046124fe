# Which dance is it?  Notes of a folk tune (transposed to D) -> jig, reel, waltz, polka
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SEED = 8
DANCES = ["jig", "reel", "waltz", "polka"]
ACCENTS = {"jig": (6, (0, 3)), "reel": (8, (0, 4)), "waltz": (6, (0,)), "polka": (4, (0, 2))}
T = 24
DEGREES = 12


def compose(rng, dance):
    """A tune as scale degrees: chord notes tend to fall on the accents of the dance, passing notes between."""
    beats, accents = ACCENTS[dance]
    deg = rng.integers(2, 9)
    share = len(accents) / beats
    fill = (0.4 - share) / (1 - share)
    notes = []
    for i in range(T):
        strong = i % beats in accents or rng.random() < fill
        pool = [d for d in range(DEGREES) if (d % 7 in (0, 2, 4)) == strong and abs(d - deg) <= 4]
        deg = int(rng.choice(pool))
        notes.append(deg)
    # a few slips of the transcriber
    return np.where(rng.random(T) < 0.04, rng.integers(0, DEGREES, T), notes)


def songbook(n, rng):
    labels = rng.integers(0, len(DANCES), n)
    tunes = np.stack([compose(rng, DANCES[k]) for k in labels])
    return torch.from_numpy(tunes), torch.from_numpy(labels)


class Positions(nn.Module):
    def __init__(self, dim, max_len=256):
        super().__init__()
        pos = torch.arange(max_len).unsqueeze(1)
        freq = torch.exp(torch.arange(0, dim, 2) * (-math.log(200.0) / dim))
        table = torch.zeros(max_len, 1, dim)
        table[:, 0, 0::2] = torch.sin(pos * freq)
        table[:, 0, 1::2] = torch.cos(pos * freq)
        self.register_buffer("table", table)

    def forward(self, x):
        return x + self.table[:x.size(1)].transpose(0, 1)


class DanceNet(nn.Module):
    def __init__(self, dim=32, heads=2, layers=1):
        super().__init__()
        self.notes = nn.Embedding(DEGREES, dim)
        self.positions = Positions(dim)
        block = nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout=0.05, batch_first=True)
        self.encoder = nn.TransformerEncoder(block, layers)
        self.out = nn.Linear(dim, len(DANCES))

    def forward(self, tunes):
        h = self.encoder(self.positions(self.notes(tunes)))
        return self.out(h.mean(dim=1))


torch.manual_seed(SEED)
rng = np.random.default_rng(SEED)
tunes, dances = songbook(2000, rng)
val_tunes, val_dances = songbook(400, rng)

net = DanceNet()
EPOCHS, BATCH = 15, 40
optimizer = torch.optim.AdamW(net.parameters(), lr=6e-3, weight_decay=0.01)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, total_steps=EPOCHS * (len(tunes) // BATCH))

for epoch in range(1, EPOCHS + 1):
    net.train()
    losses = []
    for rows in torch.randperm(len(tunes)).split(BATCH):
        loss = F.cross_entropy(net(tunes[rows]), dances[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    net.eval()
    with torch.no_grad():
        hits = torch.cat([net(t).argmax(1) for t in val_tunes.split(BATCH)]) == val_dances
    print(f"epoch {epoch:2d}  loss {np.mean(losses):.3f}  held-out accuracy {hits.float().mean():.3f}")
