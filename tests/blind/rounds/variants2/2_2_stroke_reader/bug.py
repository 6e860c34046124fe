import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(9)
SYMBOLS, FEATS, LENGTH = 5, 8, 4
glyph = torch.randn(SYMBOLS + 1, FEATS)


def sample_strip(n):
    labels = torch.randint(1, SYMBOLS + 1, (n, LENGTH))
    frames = []
    for row in labels:
        pieces = []
        for s in row:
            pieces.append(glyph[s].repeat(int(torch.randint(2, 4, (1,))), 1))
            pieces.append(torch.zeros(1, FEATS))
        strip = torch.cat(pieces)
        strip = F.pad(strip, (0, 0, 0, 4 * LENGTH - len(strip)))
        frames.append(strip)
    x = torch.stack(frames)
    return x + 0.3 * torch.randn_like(x), labels


class Reader(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.conv = nn.Conv1d(FEATS, width, 3, padding=1)
        self.rnn = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, SYMBOLS + 1)

    def forward(self, x):
        h = F.relu(self.conv(x.transpose(1, 2))).transpose(1, 2)
        out = self.head(self.rnn(h)[0])
        if self.training:
            return out
        return out.log_softmax(dim=-1)


def collapse(path):
    kept, last = [], -1
    for k in path.tolist():
        if k != last and k != 0:
            kept.append(k)
        last = k
    return kept


train_x, train_y = sample_strip(512)
val_x, val_y = sample_strip(128)
reader = Reader()
opt = torch.optim.Adam(reader.parameters(), lr=5e-3)
ctc = nn.CTCLoss(blank=0)
for epoch in range(8):
    reader.train()
    for idx in torch.randperm(len(train_x)).split(32):
        scores = reader(train_x[idx]).transpose(0, 1)
        steps = torch.full((len(idx),), scores.size(0))
        sizes = torch.full((len(idx),), LENGTH)
        loss = ctc(scores, train_y[idx], steps, sizes)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(reader.parameters(), 5.0)
        opt.step()
    reader.eval()
    with torch.no_grad():
        best = reader(val_x).argmax(-1)
    exact = sum(collapse(p) == t.tolist() for p, t in zip(best, val_y)) / len(val_y)
    print(f"epoch {epoch} loss {loss.item():.3f} exact match {exact:.3f}")
