"""Next-note model of balungan melodies (Javanese gamelan) with a small causal transformer."""
import math

import torch
from torch import nn

TONES = ["1", "2", "3", "5", "6", "!", "."]
MODES = ["slendro", "pelog"]
TOKENS = [f"<{m}>" for m in MODES] + TONES + ["gong"]
ID = {t: i for i, t in enumerate(TOKENS)}
LENGTH = 33


def make_contours(gen):
    tables = {}
    for mode in MODES:
        table = {}
        for a in TONES:
            for b in TONES:
                options = [t for t in TONES if t != b]
                table[a, b] = options[torch.randint(len(options), (1,), generator=gen).item()]
        tables[mode] = table
    return tables


def compose(tables, gen):
    mode = MODES[torch.randint(2, (1,), generator=gen).item()]
    pick = lambda: TONES[torch.randint(len(TONES), (1,), generator=gen).item()]
    piece, a, b, notes = [f"<{mode}>"], pick(), pick(), 2
    piece += [a, b]
    while len(piece) < LENGTH:
        if notes % 16 == 0:
            piece.append("gong")
        nxt = tables[mode][a, b] if torch.rand(1, generator=gen).item() < 0.85 else pick()
        piece.append(nxt)
        a, b, notes = b, nxt, notes + 1
    return [ID[t] for t in piece[:LENGTH]]


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 3 * dim), nn.GELU(), nn.Linear(3 * dim, dim))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        att = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        future = torch.ones(t, t, dtype=torch.bool).triu(1)
        att = att.masked_fill(future, float("-inf")).softmax(-1)
        x = x + self.proj((att @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.norm2(x))


class MelodyModel(nn.Module):
    def __init__(self, dim=48, depth=2, heads=4):
        super().__init__()
        self.token = nn.Embedding(len(TOKENS), dim)
        self.place = nn.Parameter(torch.randn(LENGTH, dim) * 0.02)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, len(TOKENS))

    def forward(self, notes):
        h = self.token(notes) + self.place[:notes.shape[1]]
        for block in self.blocks:
            h = block(h)
        return self.out(self.norm(h))

    def score(self, notes, following):
        logits = self(notes)
        logp = logits.log_softmax(-1)
        picked = logp.gather(2, following.unsqueeze(2)).squeeze(2)
        right = (logits.argmax(-1) == following).float()
        return -picked.mean(), right.mean()


def notes_and_following(pieces):
    return pieces[:, :-1], pieces[:, 1:]


def main():
    torch.manual_seed(31)
    gen = torch.Generator().manual_seed(9)
    tables = make_contours(gen)
    pieces = torch.tensor([compose(tables, gen) for _ in range(1150)])
    train, val = pieces[:1000], pieces[1000:]

    model = MelodyModel()
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01)
    epochs = 12
    steps = epochs * math.ceil(len(train) / 20)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=4e-3, total_steps=steps)
    for epoch in range(epochs):
        model.train()
        losses = []
        for idx in torch.randperm(len(train)).split(20):
            loss, _ = model.score(*notes_and_following(train[idx]))
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            losses.append(loss.item())
        model.eval()
        with torch.no_grad():
            val_loss, val_acc = model.score(*notes_and_following(val))
        print(f"epoch {epoch + 1:2d}  train {sum(losses) / len(losses):.3f}  val {val_loss.item():.3f}  "
              f"next note correct {val_acc.item():.3f}")
    return model, val


if __name__ == "__main__":
    main()
