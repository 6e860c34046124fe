# Weekly demand per item for a pharmacy; validation on the last weeks of the history, then the live export.
import csv, math, sys
import torch
from torch import nn

src = sys.argv[1]


def rows(name):
    with open(f"{src}/{name}") as f:
        return list(csv.DictReader(f))


hist, live = rows("history.csv"), rows("live.csv")
items = sorted({r["item"] for r in hist})


def tensors(rs):
    num, cat, tgt, ref = [], [], [], []
    for r in rs:
        w = 2 * math.pi * int(r["week"]) / 52
        past = [math.log1p(float(r[f"sold_w{k}"])) for k in range(4)]
        base = sum(past) / 4
        num.append([p - base for p in past] + [base - 4, math.log1p(float(r["stock"])) - 4.5,
                   math.log(1 + float(r["days_of_cover"])) - 2.7, math.sin(w), math.cos(w)])
        cat.append(items.index(r["item"]))
        tgt.append(float(r["sold_next"]))
        ref.append(base)
    return torch.tensor(num), torch.tensor(cat), torch.tensor(tgt), torch.tensor(ref)


class Demand(nn.Module):
    def __init__(self):
        super().__init__()
        self.item = nn.Embedding(len(items), 4)
        self.mlp = nn.Sequential(nn.Linear(13, 40), nn.SiLU(), nn.Linear(40, 40), nn.SiLU(), nn.Linear(40, 1))

    def forward(self, num, cat):
        return self.mlp(torch.cat([num, self.item(cat)], 1)).squeeze(1)


def mae(net, data):
    num, cat, tgt, ref = data
    with torch.no_grad():
        return ((net(num, cat) + ref).exp() - 1 - tgt).abs().mean().item()


torch.manual_seed(9)
train = tensors([r for r in hist if int(r["week"]) < 120])
val = tensors([r for r in hist if int(r["week"]) >= 120])
net = Demand()
opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-2)
num, cat, tgt, ref = train
goal = torch.log1p(tgt) - ref
EPOCHS = 25
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, EPOCHS)
for ep in range(1, EPOCHS + 1):
    for i in torch.randperm(len(num)).split(64):
        loss = nn.functional.huber_loss(net(num[i], cat[i]), goal[i], delta=0.5)
        opt.zero_grad()
        loss.backward()
        opt.step()
    sched.step()
    if ep % 5 == 0:
        print(f"epoch {ep:2d} last loss {loss.item():.4f} validation MAE {mae(net, val):.2f} packs")
print(f"live weeks: MAE {mae(net, tensors(live)):.2f} packs")
