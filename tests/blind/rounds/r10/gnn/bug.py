"""Message passing network for a molecular property (toy solubility-like score)."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

ELEMENTS = ["C", "N", "O", "S", "Cl"]
FREQ = [0.6, 0.14, 0.16, 0.05, 0.05]
POLAR = np.array([[0.0, 0.6, 0.9, 0.2, 0.5],
                  [0.6, 0.2, 1.1, 0.4, 0.7],
                  [0.9, 1.1, 0.3, 0.8, 1.0],
                  [0.2, 0.4, 0.8, 0.1, 0.3],
                  [0.5, 0.7, 1.0, 0.3, 0.1]])


def random_molecule(rng):
    n = int(rng.integers(8, 22))
    atoms = rng.choice(len(ELEMENTS), size=n, p=FREQ)
    bonds = []
    degree = np.zeros(n, dtype=int)
    for i in range(1, n):
        free = [j for j in range(i) if degree[j] < 3]
        j = int(rng.choice(free[-4:]))
        bonds.append((j, i))
        degree[[i, j]] += 1
    if rng.random() < 0.6:
        i, j = sorted(rng.choice(n, size=2, replace=False))
        if (i, j) not in bonds:
            bonds.append((int(i), int(j)))
            degree[[i, j]] += 1
    score = sum(POLAR[atoms[a], atoms[b]] for a, b in bonds)
    score += 0.4 * sum(1 for k in range(n) if atoms[k] == 2 and degree[k] == 1)
    score = score / n ** 0.5 + rng.normal(0, 0.05)
    pairs = np.array(bonds).T
    edges = np.concatenate([pairs, pairs[::-1]], axis=1)
    return {"atoms": torch.from_numpy(atoms), "edges": torch.from_numpy(edges.copy()), "y": float(score)}


class Molecules(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.items = [random_molecule(rng) for _ in range(n)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(mols):
    atoms, edges, graph, offset = [], [], [], 0
    for g, m in enumerate(mols):
        atoms.append(m["atoms"])
        edges.append(m["edges"] + offset)
        graph.append(torch.full((len(m["atoms"]),), g))
        offset = len(m["atoms"])
    return {"atoms": torch.cat(atoms), "edges": torch.cat(edges, dim=1),
            "graph": torch.cat(graph), "y": torch.tensor([m["y"] for m in mols])}


class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.msg = nn.Linear(2 * d, d)
        self.upd = nn.GRUCell(d, d)

    def forward(self, h, edges):
        src, dst = edges
        m = F.relu(self.msg(torch.cat([h[src], h[dst]], dim=1)))
        agg = torch.zeros_like(h).index_add_(0, dst, m)
        return self.upd(agg, h)


class MPNN(nn.Module):
    def __init__(self, d=32, layers=2):
        super().__init__()
        self.embed = nn.Embedding(len(ELEMENTS), d)
        self.layers = nn.ModuleList([Layer(d) for _ in range(layers)])
        self.read = nn.Sequential(nn.Linear(2 * d, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, batch):
        h = self.embed(batch["atoms"])
        for layer in self.layers:
            h = layer(h, batch["edges"])
        n_graphs = len(batch["y"])
        total = torch.zeros(n_graphs, h.shape[1]).index_add_(0, batch["graph"], h)
        size = torch.bincount(batch["graph"], minlength=n_graphs).unsqueeze(1)
        return self.read(torch.cat([total / 15.0, total / size], dim=1)).squeeze(1)


def evaluate(model, loader, mu, sd):
    model.eval()
    pred, true = [], []
    with torch.no_grad():
        for batch in loader:
            pred.append(model(batch) * sd + mu)
            true.append(batch["y"])
    pred, true = torch.cat(pred), torch.cat(true)
    r2 = 1 - ((pred - true) ** 2).sum() / ((true - true.mean()) ** 2).sum()
    return (pred - true).abs().mean().item(), r2.item()


def main(epochs=12):
    torch.set_num_threads(1)
    torch.manual_seed(4)
    train_set, val_set = Molecules(2400, seed=1), Molecules(500, seed=2)
    targets = torch.tensor([m["y"] for m in train_set.items])
    mu, sd = targets.mean(), targets.std()
    train_loader = DataLoader(train_set, batch_size=32, shuffle=True, collate_fn=collate)
    val_loader = DataLoader(val_set, batch_size=100, collate_fn=collate)

    model = MPNN()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.StepLR(opt, step_size=5, gamma=0.4)
    for epoch in range(1, epochs + 1):
        model.train()
        losses = []
        for batch in train_loader:
            loss = F.mse_loss(model(batch), (batch["y"] - mu) / sd)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        sched.step()
        mae, r2 = evaluate(model, val_loader, mu, sd)
        print(f"epoch {epoch:2d} train mse {np.mean(losses):.4f} val mae {mae:.4f} val r2 {r2:.4f}")


if __name__ == "__main__":
    main()
