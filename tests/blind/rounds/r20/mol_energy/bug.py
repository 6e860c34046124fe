import logging
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
log = logging.getLogger("molnet")

N_ATOM, N_BOND = 4, 2


@dataclass
class Molecule:
    atoms: np.ndarray
    edges: np.ndarray
    bonds: np.ndarray
    energy: float


def random_molecule(rng, pair_energy, atom_energy):
    n = int(rng.integers(5, 15))
    atoms = rng.integers(0, N_ATOM, n)
    und = [(i, int(rng.integers(max(0, i - 3), i))) for i in range(1, n)]
    for _ in range(int(rng.integers(0, 3))):
        i, j = rng.choice(n, 2, replace=False)
        if (i, j) not in und and (j, i) not in und:
            und.append((int(i), int(j)))
    kinds = rng.integers(0, N_BOND, len(und))
    energy = atom_energy[atoms].sum()
    for (i, j), k in zip(und, kinds):
        a, b = sorted((atoms[i], atoms[j]))
        energy += pair_energy[a, b, k]
    deg = np.bincount(np.array(und).ravel(), minlength=n)
    energy += 0.3 * (deg[atoms == 2] ** 2).sum()
    both = np.array(und + [(j, i) for i, j in und]).T
    return Molecule(atoms, both, np.concatenate([kinds, kinds]), float(energy))


class MoleculeSet(Dataset):
    def __init__(self, molecules):
        self.molecules = molecules

    def __len__(self):
        return len(self.molecules)

    def __getitem__(self, i):
        m = self.molecules[i]
        return torch.from_numpy(m.atoms), torch.from_numpy(m.edges), torch.from_numpy(m.bonds), m.energy


def collate(items):
    atoms, edges, bonds, owner, energy = [], [], [], [], []
    for g, (a, e, b, y) in enumerate(items):
        edges.append(e)
        atoms.append(a)
        bonds.append(b)
        owner.append(torch.full((len(a),), g))
        energy.append(y)
    return (torch.cat(atoms), torch.cat(edges, 1), torch.cat(bonds), torch.cat(owner),
            torch.tensor(energy, dtype=torch.float32))


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(3 * dim, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.update = nn.Sequential(nn.Linear(2 * dim, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, h, src, dst, bond):
        m = self.message(torch.cat([h[src], h[dst], bond], 1))
        agg = torch.zeros_like(h).index_add_(0, dst, m)
        return h + self.update(torch.cat([h, agg], 1))


class MolNet(nn.Module):
    def __init__(self, dim=48, depth=2):
        super().__init__()
        self.atom = nn.Embedding(N_ATOM, dim)
        self.bond = nn.Embedding(N_BOND, dim)
        self.layers = nn.ModuleList(Layer(dim) for _ in range(depth))
        self.readout = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, 1))

    def forward(self, atoms, edges, bonds, owner, n_graphs):
        h, b = self.atom(atoms), self.bond(bonds)
        for layer in self.layers:
            h = layer(h, edges[0], edges[1], b)
        per_atom = self.readout(h).squeeze(1)
        return torch.zeros(n_graphs).index_add_(0, owner, per_atom)


def run_epoch(net, loader, scale, opt=None):
    net.train(opt is not None)
    err = count = 0.0
    with torch.set_grad_enabled(opt is not None):
        for atoms, edges, bonds, owner, y in loader:
            pred = net(atoms, edges, bonds, owner, len(y))
            loss = nn.functional.smooth_l1_loss(pred, y / scale)
            if opt is not None:
                opt.zero_grad()
                loss.backward()
                opt.step()
            err += (pred.detach() * scale - y).abs().sum().item()
            count += len(y)
    return err / count


def main():
    torch.manual_seed(5)
    rng = np.random.default_rng(5)
    pair_energy = rng.normal(-1.0, 1.0, (N_ATOM, N_ATOM, N_BOND))
    atom_energy = rng.normal(0.0, 0.5, N_ATOM)
    mols = [random_molecule(rng, pair_energy, atom_energy) for _ in range(2600)]
    train, val, test = mols[:2000], mols[2000:2300], mols[2300:]
    y = np.array([m.energy for m in train])
    scale = float(y.std())

    loaders = [DataLoader(MoleculeSet(part), 32, shuffle=i == 0, collate_fn=collate)
               for i, part in enumerate((train, val, test))]
    net = MolNet()
    opt = torch.optim.Adam(net.parameters(), lr=4e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 16)
    best, best_state = float("inf"), None
    for epoch in range(16):
        tr = run_epoch(net, loaders[0], scale, opt)
        va = run_epoch(net, loaders[1], scale)
        sched.step()
        if va < best:
            best, best_state = va, {k: v.clone() for k, v in net.state_dict().items()}
        log.info("epoch %2d train MAE %.3f val MAE %.3f", epoch, tr, va)
    net.load_state_dict(best_state)
    trivial = np.abs(np.array([m.energy for m in test]) - np.median(y)).mean()
    log.info("test MAE %.4f (median predictor %.4f)", run_epoch(net, loaders[2], scale), trivial)


if __name__ == "__main__":
    main()
