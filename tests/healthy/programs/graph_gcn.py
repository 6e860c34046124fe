"""A graph network on one graph, full batch: boolean masks for train, validation and test, best state kept, early
stopping."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(42)
N, CLASSES, FEATURES = 120, 3, 16
y = torch.arange(N) % CLASSES
same = (y[:, None] == y[None, :]).float()
adjacency = (torch.rand(N, N) < 0.15 * same + 0.01).float().triu(1)
adjacency = adjacency + adjacency.t() + torch.eye(N)
degree = adjacency.sum(1).rsqrt()
adj = (degree[:, None] * adjacency * degree[None, :]).to_sparse()
x = F.one_hot(y, FEATURES).float() * 0.5 + torch.randn(N, FEATURES)
x = F.normalize(x, dim=1)
order = torch.randperm(N)
train_mask, val_mask, test_mask = (torch.zeros(N, dtype=torch.bool) for _ in range(3))
train_mask[order[:40]] = True
val_mask[order[40:80]] = True
test_mask[order[80:]] = True


class GraphConvolution(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_features, out_features))
        self.bias = nn.Parameter(torch.zeros(out_features))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, input, adj):
        return torch.sparse.mm(adj, input @ self.weight) + self.bias


class GCN(nn.Module):
    def __init__(self, hidden=32, dropout=0.5):
        super().__init__()
        self.gc1 = GraphConvolution(FEATURES, hidden)
        self.gc2 = GraphConvolution(hidden, CLASSES)
        self.dropout = dropout

    def forward(self, x, adj):
        x = F.relu(self.gc1(x, adj))
        x = F.dropout(x, self.dropout, training=self.training)
        return F.log_softmax(self.gc2(x, adj), dim=1)


model = GCN()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.02, weight_decay=5e-4)
best_loss, best_state, patience = float("inf"), None, 0
for epoch in range(100):
    model.train()
    optimizer.zero_grad()
    output = model(x, adj)
    loss_train = F.nll_loss(output[train_mask], y[train_mask])
    loss_train.backward()
    optimizer.step()

    model.eval()
    with torch.no_grad():
        output = model(x, adj)
        loss_val = F.nll_loss(output[val_mask], y[val_mask]).item()
    if loss_val < best_loss:
        best_loss, best_state, patience = loss_val, copy.deepcopy(model.state_dict()), 0
    else:
        patience += 1
        if patience > 15:
            break

model.load_state_dict(best_state)
model.eval()
with torch.no_grad():
    accuracy = (model(x, adj)[test_mask].argmax(1) == y[test_mask]).float().mean().item()
print(f"stopped after {epoch + 1} epochs, test accuracy {accuracy:.2f}")
