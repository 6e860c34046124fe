import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(10)
root = sys.argv[1]


def lines(name):
    with open(f"{root}/{name}") as f:
        return [line.split() for line in f]


src_vocab = {w: i for i, w in enumerate("abcdefghijklmnop")}
tgt_vocab = {w: i for i, w in enumerate("ABCDEFGHIJKLMNOP")}
BOS = len(tgt_vocab)


def dataset(split):
    src, tgt = lines(split + ".src"), lines(split + ".tgt")
    assert len(src) == len(tgt), "parallel files differ in length"
    return TensorDataset(torch.tensor([[src_vocab[w] for w in s] for s in src]),
                         torch.tensor([[BOS] + [tgt_vocab[w] for w in t] for t in tgt]))


class Translator(nn.Module):
    def __init__(self, dim=32, hidden=64):
        super().__init__()
        self.src_emb = nn.Embedding(len(src_vocab), dim)
        self.tgt_emb = nn.Embedding(len(tgt_vocab) + 1, dim)
        self.encoder = nn.GRU(dim, hidden // 2, batch_first=True, bidirectional=True)
        self.decoder = nn.GRU(dim, hidden, batch_first=True)
        self.query = nn.Linear(hidden, hidden)
        self.out = nn.Linear(2 * hidden, len(tgt_vocab))

    def forward(self, src, tgt_in):
        memory, h = self.encoder(self.src_emb(src))
        dec, _ = self.decoder(self.tgt_emb(tgt_in), torch.cat([h[0], h[1]], 1)[None])
        att = (self.query(dec) @ memory.transpose(1, 2)).softmax(-1)
        return self.out(torch.cat([dec, att @ memory], -1))


def translate(model, src, steps):
    out = torch.full((len(src), 1), BOS)
    for _ in range(steps):
        out = torch.cat([out, model(src, out)[:, -1:].argmax(-1)], 1)
    return out[:, 1:]


train_loader = DataLoader(dataset("train"), batch_size=50, shuffle=True)
val_src, val_tgt = dataset("val").tensors
model = Translator()
opt = torch.optim.Adam(model.parameters(), lr=6e-3)
loss_fn = nn.CrossEntropyLoss()
for epoch in range(4):
    model.train()
    running = 0.0
    for src, tgt in train_loader:
        logits = model(src, tgt[:, :-1])
        loss = loss_fn(logits.flatten(0, 1), tgt[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        running += loss.item()
    model.eval()
    with torch.no_grad():
        hyp = translate(model, val_src, val_tgt.size(1) - 1)
    print(f"epoch {epoch} loss {running / len(train_loader):.3f} val token accuracy {(hyp == val_tgt[:, 1:]).float().mean():.3f}")
