import torch
import torch.nn as nn

ATOMS = 4
ENERGY_W, FORCE_W = 0.1, 1.0


def lj_like(pos):
    """Soft pair potential of a four-atom cluster."""
    i, j = torch.triu_indices(ATOMS, ATOMS, 1)
    r2 = ((pos[:, i] - pos[:, j]) ** 2).sum(-1)
    return (torch.exp(-2 * r2) * 6 - 3 * torch.exp(-0.5 * r2)).sum(1)


def frames(n, seed):
    g = torch.Generator().manual_seed(seed)
    corners = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    pos = corners + 0.3 * torch.randn(n, ATOMS, 3, generator=g)
    pos.requires_grad_(True)
    energy = lj_like(pos)
    forces = -torch.autograd.grad(energy.sum(), pos)[0]
    return pos.detach(), energy.detach(), forces


class Potential(nn.Module):
    def __init__(self, n_basis=16, hidden=48):
        super().__init__()
        self.register_buffer("centers", torch.linspace(0.2, 3.0, n_basis))
        self.net = nn.Sequential(nn.Linear(n_basis, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(),
                                 nn.Linear(hidden, 1))

    def forward(self, pos):
        i, j = torch.triu_indices(ATOMS, ATOMS, 1)
        r = ((pos[:, i] - pos[:, j]) ** 2).sum(-1).add(1e-9).sqrt()
        basis = torch.exp(-8 * (r[..., None] - self.centers) ** 2)
        return self.net(basis).sum((1, 2))


def energy_and_forces(model, pos, training):
    pos = pos.detach().requires_grad_(True)
    energy = model(pos)
    grad = torch.autograd.grad(energy.sum(), pos, retain_graph=training)[0]
    return energy, -grad


def validate(model, pos, energy, forces):
    model.eval()
    e, f = energy_and_forces(model, pos, training=False)
    e = e.detach()
    return (e - energy).abs().mean().item(), (f - forces).pow(2).mean().sqrt().item()


def main():
    torch.manual_seed(0)
    pos, energy, forces = frames(240, 1)
    val = frames(300, 2)
    model = Potential()
    with torch.no_grad():
        model.net[-1].bias.fill_(energy.mean().item() / (ATOMS * (ATOMS - 1) / 2))
    epochs = 60
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    for epoch in range(epochs):
        model.train()
        se, sf = 0.0, 0.0
        for idx in torch.randperm(len(pos)).split(24):
            e, f = energy_and_forces(model, pos[idx], training=True)
            loss_e = (e - energy[idx]).pow(2).mean()
            loss_f = (f - forces[idx]).pow(2).mean()
            loss = ENERGY_W * loss_e + FORCE_W * loss_f
            opt.zero_grad()
            loss.backward()
            opt.step()
            se, sf = se + loss_e.item(), sf + loss_f.item()
        sched.step()
        if epoch % 6 == 5:
            print(f"epoch {epoch:2d} energy mse {se / 10:.4f} force mse {sf / 10:.4f}")
    mae, rmse = validate(model, *val)
    print(f"val energy MAE {mae:.4f} force RMSE {rmse:.4f} (force std {val[2].std():.3f})")


if __name__ == "__main__":
    main()
