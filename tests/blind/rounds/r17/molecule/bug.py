import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F

CHARGES = torch.tensor([8.0, 6.0, 1.0, 1.0])                      # formaldehyde-like: O C H H
REST = torch.tensor([[0.0, 0.0, 1.20], [0.0, 0.0, 0.0], [0.94, 0.0, -0.58], [-0.94, 0.0, -0.58]])
PAIRS = torch.tensor(list(itertools.combinations(range(4), 2)))
DEPTH = torch.tensor([7.6, 0.6, 0.6, 4.5, 4.5, 0.4])              # eV, in the order of PAIRS


def distances(pos):
    return (pos[:, PAIRS[:, 0]] - pos[:, PAIRS[:, 1]]).norm(dim=-1)


R0 = distances(REST[None])[0]


def reference(pos):
    """Energies (eV) and forces (eV/A) of a Morse-like reference method."""
    pos = pos.clone().requires_grad_(True)
    r = distances(pos)
    e = (DEPTH * (1 - torch.exp(-1.7 * (r - R0))) ** 2).sum(1) + 0.02 * (CHARGES[PAIRS].prod(1) / r).sum(1)
    cross = 1.5 * (r[:, 0] - R0[0]) * (r[:, 3] - R0[3]) + 2.0 * (r[:, 3] - R0[3]) * (r[:, 5] - R0[5])
    e = e + cross
    f = -torch.autograd.grad(e.sum(), pos)[0]
    return e.detach(), f


def geometries(n, gen):
    return REST + 0.12 * torch.randn(n, 4, 3, generator=gen)


class Potential(nn.Module):
    def __init__(self, e_mean, e_std, width=64):
        super().__init__()
        self.register_buffer("e_mean", e_mean)
        self.register_buffer("e_std", e_std)
        self.net = nn.Sequential(nn.Linear(12, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, pos):
        r = distances(pos)
        x = torch.cat([(r - R0) / 0.15, (R0 / r - 1) / 0.1], 1)
        return self.net(x).squeeze(1) * self.e_std + self.e_mean


def energy_and_forces(model, pos, training):
    pos = pos.clone().requires_grad_(True)
    energy = model(pos)
    forces = -torch.autograd.grad(energy.sum(), pos, retain_graph=training)[0]
    return energy, forces


torch.manual_seed(27)
gen = torch.Generator().manual_seed(27)
pos, pos_test = geometries(80, gen), geometries(400, gen)
e, f = reference(pos)
e_test, f_test = reference(pos_test)
model = Potential(e.mean(), e.std())
opt = torch.optim.Adam(model.parameters(), lr=4e-3)
steps = 900
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, steps)

for step in range(1, steps + 1):
    b = torch.randint(0, len(pos), (30,))
    e_hat, f_hat = energy_and_forces(model, pos[b], training=True)
    loss_e, loss_f = F.mse_loss(e_hat, e[b]), F.mse_loss(f_hat, f[b])
    loss = loss_e + loss_f
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    if step % 150 == 0:
        print(f"step {step} energy mse {loss_e.item():.5f} force mse {loss_f.item():.5f}")

e_hat, f_hat = energy_and_forces(model, pos_test, training=False)
print(f"test MAE energy {(e_hat - e_test).abs().mean().item():.4f} eV, forces {(f_hat - f_test).abs().mean().item():.4f} eV/A "
      f"(mean size of a force component {f_test.abs().mean().item():.3f})")
