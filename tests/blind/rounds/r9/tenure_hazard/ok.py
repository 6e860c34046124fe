"""Discrete-time hazard model of employee tenure: chance to resign in each month of service."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn

MONTHS = 36


def make_roster(n, gen):
    """Employees hired over three years; tenure is only observed up to the extract date."""
    dept = torch.randint(0, 8, (n,), generator=gen)
    pay_ratio = 1.0 + 0.15 * torch.randn(n, generator=gen)
    commute = torch.rand(n, generator=gen) * 90
    overtime = (torch.rand(n, generator=gen) < 0.3).float()
    dept_effect = torch.linspace(-0.5, 0.5, 8)[dept]
    logit = -4.2 - 3.0 * (pay_ratio - 1) + 0.012 * commute + 0.9 * overtime + dept_effect
    hazard = torch.sigmoid(logit)[:, None].expand(n, MONTHS)
    quits = torch.rand(n, MONTHS, generator=gen) < hazard
    first_quit = torch.where(quits.any(1), quits.float().argmax(1), torch.full((n,), MONTHS))
    followed = torch.randint(4, MONTHS, (n,), generator=gen)
    month = torch.minimum(first_quit, followed)
    resigned = (first_quit <= followed).float()
    numeric = torch.stack([pay_ratio, commute, overtime], 1)
    return dept, numeric, month, resigned, first_quit


class HazardNet(nn.Module):
    def __init__(self, n_dept, n_num, width=32):
        super().__init__()
        self.dept = nn.Embedding(n_dept, 4)
        self.body = nn.Sequential(nn.Linear(4 + n_num, width), nn.ReLU(), nn.Dropout(0.1),
                                  nn.Linear(width, MONTHS))

    def forward(self, dept, numeric):
        return self.body(torch.cat([self.dept(dept), numeric], 1))


def hazard_loss(logits, month, resigned):
    steps = torch.arange(MONTHS)
    at_risk = (steps[None, :] <= month[:, None]).float()
    left = (steps[None, :] == month[:, None]).float() * resigned[:, None]
    nll = F.binary_cross_entropy_with_logits(logits, left, reduction="none")
    return (nll * at_risk).sum() / at_risk.sum()


def survival(logits):
    return torch.cumprod(1 - torch.sigmoid(logits), dim=1)


def concordance(risk, month, resigned):
    earlier = (month[:, None] < month[None, :]) & (resigned[:, None] > 0)
    return (risk[:, None] > risk[None, :])[earlier].float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--employees", type=int, default=6000)
    ap.add_argument("--epochs", type=int, default=25)
    ap.add_argument("--batch-size", type=int, default=128)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--seed", type=int, default=5)
    args = ap.parse_args()

    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    dept, numeric, month, resigned, full_tenure = make_roster(args.employees, gen)
    order = torch.randperm(args.employees, generator=gen)
    cut = int(0.8 * args.employees)
    tr, va = order[:cut], order[cut:]
    mean, std = numeric[tr].mean(0), numeric[tr].std(0)
    numeric = (numeric - mean) / std

    model = HazardNet(8, numeric.shape[1])
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    for epoch in range(args.epochs):
        model.train()
        running = 0.0
        for idx in tr[torch.randperm(len(tr))].split(args.batch_size):
            loss = hazard_loss(model(dept[idx], numeric[idx]), month[idx], resigned[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            running += loss.item() * len(idx)
        sched.step()
        model.eval()
        with torch.no_grad():
            logits = model(dept[va], numeric[va])
            val = hazard_loss(logits, month[va], resigned[va]).item()
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1:3d} train nll {running / len(tr):.4f} val nll {val:.4f}")

    stay = survival(logits)
    print(f"val concordance {concordance(1 - stay[:, 11], month[va], resigned[va]):.3f}")
    for m in (6, 12, 24):
        actual = (full_tenure[va] >= m).float().mean().item()
        print(f"staying {m:2d} months: predicted {stay[:, m - 1].mean().item():.3f}  later payroll {actual:.3f}")


if __name__ == "__main__":
    main()
