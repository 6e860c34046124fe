# Sets of 2 to 8 tiles (colour, shape, number); question: is there a pair of tiles that agree in colour and shape and whose numbers sum to 7?
import torch
from torch import nn
from torch.utils.data import Dataset, DataLoader

MAX_TILES, COLOURS, SHAPES, NUMBERS = 10, 3, 2, 6


class TileSets(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.rows = []
        want = 0
        while len(self.rows) < n:
            k = int(torch.randint(2, 9, (1,), generator=g))
            c = torch.randint(0, COLOURS, (k,), generator=g)
            s = torch.randint(0, SHAPES, (k,), generator=g)
            m = torch.randint(1, NUMBERS + 1, (k,), generator=g)
            pair = (c[:, None] == c) & (s[:, None] == s) & (m[:, None] + m == 7)
            hit = bool(pair.any())
            if hit == bool(want):
                self.rows.append((torch.stack([c, s, m - 1], 1), float(hit)))
                want = 1 - want

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    tiles = torch.zeros(len(rows), MAX_TILES, 3, dtype=torch.long)
    valid = torch.zeros(len(rows), MAX_TILES, dtype=torch.bool)
    for i, (t, _) in enumerate(rows):
        tiles[i, :len(t)], valid[i, :len(t)] = t, True
    return tiles, valid, torch.tensor([r[1] for r in rows])


class SetModel(nn.Module):
    def __init__(self, d=32, heads=4):
        super().__init__()
        self.colour, self.shape, self.number = nn.Embedding(COLOURS, d), nn.Embedding(SHAPES, d), nn.Embedding(NUMBERS, d)
        self.mix = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d))
        self.attn = nn.MultiheadAttention(d, heads, batch_first=True)
        self.norm = nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(2 * d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))
        self.out = nn.Sequential(nn.Linear(2 * d, d), nn.ReLU(), nn.Linear(d, 1))

    def forward(self, tiles, valid):
        h = self.mix(self.colour(tiles[..., 0]) + self.shape(tiles[..., 1]) + self.number(tiles[..., 2]))
        a, _ = self.attn(h, h, h, key_padding_mask=valid, need_weights=False)
        h = self.norm(h + self.ff(torch.cat([h, a], -1)))
        w = valid.unsqueeze(-1)
        mean = (h * w).sum(1) / w.sum(1)
        top = h.masked_fill(~w, -1e4).amax(1)
        return self.out(torch.cat([mean, top], 1)).squeeze(1)


torch.manual_seed(2)
train, test = TileSets(4000, 10), TileSets(1200, 11)
loader = DataLoader(train, batch_size=128, shuffle=True, collate_fn=collate)
model = SetModel()
opt = torch.optim.Adam(model.parameters(), lr=4e-3)
for epoch in range(11):
    model.train()
    s = 0.0
    for tiles, valid, y in loader:
        loss = nn.functional.binary_cross_entropy_with_logits(model(tiles, valid), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        s += loss.item() * len(y)
    if epoch % 2 == 0:
        print(f"epoch {epoch} loss {s / len(train):.4f}")
model.eval()
tiles, valid, y = collate([test[i] for i in range(len(test))])
with torch.no_grad():
    acc = ((model(tiles, valid) > 0) == (y > 0)).float().mean().item()
print(f"test accuracy {acc:.4f}")
