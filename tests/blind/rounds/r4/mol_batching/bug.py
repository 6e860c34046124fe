"""Predict a pairwise-interaction energy of small molecules with a GNN."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

CHARGES = torch.tensor([0.2, -0.5, 0.9, -0.8, 0.4])


class Molecules(Dataset):
    def __init__(self, count, seed):
        gen = torch.Generator().manual_seed(seed)
        self.items = []
        for _ in range(count):
            n = int(torch.randint(5, 12, (1,), generator=gen))
            z = torch.randint(0, len(CHARGES), (n,), generator=gen)
            parent = [(int(torch.randint(0, i, (1,), generator=gen)), i) for i in range(1, n)]
            bonds = torch.tensor(parent).T
            edges = torch.cat([bonds, bonds.flip(0)], 1)
            energy = (CHARGES[z[bonds[0]]] * CHARGES[z[bonds[1]]]).sum()
            self.items.append((z, edges, energy))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(graphs):
    zs, edges, batch, energies = [], [], [], []
    offset = 0
    for i, (z, e, energy) in enumerate(graphs):
        zs.append(z)
        edges.append(e)
        batch.append(torch.full((len(z),), i))
        energies.append(energy)
        offset += len(z)
    return torch.cat(zs), torch.cat(edges, 1), torch.cat(batch), torch.stack(energies)


class MPNN(nn.Module):
    def __init__(self, hidden=48, layers=2):
        super().__init__()
        self.embed = nn.Embedding(len(CHARGES), hidden)
        self.message = nn.ModuleList(nn.Sequential(nn.Linear(2 * hidden, hidden), nn.SiLU(),
                                                   nn.Linear(hidden, hidden)) for _ in range(layers))
        self.update = nn.ModuleList(nn.Linear(2 * hidden, hidden) for _ in range(layers))
        self.readout = nn.Sequential(nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 1))

    def forward(self, z, edges, batch, n_graphs):
        h = self.embed(z)
        src, dst = edges
        for message, update in zip(self.message, self.update):
            m = message(torch.cat([h[src], h[dst]], 1))
            agg = torch.zeros_like(h).index_add(0, dst, m)
            h = h + F.silu(update(torch.cat([h, agg], 1)))
        atom = self.readout(h).squeeze(1)
        return torch.zeros(n_graphs).index_add(0, batch, atom)


def evaluate(model, loader, mean, std):
    model.eval()
    err, count = 0.0, 0
    with torch.no_grad():
        for z, edges, batch, energy in loader:
            pred = model(z, edges, batch, len(energy)) * std + mean
            err += (pred - energy).abs().sum().item()
            count += len(energy)
    return err / count


def main():
    torch.manual_seed(0)
    train, valid = Molecules(1200, 1), Molecules(300, 2)
    target = torch.stack([t[2] for t in train.items])
    mean, std = target.mean(), target.std()
    train_loader = DataLoader(train, 32, shuffle=True, collate_fn=collate)
    valid_loader = DataLoader(valid, 64, collate_fn=collate)
    model = MPNN()
    epochs = 12
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs * len(train_loader))
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for z, edges, batch, energy in train_loader:
            pred = model(z, edges, batch, len(energy))
            loss = F.mse_loss(pred, (energy - mean) / std)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            total += loss.item()
        mae = evaluate(model, valid_loader, mean, std)
        print(f"epoch {epoch:2d} train mse {total / len(train_loader):.4f} valid MAE {mae:.4f} (target std {std:.3f})")


if __name__ == "__main__":
    main()
