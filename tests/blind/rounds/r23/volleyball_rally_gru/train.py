# Who wins the rally? GRU over the ball contacts.
import sys, tomllib
import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

d = sys.argv[1]
with open(d + '/params.toml', 'rb') as f:
    P = tomllib.load(f)
torch.manual_seed(P['seed'])
rng = np.random.default_rng(P['seed'])

touches = np.load(d + '/touches.npy')      # rally, contact, (team, x, y, height, speed, kind)
lens = np.load(d + '/lengths.npy')
won = np.load(d + '/home_wins.npy')
perm = rng.permutation(len(won))
nval = int(P['val_fraction'] * len(won))
va, tr = perm[:nval], perm[nval:]

# scale the continuous columns with the contacts of the training rallies, one-hot the kind
real = np.arange(touches.shape[1])[None, :] < lens[:, None]
cont = touches[tr][real[tr]][:, 1:5]
num = (touches[..., 1:5] - cont.mean(0)) / cont.std(0)
kinds = np.eye(4, dtype=np.float32)[touches[..., 5].astype(int)]
seq = np.concatenate([touches[..., :1] * 2 - 1, num, kinds], axis=-1)
seq = torch.from_numpy(seq.astype(np.float32))
lens = torch.from_numpy(lens)
won = torch.from_numpy(won).float()
tr, va = torch.from_numpy(tr), torch.from_numpy(va)


class RallyNet(nn.Module):
    def __init__(self, n_in, n_hid):
        super().__init__()
        self.gru = nn.GRU(n_in, n_hid, batch_first=True)
        self.fc = nn.Sequential(nn.Linear(n_hid, n_hid), nn.ReLU(), nn.Linear(n_hid, 1))

    def forward(self, s, n):
        _, h = self.gru(pack_padded_sequence(s, n, batch_first=True, enforce_sorted=False))
        return self.fc(h[-1]).squeeze(-1)


model = RallyNet(seq.shape[-1], P['hidden'])
optimizer = torch.optim.Adam(model.parameters(), lr=P['lr'])
bce = nn.BCEWithLogitsLoss()

for epoch in range(1, P['epochs'] + 1):
    model.train()
    losses = []
    for b in tr[torch.randperm(len(tr))].split(P['batch']):
        optimizer.zero_grad()
        loss = bce(model(seq[b], lens[b]), won[b])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        logit = model(seq[va], lens[va])
        acc = ((logit > 0) == (won[va] > 0.5)).float().mean().item()
        vloss = bce(logit, won[va]).item()
    print('epoch %2d: train loss %.4f, val loss %.4f, val acc %.3f' % (epoch, np.mean(losses), vloss, acc))
