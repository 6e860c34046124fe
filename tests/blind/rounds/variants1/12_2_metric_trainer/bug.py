from functools import cached_property
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(50)
CLASSES, DIM = 10, 32
mix = torch.randn(8, DIM)
centres = torch.randn(CLASSES, 8)


def draw(labels):
    code = centres[labels] + 0.4 * torch.randn(len(labels), 8)
    return torch.tanh(code @ mix / 2) + 0.5 * torch.randn(len(labels), DIM)


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(DIM, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 8))

    def forward(self, x):
        return F.normalize(self.net(x), dim=-1)


class MetricTrainer:
    """Triplet training; scored by the nearest neighbour in a gallery."""

    def __init__(self, model, lr=1e-2, margin=0.4):
        self.model, self.lr, self.margin = model, lr, margin

    @property
    def optimizer(self):
        return torch.optim.Adam(self.model.parameters(), lr=self.lr)

    @cached_property
    def gallery(self):
        labels = torch.arange(200) % CLASSES
        return draw(labels), labels

    @cached_property
    def queries(self):
        labels = torch.arange(400) % CLASSES
        return draw(labels), labels

    def triplet(self, n=64):
        a = torch.randint(0, CLASSES, (n,))
        b = (a + torch.randint(1, CLASSES, (n,))) % CLASSES
        return draw(a), draw(a), draw(b)

    def step(self):
        self.model.train()
        anchor, same, other = (self.model(x) for x in self.triplet())
        near, far = (anchor - same).pow(2).sum(-1), (anchor - other).pow(2).sum(-1)
        loss = F.relu(near - far + self.margin).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    @torch.no_grad()
    def recall(self):
        self.model.eval()
        similar = self.model(self.queries[0]) @ self.model(self.gallery[0]).t()
        return (self.gallery[1][similar.argmax(1)] == self.queries[1]).float().mean().item()


trainer = MetricTrainer(Embedder())
for k in range(6):
    losses = [trainer.step() for _ in range(50)]
    print(f"step {50 * (k + 1)} loss {sum(losses) / 50:.4f} recall at one {trainer.recall():.3f}")
