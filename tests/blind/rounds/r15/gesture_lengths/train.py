# gesture recognition, packed GRU
import sys
import os
import numpy as np
import torch
from torch.nn.utils.rnn import pack_padded_sequence

HERE = sys.argv[1]


def get(part):
    arr = [np.load(os.path.join(HERE, f"{part}_{k}.npy")) for k in ("x", "y", "len")]
    x, y, n = map(torch.from_numpy, arr)
    assert int(n.min()) > 0 and int(n.max()) <= x.shape[1]
    return x, y.long(), n.long()


class GestureGRU(torch.nn.Module):
    def __init__(self, n_in=3, n_hidden=24, n_out=4):
        super().__init__()
        self.gru = torch.nn.GRU(n_in, n_hidden, batch_first=True)
        self.out = torch.nn.Linear(n_hidden, n_out)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        _, h = self.gru(packed)
        return self.out(h[-1])


def run():
    torch.manual_seed(8)
    x, y, n = get("train")
    model = GestureGRU()
    opt = torch.optim.Adam(model.parameters(), lr=8e-3)
    ce = torch.nn.CrossEntropyLoss()
    for epoch in range(14):
        model.train()
        acc_loss = 0.0
        for b in torch.randperm(len(x)).split(25):
            opt.zero_grad()
            loss = ce(model(x[b], n[b]), y[b])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            opt.step()
            acc_loss += loss.item() * len(b) / len(x)
        print(f"epoch {epoch:02d} | loss {acc_loss:.3f}")
    xt, yt, nt = get("test")
    model.eval()
    with torch.no_grad():
        pred = model(xt, nt).argmax(1)
    table = torch.zeros(4, 4, dtype=torch.long)
    for a, b in zip(yt.tolist(), pred.tolist()):
        table[a, b] += 1
    print(table)
    print("accuracy %.4f" % (pred == yt).float().mean().item())


run()
