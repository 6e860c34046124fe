"""Contextual pricing policy for train fares, learned by policy gradient in a booking simulator."""
import argparse
from dataclasses import dataclass

import torch
from torch import nn
from torch.distributions import Normal


@dataclass
class Market:
    """Willingness to pay depends on days to departure, occupancy and weekday."""
    seed: int

    def __post_init__(self):
        self.gen = torch.Generator().manual_seed(self.seed)

    def contexts(self, n):
        days = torch.rand(n, generator=self.gen) * 60
        occupancy = torch.rand(n, generator=self.gen)
        weekend = (torch.rand(n, generator=self.gen) < 2 / 7).float()
        return torch.stack([days / 60, occupancy, weekend], 1)

    @staticmethod
    def reservation(ctx):
        return 40 + 45 * (1 - ctx[:, 0]) + 25 * ctx[:, 1] + 12 * ctx[:, 2]

    def book(self, ctx, price):
        """Expected number of seats sold at that price, out of ten requests."""
        return 10 * torch.sigmoid((self.reservation(ctx) - price) / 8.0)


class FarePolicy(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.mean = nn.Linear(hidden, 1)
        self.raw_std = nn.Parameter(torch.tensor(-0.8))

    def forward(self, ctx):
        mu = 1.5 + self.mean(self.body(ctx)).squeeze(1)
        return Normal(mu, 0.05 + nn.functional.softplus(self.raw_std))


class Baseline(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def forward(self, ctx):
        return self.net(ctx).squeeze(1)


PRICE_UNIT = 20.0


def revenue(market, ctx, action):
    price = (action * PRICE_UNIT).clamp(5.0, 200.0)
    return price * market.book(ctx, price) / 1000.0


@torch.no_grad()
def evaluate(policy, market, ctx):
    policy.eval()
    earned = revenue(market, ctx, policy(ctx).mean).mean()
    grid = torch.linspace(1.0, 7.0, 121)
    best = torch.stack([revenue(market, ctx, g.expand(len(ctx))) for g in grid]).max(0).values.mean()
    return earned.item(), best.item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--updates", type=int, default=400)
    ap.add_argument("--batch", type=int, default=256)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--entropy", type=float, default=1e-3)
    ap.add_argument("--seed", type=int, default=4)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    market, test_market = Market(args.seed), Market(args.seed + 1000)
    test_ctx = test_market.contexts(2000)

    policy, baseline = FarePolicy(), Baseline()
    opt = torch.optim.Adam(policy.parameters(), lr=args.lr)
    opt_base = torch.optim.Adam(baseline.parameters(), lr=args.lr)
    for update in range(1, args.updates + 1):
        policy.train()
        ctx = market.contexts(args.batch)
        dist = policy(ctx)
        action = dist.sample()
        reward = revenue(market, ctx, action.detach())
        value = baseline(ctx)
        advantage = (reward - value).detach()
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
        loss = -(advantage * dist.log_prob(action)).mean() - args.entropy * dist.entropy().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()

        base_loss = ((value - reward) ** 2).mean()
        opt_base.zero_grad()
        base_loss.backward()
        opt_base.step()
        if update % 100 == 0:
            earned, best = evaluate(policy, test_market, test_ctx)
            print(f"update {update} reward {reward.mean():.4f} baseline mse {base_loss:.5f} "
                  f"held-out revenue {earned:.4f} ({100 * earned / best:.1f}% of the optimum)")


if __name__ == "__main__":
    main()
