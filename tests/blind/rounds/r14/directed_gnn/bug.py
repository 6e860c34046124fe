# Node classification on a directed payment graph: who receives money from whom.
import torch
import torch.nn as nn
import torch.nn.functional as F


def payment_graph(n_nodes=1200, avg_in=6, n_feat=8, seed=6):
    g = torch.Generator().manual_seed(seed)
    feats = torch.randn(n_nodes, n_feat, generator=g)
    n_edges = n_nodes * avg_in
    payer = torch.randint(0, n_nodes, (n_edges,), generator=g)
    payee = torch.randint(0, n_nodes, (n_edges,), generator=g)
    keep = payer != payee
    edge_index = torch.stack([payer[keep], payee[keep]])
    received = torch.zeros(n_nodes, n_feat).index_add_(0, edge_index[1], feats[edge_index[0]])
    count = torch.zeros(n_nodes).index_add_(0, edge_index[1], torch.ones(edge_index.shape[1])).clamp(min=1)
    mean_in = received / count[:, None]
    score = 2.2 * mean_in[:, 0] - 1.6 * mean_in[:, 1] + 0.35 * feats[:, 2] + 0.1 * torch.randn(n_nodes, generator=g)
    return feats, edge_index, (score > 0).long()


class MeanConv(nn.Module):
    """h_i' = W_self h_i + W_neigh mean of h_j over edges j -> i"""

    def __init__(self, d_in, d_out):
        super().__init__()
        self.w_self = nn.Linear(d_in, d_out)
        self.w_neigh = nn.Linear(d_in, d_out, bias=False)

    def forward(self, h, edge_index):
        dst, src = edge_index
        agg = h.new_zeros(h.shape).index_add(0, dst, h[src])
        deg = h.new_zeros(h.shape[0]).index_add(0, dst, h.new_ones(dst.shape[0]))
        return self.w_self(h) + self.w_neigh(agg / deg.clamp(min=1).unsqueeze(1))


class PaymentNet(nn.Module):
    def __init__(self, n_feat, hidden=32, n_classes=2):
        super().__init__()
        self.conv1 = MeanConv(n_feat, hidden)
        self.conv2 = MeanConv(hidden, hidden)
        self.lin = nn.Linear(hidden, n_classes)
        self.dropout = nn.Dropout(0.3)

    def forward(self, x, edge_index):
        h = F.relu(self.conv1(x, edge_index))
        h = self.dropout(h)
        h = F.relu(self.conv2(h, edge_index)) + h
        return self.lin(h)


def main():
    torch.manual_seed(6)
    x, edge_index, y = payment_graph()
    perm = torch.randperm(len(x))
    tr, va, te = perm[:700], perm[700:850], perm[850:]
    model = PaymentNet(x.shape[1])
    optim = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-4)
    best_val, best_test = 0.0, 0.0
    for epoch in range(120):
        model.train()
        optim.zero_grad()
        loss = F.cross_entropy(model(x, edge_index)[tr], y[tr])
        loss.backward()
        optim.step()
        model.eval()
        with torch.no_grad():
            pred = model(x, edge_index).argmax(1)
        val = (pred[va] == y[va]).float().mean().item()
        test = (pred[te] == y[te]).float().mean().item()
        if val > best_val:
            best_val, best_test = val, test
        if epoch % 30 == 29:
            print(f"epoch {epoch + 1} loss {loss.item():.3f} val {val:.3f}")
    print(f"test accuracy at best val {best_test:.3f}")


if __name__ == "__main__":
    main()
