"""Head-to-head model for tennis: who wins a duel, from season statistics of the two players."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(5)
N_PLAYERS, N_STATS, N_MATCHES = 180, 8, 6000
STAT_NAMES = ["ace_rate", "first_in", "first_won", "second_won", "return_won", "bp_saved", "rest_days", "age"]


def play_season():
    stats = torch.randn(N_PLAYERS, N_STATS)
    weight = torch.tensor([0.5, 0.2, 0.6, 0.4, 0.7, 0.3, 0.15, -0.2])
    strength = stats @ weight + 0.5 * stats[:, 0] * stats[:, 2]
    a = torch.randint(N_PLAYERS, (N_MATCHES,))
    b = (a + torch.randint(1, N_PLAYERS, (N_MATCHES,))) % N_PLAYERS
    a_wins = torch.rand(N_MATCHES) < torch.sigmoid(strength[a] - strength[b])
    winner = torch.where(a_wins, a, b)
    loser = torch.where(a_wins, b, a)
    form = 0.3 * torch.randn(N_MATCHES, 2, N_STATS)
    return stats, winner, loser, form


def to_duels(stats, winner, loser, form):
    """One row per match: stats of player one, stats of player two, did player one win."""
    x_w = stats[winner] + form[:, 0]
    x_l = stats[loser] + form[:, 1]
    swap = (torch.rand(len(winner)) < 0.5).unsqueeze(1)
    one = torch.where(swap, x_l, x_w)
    two = torch.where(swap, x_w, x_l)
    y = 1.0 - swap.squeeze(1).float()
    return one, two, y


class DuelNet(nn.Module):
    def __init__(self, n_stats, hidden=32):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(n_stats, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.compare = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.ReLU(), nn.Dropout(0.1), nn.Linear(hidden, 1))

    def forward(self, one, two):
        return self.compare(torch.cat([self.encoder(one), self.encoder(two)], dim=1)).squeeze(1)


class Trainer:
    def __init__(self, model, lr=2e-3, batch_size=128):
        self.model = model
        self.batch_size = batch_size
        self.opt = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=1e-2)

    def fit_epoch(self, one, two, y):
        self.model.train()
        total = 0.0
        for idx in torch.randperm(len(y)).split(self.batch_size):
            self.opt.zero_grad()
            loss = F.binary_cross_entropy_with_logits(self.model(one[idx], two[idx]), y[idx])
            loss.backward()
            self.opt.step()
            total += loss.item() * len(idx)
        return total / len(y)

    @torch.no_grad()
    def score(self, one, two, y):
        self.model.eval()
        logit = self.model(one, two)
        loss = F.binary_cross_entropy_with_logits(logit, y).item()
        return loss, ((logit > 0).float() == y).float().mean().item()

    @torch.no_grad()
    def consistency(self, one, two):
        """Share of duels where exchanging the two players also exchanges the predicted winner."""
        self.model.eval()
        return ((self.model(one, two) > 0) != (self.model(two, one) > 0)).float().mean().item()


stats, winner, loser, form = play_season()
one, two, y = to_duels(stats, winner, loser, form)
cut = int(0.75 * N_MATCHES)          # matches are in calendar order
trainer = Trainer(DuelNet(N_STATS))
for epoch in range(12):
    tr = trainer.fit_epoch(one[:cut], two[:cut], y[:cut])
    va, acc = trainer.score(one[cut:], two[cut:], y[cut:])
    print(f"epoch {epoch:2d}  train {tr:.4f}  late-season {va:.4f}  accuracy {acc:.3f}")
print(f"order consistency {trainer.consistency(one[cut:], two[cut:]):.3f}")
