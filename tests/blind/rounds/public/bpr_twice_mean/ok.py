"""Matrix factorization with the BPR loss and a penalty on the embeddings."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
USERS, ITEMS, WIDTH = 300, 400, 16
taste, kind = torch.randn(USERS, 4), torch.randn(ITEMS, 4)
score = taste @ kind.t() + 0.5 * torch.randn(USERS, ITEMS)
liked = score.topk(24, dim=1).indices
train_items, test_items = liked[:, torch.randperm(24)].split([18, 6], dim=1)
edges = torch.stack([torch.arange(USERS).repeat_interleave(18), train_items.flatten()])


class BPRLoss(nn.Module):
    def __init__(self, lambda_reg):
        super().__init__()
        self.lambda_reg = lambda_reg

    def forward(self, positives, negatives, parameters):
        n_pairs = positives.size(0)
        log_prob = F.logsigmoid(positives - negatives).mean()
        regularization = self.lambda_reg * parameters.norm(p=2).pow(2)
        return -log_prob + regularization / n_pairs


class Factors(nn.Module):
    def __init__(self):
        super().__init__()
        self.user, self.item = nn.Embedding(USERS, WIDTH), nn.Embedding(ITEMS, WIDTH)
        nn.init.normal_(self.user.weight, std=0.1)
        nn.init.normal_(self.item.weight, std=0.1)

    def forward(self, users, items):
        return (self.user(users) * self.item(items)).sum(1)


model, criterion = Factors(), BPRLoss(lambda_reg=1e-2)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(15):
    for rows in torch.randperm(edges.shape[1]).split(512):
        users, items = edges[:, rows]
        others = torch.randint(0, ITEMS, (len(rows),))
        used = torch.cat([model.user(users), model.item(items), model.item(others)])
        loss = criterion(model(users, items), model(users, others), used)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        ranks = model.user.weight @ model.item.weight.t()
        ranks.scatter_(1, train_items, float("-inf"))
        top = ranks.topk(20, dim=1).indices
        recall = (top[:, :, None] == test_items[:, None]).any(1).float().mean()
    print(f"epoch {epoch} loss {loss.item():.4f} recall@20 {recall.item():.3f}")
