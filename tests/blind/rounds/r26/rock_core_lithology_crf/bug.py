"""Lithology of drill cores from logging tools: convolution over depth with a linear chain on top."""
import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)
ROCKS = ["sandstone", "siltstone", "shale", "limestone", "coal"]
K = len(ROCKS)


def drill(n, length, rng):
    """Logs per half metre: gamma ray (API), density (g/cm3), sonic (us/ft), resistivity (log10 ohm m)."""
    follow = np.array([[.86, .10, .02, .02, .00], [.08, .80, .10, .01, .01], [.01, .08, .82, .05, .04],
                       [.04, .02, .08, .86, .00], [.05, .15, .20, .00, .60]])
    centre = np.array([[45, 2.35, 85, 1.5], [75, 2.45, 80, 1.2], [110, 2.50, 95, .8], [30, 2.65, 60, 2.2], [40, 1.60, 120, 2.4]])
    spread = np.array([32, 0.22, 18, 0.6])
    rock = np.zeros((n, length), dtype=np.int64)
    rock[:, 0] = rng.integers(0, K, n)
    for t in range(1, length):
        cum = follow[rock[:, t - 1]].cumsum(1)
        rock[:, t] = np.minimum((rng.random((n, 1)) > cum).sum(1), K - 1)
    offset = rng.normal(0, 0.35, (n, 1, 4)) * spread
    logs = centre[rock] + offset + rng.normal(0, 1, (n, length, 4)) * spread
    return logs.astype(np.float32), rock


class Chain(nn.Module):
    """Linear chain over K states with start and transition scores."""

    def __init__(self, states):
        super().__init__()
        self.start = nn.Parameter(torch.zeros(states))
        self.move = nn.Parameter(torch.zeros(states, states))

    def path_score(self, unary, path):
        score = self.start[path[:, 0]] + unary.gather(2, path.unsqueeze(2)).squeeze(2).sum(1)
        return score + self.move[path[:, :-1], path[:, 1:]].sum(1)

    def log_total(self, unary):
        u, move, start = (a.data.double() for a in (unary, self.move, self.start))
        alpha = start + u[:, 0]
        for t in range(1, u.shape[1]):
            alpha = torch.logsumexp(alpha.unsqueeze(2) + move, dim=1) + u[:, t]
        return torch.logsumexp(alpha, dim=1).float()

    def forward(self, unary, path):
        return (self.log_total(unary) - self.path_score(unary, path)).mean() / unary.shape[1]

    @torch.no_grad()
    def decode(self, unary):
        best, back = self.start + unary[:, 0], []
        for t in range(1, unary.shape[1]):
            top, arg = (best.unsqueeze(2) + self.move).max(dim=1)
            best = top + unary[:, t]
            back.append(arg)
        state = best.argmax(1)
        path = [state]
        for arg in reversed(back):
            state = arg.gather(1, state.unsqueeze(1)).squeeze(1)
            path.append(state)
        return torch.stack(path[::-1], dim=1)


class CoreNet(nn.Module):
    def __init__(self, tools=4, width=24):
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(tools, width, 5, padding=2), nn.ReLU(),
                                  nn.Conv1d(width, width, 3, padding=1), nn.ReLU(), nn.Conv1d(width, K, 1))
        self.chain = Chain(K)

    def unary(self, logs):
        return self.body(logs.transpose(1, 2)).transpose(1, 2)


def main():
    torch.manual_seed(4)
    rng = np.random.default_rng(4)
    x, y = drill(900, 32, rng)
    xv, yv = drill(300, 32, rng)
    mean, std = x.mean((0, 1)), x.std((0, 1))
    x, xv = torch.from_numpy((x - mean) / std), torch.from_numpy((xv - mean) / std)
    y, yv = torch.from_numpy(y), torch.from_numpy(yv)

    net = CoreNet()
    opt = torch.optim.Adam(net.parameters(), lr=4e-3)
    epochs = 10
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs, eta_min=4e-4)
    for epoch in range(1, epochs + 1):
        net.train()
        total, parts = 0.0, torch.randperm(len(x)).split(45)
        for i in parts:
            loss = net.chain(net.unary(x[i]), y[i])
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 2.0)
            opt.step()
            total += loss.item()
        sched.step()
        net.eval()
        with torch.no_grad():
            u = net.unary(xv)
            nll = net.chain(u, yv).item()
        hit = (net.chain.decode(u) == yv).float().mean().item()
        print(f"epoch {epoch:2d}  nll {total / len(parts):.4f}  validation nll {nll:.4f}  correct half metres {hit:.3f}")


if __name__ == "__main__":
    main()
