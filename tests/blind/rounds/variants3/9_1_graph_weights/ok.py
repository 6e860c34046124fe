import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(26)
N, F_IN, C = 600, 16, 3
share = torch.tensor([0.86, 0.09, 0.05])

label = torch.multinomial(share, N, replacement=True)
proto = 0.55 * torch.randn(C, F_IN)
feat = proto[label] + torch.randn(N, F_IN)
same = label[:, None] == label[None, :]
rare = (label[:, None] > 0) & (label[None, :] > 0)
density = torch.where(same, torch.where(rare, 0.10, 0.012), torch.full((N, N), 0.006))
adj = torch.triu(torch.rand(N, N) < density, 1)
adj = (adj | adj.T).float() + torch.eye(N)
prop = adj / adj.sum(1, keepdim=True)

order = torch.randperm(N)
train_id, valid_id = order[:400], order[400:]


class SAGE(nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.own = nn.ModuleList(nn.Linear(a, b) for a, b in zip(dims, dims[1:]))
        self.nbr = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in zip(dims, dims[1:]))
        self.drop = nn.Dropout(0.3)

    def forward(self, h):
        last = len(self.own) - 1
        for k, (own, nbr) in enumerate(zip(self.own, self.nbr)):
            h = own(h) + nbr(prop @ h)
            if k < last:
                h = self.drop(F.relu(h))
        return h


def recalls(pred, truth):
    return torch.stack([(pred[truth == c] == c).float().mean() for c in range(C)])


counts = torch.bincount(label[train_id], minlength=C).float()
weights = counts.sum() / (C * counts)
model = SAGE([F_IN, 32, C])
opt = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-3)

for step in range(1, 121):
    model.train()
    out = model(feat)
    loss = F.cross_entropy(out[train_id], label[train_id], weight=weights)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        model.eval()
        with torch.no_grad():
            pred = model(feat)[valid_id].argmax(1)
        rec = recalls(pred, label[valid_id])
        print(f"step {step:3d}  loss {loss.item():.4f}  valid acc {(pred == label[valid_id]).float().mean():.3f}  "
              f"recall {[round(v, 2) for v in rec.tolist()]}  balanced {rec.mean():.3f}")
