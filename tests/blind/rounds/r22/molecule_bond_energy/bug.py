"""Message passing on small molecules; target is an additive bond energy."""
import torch
from torch import nn

torch.manual_seed(21)
ATOMS = ["C", "N", "O", "F", "S"]
gen = torch.Generator().manual_seed(21)
TABLE = torch.randn(5, 5, generator=gen)
TABLE = TABLE + TABLE.T


class Molecule:
    def __init__(self):
        n = int(torch.randint(6, 15, (1,), generator=gen))
        self.atom = torch.randint(0, 5, (n,), generator=gen)
        bonds = []
        for v in range(1, n):
            lo = max(0, v - 3)
            u = int(torch.randint(lo, v, (1,), generator=gen))
            bonds.append((u, v))
        for _ in range(2):
            u, v = torch.randint(0, n, (2,), generator=gen).tolist()
            if abs(u - v) > 2:
                bonds.append((u, v))
        e = torch.tensor(bonds).T
        self.energy = TABLE[self.atom[e[0]], self.atom[e[1]]].sum() + 0.05 * torch.randn((), generator=gen)
        self.bonds = torch.cat([e, e.flip(0)], 1)


def batchify(mols):
    atoms, bonds, owner = [], [], []
    offset = 0
    for k, m in enumerate(mols):
        atoms.append(m.atom)
        bonds.append(m.bonds)
        owner.append(torch.full((len(m.atom),), k))
        offset += len(m.atom)
    target = torch.stack([m.energy for m in mols])
    return torch.cat(atoms), torch.cat(bonds, 1), torch.cat(owner), target


class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(2 * d, d), nn.SiLU(), nn.Linear(d, d))
        self.update = nn.Linear(2 * d, d)

    def forward(self, h, bonds):
        src, dst = bonds
        msg = self.message(torch.cat([h[src], h[dst]], -1))
        agg = torch.zeros_like(h).index_add_(0, dst, msg)
        return h + torch.nn.functional.silu(self.update(torch.cat([h, agg], -1)))


class EnergyNet(nn.Module):
    def __init__(self, d=32, depth=2):
        super().__init__()
        self.embed = nn.Embedding(len(ATOMS), d)
        self.layers = nn.ModuleList([Layer(d) for _ in range(depth)])
        self.readout = nn.Sequential(nn.Linear(d, d), nn.SiLU(), nn.Linear(d, 1))

    def forward(self, atoms, bonds, owner, n_mol):
        h = self.embed(atoms)
        for layer in self.layers:
            h = layer(h, bonds)
        per_atom = self.readout(h).squeeze(-1)
        return torch.zeros(n_mol).index_add_(0, owner, per_atom)


molecules = [Molecule() for _ in range(1600)]
train, valid = molecules[:1300], molecules[1300:]
scale = torch.stack([m.energy for m in train])
mean, std = scale.mean(), scale.std()

net = EnergyNet()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
EPOCHS, BATCH = 14, 32
sched = torch.optim.lr_scheduler.OneCycleLR(opt, 4e-3, total_steps=EPOCHS * (len(train) // BATCH))


def mae():
    net.eval()
    err = []
    with torch.no_grad():
        for m in valid:
            atoms, bonds, owner, y = batchify([m])
            err.append((net(atoms, bonds, owner, 1) * std + mean - y).abs())
    return torch.cat(err).mean().item()


for epoch in range(EPOCHS):
    net.train()
    perm = torch.randperm(len(train))
    total = 0.0
    for b in range(len(train) // BATCH):
        chunk = [train[i] for i in perm[b * BATCH:(b + 1) * BATCH].tolist()]
        atoms, bonds, owner, y = batchify(chunk)
        pred = net(atoms, bonds, owner, len(chunk))
        loss = (pred - (y - mean) / std).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        total += loss.item()
    if epoch % 6 == 1:
        print(f"epoch {epoch} mse {total / (len(train) // BATCH):.4f} valid MAE {mae():.3f}")
print(f"valid MAE {mae():.4f}")
