import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(33)
SYMBOLS, LENGTH, TAGS = 7, 12, 3


def corpus(n):
    """Tag: 1 between an opening symbol (0) and the next closing one (1), 2 on a symbol equal to the one before, else 0."""
    x = torch.randint(0, SYMBOLS, (n, LENGTH))
    y = torch.zeros_like(x)
    for r in range(n):
        inside = False
        for t in range(LENGTH):
            s = x[r, t].item()
            if s == 1:
                inside = False
            y[r, t] = 2 if t and s == x[r, t - 1].item() else int(inside)
            if s == 0:
                inside = True
    return x, y


class Tagger(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.embed = nn.Embedding(SYMBOLS, dim)
        self.lstm = nn.LSTM(dim, 32)
        self.tag = nn.Linear(32, TAGS)

    def forward(self, x):
        states, _ = self.lstm(self.embed(x.T))
        return self.tag(states)


class Runner:
    def __init__(self, model, train, val, size=32):
        self.model, self.train_data, self.val_data, self.size = model, train, val, size
        self.optimizer = torch.optim.RMSprop(model.parameters(), lr=5e-3)

    def objective(self, logits, tags):
        return F.cross_entropy(logits.flatten(0, 1), tags.T.flatten())

    def epoch(self):
        self.model.train()
        x, y = self.train_data
        losses = []
        for idx in torch.randperm(len(x)).split(self.size):
            loss = self.objective(self.model(x[idx]), y[idx])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        return sum(losses) / len(losses)

    @torch.no_grad()
    def accuracy(self):
        self.model.eval()
        x, y = self.val_data
        return (self.model(x).argmax(-1).T == y).float().mean().item()


runner = Runner(Tagger(), corpus(1000), corpus(200))
for e in range(8):
    mean_loss = runner.epoch()
    print(f"epoch {e} loss {mean_loss:.3f} val tag accuracy {runner.accuracy():.3f}")
