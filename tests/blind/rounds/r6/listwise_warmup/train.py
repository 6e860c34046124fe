"""Listwise ranking of documents per query."""
import json
import sys
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

folder = sys.argv[1]
cfg = json.load(open(f"{folder}/ranker.json"))
torch.manual_seed(cfg["seed"])
K = cfg["eval"]["k"]
z = np.load(f"{folder}/queries.npz")
x = torch.from_numpy(z["x"].astype(np.float32))
rel = torch.from_numpy(z["rel"].astype(np.float32))
i_tr, i_va, i_te = torch.randperm(len(x)).split([160, 40, 60])
mu, sd = x[i_tr].mean((0, 1)), x[i_tr].std((0, 1))
x = (x - mu) / sd


class Ranker(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, 1))

    def forward(self, docs):
        return self.mlp(docs).squeeze(-1)


def listwise_loss(scores, relevance):
    target = F.softmax(relevance, dim=1)
    return -(target * F.log_softmax(scores, dim=1)).sum(1).mean()


def dcg(relevance):
    disc = torch.log2(torch.arange(K) + 2.0)
    return ((2 ** relevance[:, :K] - 1) / disc).sum(1)


@torch.no_grad()
def ndcg(idx):
    model.eval()
    order = model(x[idx]).argsort(1, descending=True)
    got = dcg(rel[idx].gather(1, order))
    ideal = dcg(rel[idx].sort(1, descending=True).values)
    return (got / ideal.clamp(min=1e-6)).mean().item()


model = Ranker(x.shape[-1], cfg["model"]["hidden"])
opt = torch.optim.AdamW(model.parameters(), lr=cfg["optimizer"]["lr"], weight_decay=cfg["optimizer"]["weight_decay"])
warmup = cfg["optimizer"]["warmup_steps"]
sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / warmup))

print(f"untrained val ndcg@{K} {ndcg(i_va):.3f}")
best, state = -1.0, None
for epoch in range(cfg["train"]["epochs"]):
    model.train()
    tot = 0.0
    for b in i_tr[torch.randperm(len(i_tr))].split(cfg["train"]["queries_per_batch"]):
        loss = listwise_loss(model(x[b]), rel[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        tot += loss.item() * len(b)
    v = ndcg(i_va)
    if v > best:
        best, state = v, {k: t.clone() for k, t in model.state_dict().items()}
    if epoch % 3 == 2:
        print(f"epoch {epoch + 1:2d} loss {tot / len(i_tr):.4f} val ndcg@{K} {v:.3f}")
model.load_state_dict(state)
torch.save(state, "/tmp/ranker.pt")
print(f"test ndcg@{K} {ndcg(i_te):.3f}")
