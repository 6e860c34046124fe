import torch
from torch import nn

torch.manual_seed(13)
NODES, GROUPS, FEATURES = 300, 4, 16
group = torch.randint(0, GROUPS, (NODES,))
same = group[:, None] == group[None, :]
edges = torch.rand(NODES, NODES) < torch.where(same, 0.06, 0.01)
adjacency = torch.triu(edges, diagonal=1).float()
adjacency = adjacency + adjacency.T + torch.eye(NODES)
scale = adjacency.sum(1).rsqrt()
propagate = scale[:, None] * adjacency * scale[None, :]
features = torch.randn(GROUPS, FEATURES)[group] * 0.5 + torch.randn(NODES, FEATURES)

perm = torch.randperm(NODES)
train_nodes, val_nodes = perm[:150], perm[150:]

TASKS = {
    "groups": (lambda: nn.Softmax(dim=1), nn.NLLLoss()),
    "degree": (lambda: nn.Identity(), nn.MSELoss()),
}


class GraphNet(nn.Module):
    def __init__(self, inputs, hidden, outputs, final):
        super().__init__()
        self.first = nn.Linear(inputs, hidden)
        self.second = nn.Linear(hidden, outputs)
        self.drop = nn.Dropout(0.3)
        self.final = final

    def forward(self, prop, x):
        h = torch.relu(prop @ self.first(x))
        return self.final(prop @ self.second(self.drop(h)))


def accuracy(net, nodes):
    net.eval()
    with torch.no_grad():
        guess = net(propagate, features)[nodes].argmax(1)
    return (guess == group[nodes]).float().mean().item()


make_final, criterion = TASKS["groups"]
net = GraphNet(FEATURES, 32, GROUPS, make_final())
optimizer = torch.optim.Adam(net.parameters(), lr=0.005, weight_decay=1e-4)
for step in range(1, 121):
    net.train()
    optimizer.zero_grad()
    out = net(propagate, features)
    loss = criterion(out[train_nodes], group[train_nodes])
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"step {step} loss {loss.item():.4f} train {accuracy(net, train_nodes):.3f} val {accuracy(net, val_nodes):.3f}")
