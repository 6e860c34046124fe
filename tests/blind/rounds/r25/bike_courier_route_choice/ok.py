"""Which of the offered routes does a bicycle courier take? Neural utility per route, one choice among six."""
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

ROUTE = ["km", "climb_m", "cobbles_km", "bike_lane_km", "traffic_lights", "tram_km"]
TRIP = ["rain_mm", "load_kg", "rider_years", "after_dark"]
ROUTES = 6


@dataclass
class Settings:
    trips: int = 6000
    val_trips: int = 1500
    batch: int = 128
    epochs: int = 20
    width: int = 48
    lr: float = 2e-3
    seed: int = 44


def simulate(n, seed):
    """Routes of a trip resemble each other: the crow's distance decides most of their length."""
    rng = np.random.default_rng(seed)
    crow = rng.gamma(4.0, 1.1, (1, n)) + 0.8
    km = crow * (1.15 + np.abs(rng.normal(0, 0.18, (ROUTES, n))))
    hill = rng.gamma(2.0, 9.0, (1, n))
    climb = hill * rng.uniform(0.5, 1.5, (ROUTES, n)) * np.sqrt(km)
    cobbles = km * rng.beta(1.2, 6.0, (ROUTES, n))
    lane = km * rng.beta(2.0, 2.5, (ROUTES, n))
    lights = rng.poisson(1.6 * km)
    tram = km * rng.beta(1.0, 8.0, (ROUTES, n))
    rain = rng.gamma(0.5, 2.0, n)
    load = rng.gamma(2.5, 3.0, n)
    years = rng.gamma(2.0, 2.0, n)
    dark = (rng.random(n) < 0.3).astype(float)
    u = (-2.6 * km - (0.020 + 0.003 * load) * climb - (0.9 + 0.4 * rain) * cobbles
         + (0.9 + 0.8 * dark) * lane / (1 + 0.15 * years) - 0.22 * lights - (0.6 + 0.5 * rain) * tram)
    choice = (1.3 * u + rng.gumbel(size=u.shape)).argmax(0)
    routes = np.stack([km, climb, cobbles, lane, lights, tram], -1)
    trip = np.stack([rain, load, years, dark], -1)
    return (torch.tensor(routes, dtype=torch.float32), torch.tensor(trip, dtype=torch.float32),
            torch.tensor(choice))


class Utility(nn.Module):
    """The same small network rates every route, knowing the trip it belongs to."""

    def __init__(self, width):
        super().__init__()
        self.route = nn.Linear(len(ROUTE), width)
        self.trip = nn.Linear(len(TRIP), width, bias=False)
        self.rest = nn.Sequential(nn.ELU(), nn.Linear(width, width), nn.ELU(), nn.Linear(width, 1))
        self.straight = nn.Linear(len(ROUTE), 1, bias=False)

    def forward(self, routes, trip):
        h = self.route(routes) + self.trip(trip).unsqueeze(0)
        return (self.rest(h) + self.straight(routes)).squeeze(-1)


class ChoiceFit:
    def __init__(self, cfg, data):
        self.cfg = cfg
        routes, trip, self.choice = data
        self.r_stat = routes.mean((0, 1)), routes.std((0, 1))
        self.t_stat = trip.mean(0), trip.std(0)
        self.routes, self.trip = self.scale(routes, trip)
        self.net = Utility(cfg.width)
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=cfg.lr, weight_decay=1e-3)
        self.plan = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, cfg.epochs)

    def scale(self, routes, trip):
        return (routes - self.r_stat[0]) / self.r_stat[1], (trip - self.t_stat[0]) / self.t_stat[1]

    def loss(self, u, choice):
        log_share = u - torch.logsumexp(u, dim=0, keepdim=True)
        taken = log_share[choice, torch.arange(len(choice))]
        return -taken.mean()

    def epoch(self):
        self.net.train()
        total = 0.0
        for idx in torch.randperm(len(self.choice)).split(self.cfg.batch):
            loss = self.loss(self.net(self.routes[:, idx], self.trip[idx]), self.choice[idx])
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            total += loss.item() * len(idx)
        self.plan.step()
        return total / len(self.choice)

    @torch.no_grad()
    def check(self, routes, trip, choice):
        self.net.eval()
        u = self.net(*self.scale(routes, trip))
        order = u.argsort(dim=0, descending=True)
        place = (order == choice).float().argmax(0)
        return (place == 0).float().mean().item(), (place < 2).float().mean().item()


def main():
    cfg = Settings()
    torch.manual_seed(cfg.seed)
    fit = ChoiceFit(cfg, simulate(cfg.trips, 7))
    held = simulate(cfg.val_trips, 8)
    shortest = (held[0][..., 0].argmin(0) == held[2]).float().mean().item()
    print(f"always the shortest route: {shortest:.3f}")
    for e in range(1, cfg.epochs + 1):
        loss = fit.epoch()
        if e % 4 == 0 or e == 1:
            first, two = fit.check(*held)
            print(f"epoch {e:2d}  loss {loss:.4f}  val hit {first:.3f}  among best two {two:.3f}")


if __name__ == "__main__":
    main()
