"""State labelling of machine logs with a linear-chain CRF on top of a small convolution."""
import torch
from torch import nn

STATES, SENSORS, STEPS = 5, 6, 20


def machine_logs(n, seed):
    g = torch.Generator().manual_seed(seed)
    trans = torch.full((STATES, STATES), 0.02)
    for s in range(STATES):
        trans[s, s] = 0.45
        trans[s, (s + 1) % STATES] = 0.5
    level = torch.randn(STATES, SENSORS, generator=torch.Generator().manual_seed(99))
    states = torch.empty(n, STEPS, dtype=torch.long)
    states[:, 0] = torch.randint(0, STATES, (n,), generator=g)
    for t in range(1, STEPS):
        states[:, t] = torch.multinomial(trans[states[:, t - 1]], 1, generator=g).squeeze(1)
    x = level[states] + 1.7 * torch.randn(n, STEPS, SENSORS, generator=g)
    return x, states


class LinearChainCRF(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.trans = nn.Parameter(torch.zeros(k, k))
        self.start = nn.Parameter(torch.zeros(k))

    def gold_score(self, emit, tags):
        score = self.start[tags[:, 0]] + emit[:, 0].gather(1, tags[:, :1]).squeeze(1)
        for t in range(1, tags.shape[1]):
            score = score + self.trans[tags[:, t - 1], tags[:, t]]
            score = score + emit[:, t].gather(1, tags[:, t:t + 1]).squeeze(1)
        return score

    def log_partition(self, emit):
        alpha = self.start + emit[:, 0]
        for t in range(1, emit.shape[1]):
            alpha = torch.logsumexp(alpha.unsqueeze(2) + self.trans, dim=1) + emit[:, t]
        return torch.logsumexp(alpha, dim=1)

    def nll(self, emit, tags):
        return (self.log_partition(emit) - self.gold_score(emit, tags)).mean()

    def decode(self, emit):
        score, back = self.start + emit[:, 0], []
        for t in range(1, emit.shape[1]):
            best, arg = (score.unsqueeze(2) + self.trans).max(dim=1)
            score = best + emit[:, t]
            back.append(arg)
        tag = score.argmax(1)
        path = [tag]
        for arg in reversed(back):
            tag = arg.gather(1, tag.unsqueeze(1)).squeeze(1)
            path.append(tag)
        return torch.stack(path[::-1], dim=1)


class StateLabeller(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.conv = nn.Conv1d(SENSORS, hidden, 1)
        self.emit = nn.Linear(hidden, STATES)
        self.crf = LinearChainCRF(STATES)

    def features(self, x):
        return self.emit(torch.relu(self.conv(x.transpose(1, 2))).transpose(1, 2))

    def loss(self, x, tags):
        return self.crf.nll(self.features(x), tags)

    @torch.no_grad()
    def predict(self, x):
        return self.crf.decode(self.features(x))


if __name__ == "__main__":
    torch.manual_seed(31)
    x, tags = machine_logs(600, 1)
    xt, tags_t = machine_logs(300, 2)
    mean, std = x.mean((0, 1)), x.std((0, 1))
    x, xt = (x - mean) / std, (xt - mean) / std
    model = StateLabeller()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(10):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(40):
            loss = model.loss(x[idx], tags[idx])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            total += loss.item() * len(idx)
        print(f"epoch {epoch} nll {total / len(x):.4f}")
    model.eval()
    acc = (model.predict(xt) == tags_t).float().mean().item()
    print(f"test_acc={acc:.4f}")
