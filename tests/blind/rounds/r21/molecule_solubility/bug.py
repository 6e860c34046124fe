"""Message passing network for a solubility score of small drug-like molecules."""
import random
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader

ATOMS = ["C", "N", "O", "S", "F"]
BASE = {"C": -0.35, "N": 0.25, "O": 0.35, "S": -0.1, "F": -0.2}


@dataclass
class Molecule:
    atoms: torch.Tensor        # (n,) atom type
    bonds: torch.Tensor        # (2, m) both directions
    target: float


def random_molecule(rng):
    n = rng.randint(6, 14)
    kinds = [rng.choices(range(5), [6, 2, 2, 1, 1])[0] for _ in range(n)]
    pairs = [(i, rng.randrange(max(0, i - 3), i)) for i in range(1, n)]
    if n > 8 and rng.random() < 0.6:                       # close a ring
        a = rng.randrange(0, n - 5)
        pairs.append((a, a + 5))
    near = [[] for _ in range(n)]
    for a, b in pairs:
        near[a].append(b)
        near[b].append(a)

    score = 0.0
    for i, k in enumerate(kinds):
        name = ATOMS[k]
        score += 0.3 * BASE[name]
        polar = sum(ATOMS[kinds[j]] in "NO" for j in near[i])
        carbon = sum(ATOMS[kinds[j]] == "C" for j in near[i])
        if name == "C":
            score += 0.8 * polar - 0.25 * max(carbon - 1, 0)
        elif name in "NO":
            score -= 0.9 * polar
    score += rng.gauss(0, 0.1)
    both = [(a, b) for a, b in pairs] + [(b, a) for a, b in pairs]
    return Molecule(torch.tensor(kinds), torch.tensor(both).t(), score)


def collate(batch):
    atoms, bonds, owner, targets = [], [], [], []
    offset = 0
    for g, mol in enumerate(batch):
        n = len(mol.atoms)
        atoms.append(mol.atoms)
        bonds.append(mol.bonds)
        owner.append(torch.full((n,), g))
        targets.append(mol.target)
        offset += n
    return torch.cat(atoms), torch.cat(bonds, 1), torch.cat(owner), torch.tensor(targets)


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.message = nn.Linear(width, width)
        self.update = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, width))
        self.norm = nn.LayerNorm(width)

    def forward(self, h, bonds):
        src, dst = bonds
        inbox = torch.zeros_like(h).index_add(0, dst, self.message(h)[src])
        return self.norm(h + self.update(torch.cat([h, inbox], 1)))


class SolubilityNet(nn.Module):
    def __init__(self, width=40, depth=2):
        super().__init__()
        self.embed = nn.Embedding(len(ATOMS), width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(depth))
        self.readout = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, atoms, bonds, owner):
        h = self.embed(atoms)
        for layer in self.layers:
            h = layer(h, bonds)
        graphs = int(owner.max()) + 1
        per_atom = self.readout(h).squeeze(1)
        return torch.zeros(graphs).index_add(0, owner, per_atom)


def evaluate(model, loader, mean, std):
    model.eval()
    errors, truth = [], []
    with torch.no_grad():
        for atoms, bonds, owner, y in loader:
            errors.append(model(atoms, bonds, owner) * std + mean - y)
            truth.append(y)
    e, y = torch.cat(errors), torch.cat(truth)
    return e.pow(2).mean().sqrt().item(), (1 - e.pow(2).sum() / (y - y.mean()).pow(2).sum()).item()


def main(epochs=8, batch=50, lr=4e-3, seed=8):
    torch.manual_seed(seed)
    rng = random.Random(seed)
    molecules = [random_molecule(rng) for _ in range(1500)]
    train_set, val_set = molecules[:1200], molecules[1200:]
    y = torch.tensor([m.target for m in train_set])
    mean, std = y.mean().item(), y.std().item()

    train = DataLoader(train_set, batch, shuffle=True, collate_fn=collate)
    val = DataLoader(val_set, batch, collate_fn=collate)
    model = SolubilityNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for epoch in range(1, epochs + 1):
        model.train()
        total = 0.0
        for atoms, bonds, owner, target in train:
            pred = model(atoms, bonds, owner)
            loss = nn.functional.mse_loss(pred, (target - mean) / std)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(target)
        scheduler.step()
        rmse, r2 = evaluate(model, val, mean, std)
        print(f"epoch {epoch:2d}  train mse {total / len(train_set):.4f}  val rmse {rmse:.3f}  val r2 {r2:.3f}")
    print(f"final val r2 {r2:.4f}")


if __name__ == "__main__":
    main()
