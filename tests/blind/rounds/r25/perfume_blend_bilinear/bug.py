"""Panel rating of perfume accords from the dosage of their materials (pairwise synergy model)."""
import math

import torch
from torch import nn

MATERIALS = ["bergamot", "limonene", "linalool", "hedione", "iso_e_super", "galaxolide", "vetiver", "patchouli",
             "ambroxan", "vanillin", "coumarin", "cedrol", "geraniol", "eugenol", "cis_3_hexenol", "civetone"]
NOTES = ["fresh", "floral", "woody", "sweet"]


def make_panel(n, seed):
    """Dosages in parts per thousand and the mean rating (0-100) of four notes."""
    g = torch.Generator().manual_seed(71)
    k, m = len(MATERIALS), len(NOTES)
    direct = torch.randn(m, k, generator=g) * 3.0
    pair = torch.randn(m, k, k, generator=g) * 9.0
    pair = pair * (torch.rand(m, k, k, generator=g) < 0.12)
    g = torch.Generator().manual_seed(seed)
    used = (torch.rand(n, k, generator=g) < 0.45).float()
    dose = used * torch.exp(2.0 + 1.0 * torch.randn(n, k, generator=g))
    felt = torch.log1p(dose / 5)
    score = 45 + felt @ direct.T + torch.einsum("ni,mij,nj->nm", felt, pair, felt) / 6
    score = score + 1.5 * torch.randn(n, m, generator=g)
    return dose, score


class Synergy(nn.Module):
    """y_m = x' W_m x, one matrix for each output."""

    def __init__(self, dim, outs):
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(outs, dim, dim) / dim)

    def forward(self, x):
        return torch.einsum("ni,mij,nj->nm", x, self.kernel, x)


class Accord(nn.Module):
    def __init__(self, n_mat, n_notes, dim=16):
        super().__init__()
        self.odour = nn.Linear(n_mat, dim)
        self.norm = nn.LayerNorm(dim)
        self.synergy = Synergy(dim, 6)
        self.plain = nn.Linear(dim, 6)
        self.gain = nn.Parameter(torch.ones(6))
        self.head = nn.Linear(6, n_notes)

    def forward(self, dose):
        x = self.norm(self.odour(torch.log1p(dose / 5)))
        return self.head(self.plain(x) + self.gain * self.synergy(x))


def parameter_groups(model, weight_decay):
    decay, plain = [], []
    for p in model.parameters():
        if p.ndim == 2:
            decay.append(p)
        elif p.ndim == 1:
            plain.append(p)
    return [{"params": decay, "weight_decay": weight_decay}, {"params": plain, "weight_decay": 0.0}]


def rmse_by_note(model, dose, score, centre, spread):
    model.eval()
    with torch.no_grad():
        rating = model(dose) * spread + centre
    return (rating - score).pow(2).mean(0).sqrt()


def main():
    torch.manual_seed(4)
    epochs, batch, peak = 40, 64, 4e-3
    dose, score = make_panel(3000, seed=1)
    vdose, vscore = make_panel(800, seed=2)
    centre, spread = score.mean(0), score.std(0)
    target = (score - centre) / spread

    model = Accord(len(MATERIALS), len(NOTES))
    opt = torch.optim.AdamW(parameter_groups(model, 1e-3), lr=peak)
    per_epoch = math.ceil(len(dose) / batch)
    total = epochs * per_epoch
    step = 0
    for epoch in range(1, epochs + 1):
        model.train()
        order = torch.randperm(len(dose))
        running = 0.0
        for part in order.split(batch):
            for group in opt.param_groups:
                group["lr"] = peak * 0.5 * (1 + math.cos(math.pi * step / total))
            loss = (model(dose[part]) - target[part]).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            running += loss.item() * len(part)
        if epoch % 8 == 0:
            r = rmse_by_note(model, vdose, vscore, centre, spread)
            print(f"epoch {epoch:2d}  train {running / len(dose):.4f}  val rmse {r.mean():.2f} points")

    r = rmse_by_note(model, vdose, vscore, centre, spread)
    for note, v, s in zip(NOTES, r, spread):
        print(f"  {note:7s} rmse {v:.2f} (spread {s:.1f})")
    print(f"val rmse {r.mean():.3f} points")


if __name__ == "__main__":
    main()
