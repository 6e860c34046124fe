import torch
from torch import nn

tokens = torch.randint(20, (400, 6), generator=torch.Generator().manual_seed(0))
labels = (tokens < 8).float().mean(1).gt(0.4).long()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.body = nn.Embedding(20, 16), nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, tokens):
        return self.body(self.embedding(tokens).mean(1))


loss = nn.functional.cross_entropy


def optimizers(model):
    return {"embedding": torch.optim.Adagrad(model.embedding.parameters(), lr=0.2), "body": torch.optim.SGD(model.body.parameters(), lr=0.2, momentum=0.9)}


def schedules(optimizers):
    return {
        "embedding": torch.optim.lr_scheduler.StepLR(optimizers["embedding"], 10, 0.5),
        "body": torch.optim.lr_scheduler.CosineAnnealingLR(optimizers["body"], 50),
    }
