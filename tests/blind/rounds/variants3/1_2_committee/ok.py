import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


def make_data(n):
    x = torch.rand(n, 6) * 2 - 1
    y = torch.sin(3 * x[:, 0]) + x[:, 1] - x[:, 2].abs() + 0.5 * x[:, 3] ** 2
    return x, (y + 0.05 * torch.randn(n)).unsqueeze(1)


def member(width):
    return nn.Sequential(
        nn.Linear(6, width), nn.ReLU(), nn.Dropout(0.1),
        nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.1),
        nn.Linear(width, 1),
    )


class Committee(nn.Module):
    def __init__(self, widths):
        super().__init__()
        self.members = nn.ModuleList([member(w) for w in widths])
        self.offset = nn.Parameter(torch.zeros(1))

    def groups(self):
        yield {"params": [self.offset], "lr": 1e-3}
        for m in self.members:
            yield {"params": list(m.parameters())}

    def forward(self, x):
        votes = torch.stack([m(x) for m in self.members])
        return votes + self.offset


xtr, ytr = make_data(2000)
xva, yva = make_data(500)
train_dl = DataLoader(TensorDataset(xtr, ytr), batch_size=100, shuffle=True)
valid_dl = DataLoader(TensorDataset(xva, yva), batch_size=250)

committee = Committee([48, 64, 96])
opt = torch.optim.AdamW(committee.groups(), lr=4e-3, weight_decay=1e-4)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=16 * len(train_dl))

for epoch in range(16):
    committee.train()
    running = 0.0
    for xb, yb in train_dl:
        votes = committee(xb)
        loss = F.mse_loss(votes, yb.expand_as(votes))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        sched.step()
        running += loss.item() * len(xb)
    committee.eval()
    sq, spread = 0.0, 0.0
    with torch.no_grad():
        for xb, yb in valid_dl:
            votes = committee(xb)
            sq += (votes.mean(0) - yb).pow(2).sum().item()
            spread += votes.std(0).sum().item()
    print(f"epoch {epoch:2d}  train mse {running / len(xtr):.4f}  "
          f"valid mse {sq / len(xva):.4f}  disagreement {spread / len(xva):.4f}")
