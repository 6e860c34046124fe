"""Neural pair potential for small clusters, fitted to energies and forces."""
import argparse
import torch
import torch.nn as nn

ap = argparse.ArgumentParser()
ap.add_argument("--epochs", type=int, default=40)
ap.add_argument("--batch", type=int, default=16)
ap.add_argument("--force_weight", type=float, default=10.0)
ap.add_argument("--lr", type=float, default=3e-3)
args = ap.parse_args()
torch.manual_seed(11)
torch.set_default_dtype(torch.float64)

N_ATOMS = 6
iu, ju = torch.triu_indices(N_ATOMS, N_ATOMS, offset=1)


def pair_dist(pos):
    return (pos[:, iu] - pos[:, ju]).norm(dim=-1)


def reference(pos):
    pos = pos.clone().requires_grad_(True)
    r = pair_dist(pos)
    morse = (1 - torch.exp(-1.6 * (r - 1.2))) ** 2 - 1
    three = 0.15 * torch.cos(3.0 * r)
    e = (morse + three).sum(1)
    f = -torch.autograd.grad(e.sum(), pos)[0]
    return e.detach(), f


def sample_clusters(n):
    grid = torch.tensor([[x, y, z] for x in (0., 1.3) for y in (0., 1.3) for z in (0., 1.3)])[:N_ATOMS]
    return grid + 0.17 * torch.randn(n, N_ATOMS, 3)


pos_tr, pos_va, pos_te = sample_clusters(64), sample_clusters(64), sample_clusters(200)
e_tr, f_tr = reference(pos_tr)
e_va, f_va = reference(pos_va)
e_te, f_te = reference(pos_te)
e_shift = e_tr.mean()
scale = f_tr.std()


class PairNet(nn.Module):
    def __init__(self, n_rbf=20, hidden=48):
        super().__init__()
        self.register_buffer("mu", torch.linspace(0.5, 3.5, n_rbf))
        self.gamma = 20.0
        self.net = nn.Sequential(nn.Linear(n_rbf, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 1))

    def forward(self, pos):
        r = pair_dist(pos)
        rbf = torch.exp(-self.gamma * (r[..., None] - self.mu) ** 2)
        return self.net(rbf).sum((1, 2))


def energy_forces(model, pos, training):
    pos = pos.clone().requires_grad_(True)
    e = model(pos)
    f = -torch.autograd.grad(e.sum(), pos, create_graph=training)[0]
    return e, f


def evaluate(model, pos, e_ref, f_ref):
    model.eval()
    e, f = energy_forces(model, pos, training=False)
    e_mae = (e.detach() + e_shift - e_ref).abs().mean().item()
    f_mae = (f.detach() - f_ref).abs().mean().item()
    return e_mae, f_mae


model = PairNet()
opt = torch.optim.Adam(model.parameters(), lr=args.lr)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=args.epochs)

for epoch in range(args.epochs):
    model.train()
    perm = torch.randperm(len(pos_tr))
    tot_e = tot_f = 0.0
    for k in range(0, len(perm), args.batch):
        idx = perm[k:k + args.batch]
        e, f = energy_forces(model, pos_tr[idx], training=True)
        loss_e = ((e - (e_tr[idx] - e_shift)) ** 2).mean() / N_ATOMS
        loss_f = ((f - f_tr[idx]) ** 2).mean() / scale ** 2
        loss = loss_e + args.force_weight * loss_f
        opt.zero_grad()
        loss.backward()
        opt.step()
        tot_e += loss_e.item() * len(idx)
        tot_f += loss_f.item() * len(idx)
    sched.step()
    if epoch % 5 == 4:
        e_mae, f_mae = evaluate(model, pos_va, e_va, f_va)
        print(f"epoch {epoch + 1:3d} loss_e {tot_e / len(perm):.4f} loss_f {tot_f / len(perm):.4f} "
              f"val E-MAE {e_mae:.4f} F-MAE {f_mae:.4f}")

e_mae, f_mae = evaluate(model, pos_te, e_te, f_te)
print(f"test E-MAE {e_mae:.4f}  F-MAE {f_mae:.4f}  (mean |F| {f_te.abs().mean():.3f})")
