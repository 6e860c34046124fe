"""Salinity at a fresh water intake in an estuary, six hours ahead, so that the intake
can be shut in time. Input: 36 hours from the gauge, the weir and the buoy."""
import numpy as np
import torch
import torch.nn as nn

SERIES = ["tide_m", "weir_m3s", "wind_up_ms", "salinity_buoy_psu"]
WINDOW, AHEAD = 36, 6


def make_record(hours, rng):
    t = np.arange(hours)
    tide = 1.6 * np.sin(2 * np.pi * t / 12.42) + 0.5 * np.sin(2 * np.pi * t / 12.0 + 1.0)
    weir = np.empty(hours)
    wind = np.empty(hours)
    salt = np.empty(hours)
    weir[0], wind[0], salt[0] = 140.0, 0.0, 4.0
    for i in range(1, hours):
        pulse = rng.exponential(160) if rng.random() < 0.012 else 0.0
        weir[i] = 60 + 0.985 * (weir[i - 1] - 60) + pulse + rng.normal(0, 1.0)
        wind[i] = 0.97 * wind[i - 1] + rng.normal(0, 1.1)
        push = 0.35 * (tide[i - 1] + 1.2) * max(0.0, 1 + 0.09 * wind[max(0, i - 4)])
        flush = 0.0011 * max(weir[max(0, i - 8)], 20.0)
        salt[i] = max(0.1, salt[i - 1] + push - flush * salt[i - 1] - 0.02 * salt[i - 1] + rng.normal(0, 0.05))
    return np.stack([tide, weir, wind, salt], 1).astype(np.float32)


def windows(record, start, stop, step):
    xs, ys = [], []
    for i in range(start, stop - WINDOW - AHEAD, step):
        xs.append(record[i:i + WINDOW].T)
        ys.append(record[i + WINDOW + AHEAD - 1, 3] - record[i + WINDOW - 1, 3])
    return np.stack(xs), np.array(ys, dtype=np.float32)


class IntakeNet(nn.Module):
    def __init__(self, n_series, filters=16, hidden=12):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(n_series, filters, 5, padding=2), nn.ReLU(),
            nn.Conv1d(filters, filters, 5, stride=2, padding=2), nn.ReLU(),
        )
        self.gru = nn.GRU(filters, hidden)
        steps = (WINDOW + 1) // 2
        self.head = nn.Sequential(nn.Linear(steps * hidden, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        z = self.conv(x).permute(2, 0, 1)
        h, _ = self.gru(z)
        flat = h.transpose(0, 1).reshape(x.size(0), -1)
        return self.head(flat)[:, 0]


def predict(net, x, size=128):
    net.eval()
    with torch.no_grad():
        return torch.cat([net(part) for part in x.split(size)])


def train():
    torch.manual_seed(8)
    rng = np.random.default_rng(8)
    record = make_record(9000, rng)
    cut = 7000
    centre, spread = record[:cut].mean(0), record[:cut].std(0)
    scaled = (record - centre) / spread
    x_tr, y_tr = windows(scaled, 0, cut, 4)
    x_va, y_va = windows(scaled, cut, len(record), 4)
    unit = y_tr.std()
    x_tr, y_tr, x_va, y_va = map(torch.from_numpy, (x_tr, y_tr / unit, x_va, y_va / unit))
    to_psu = float(unit * spread[3])

    net = IntakeNet(len(SERIES))
    opt = torch.optim.Adam(net.parameters(), lr=2e-3, weight_decay=1e-5)
    epochs, batch = 12, 64
    plan = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    still = y_va.abs().mean().item() * to_psu
    print(f"{len(x_tr)} training windows, {len(x_va)} validation windows, persistence MAE {still:.3f} psu")
    for epoch in range(1, epochs + 1):
        net.train()
        losses = []
        for rows in torch.randperm(len(x_tr)).split(batch):
            loss = torch.nn.functional.smooth_l1_loss(net(x_tr[rows]), y_tr[rows])
            opt.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 2.0)
            opt.step()
            losses.append(loss.item())
        plan.step()
        if epoch % 4 == 0:
            mae = (predict(net, x_va) - y_va).abs().mean().item() * to_psu
            print(f"epoch {epoch:2d}  train {np.mean(losses):.4f}  val MAE {mae:.3f} psu")


if __name__ == "__main__":
    train()
