import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def bracket_data(n, length=12):
    """Tokens 0..7; the label tells whether the symbol after the first 0 is greater than 3."""
    x = torch.randint(1, 8, (n, length))
    at = torch.randint(0, length - 1, (n,))
    x[torch.arange(n), at] = 0
    after = x[torch.arange(n), at + 1]
    return TensorDataset(x, (after > 3).float())


class Reader(nn.Module):
    def __init__(self, d=24, h=32):
        super().__init__()
        self.body = nn.ModuleDict({"emb": nn.Embedding(8, d), "rnn": nn.GRU(d, h, batch_first=True)})
        self.head = nn.Sequential(nn.Linear(h, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        h, _ = self.body["rnn"](self.body["emb"](x))
        return self.head(h.amax(1)).squeeze(-1)


class Tuner:
    """Trains the head first and the body from epoch `thaw` on."""

    def __init__(self, model, thaw, head_lr=5e-3, body_lr=1e-2):
        self.model, self.thaw, self.body_lr = model, thaw, body_lr
        self.model.body.requires_grad_(False)
        self.opt = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=head_lr)
        self.loss = nn.BCEWithLogitsLoss()

    def begin(self, epoch):
        if epoch == self.thaw:
            self.model.body.requires_grad_(True)
        free = sum(p.numel() for p in self.model.parameters() if p.requires_grad)
        print(f"epoch {epoch}: {free} free parameters", end=", ")

    def epoch(self, loader):
        self.model.train()
        for x, y in loader:
            self.opt.zero_grad()
            loss = self.loss(self.model(x), y)
            loss.backward()
            self.opt.step()
        return loss.item()

    @torch.no_grad()
    def validate(self, loader):
        self.model.eval()
        return torch.cat([(self.model(x) > 0) == (y > 0.5) for x, y in loader]).float().mean().item()


def main():
    torch.manual_seed(5)
    train = DataLoader(bracket_data(2000), batch_size=64, shuffle=True)
    valid = DataLoader(bracket_data(500), batch_size=250)
    tuner = Tuner(Reader(), thaw=2)
    for epoch in range(10):
        tuner.begin(epoch)
        loss = tuner.epoch(train)
        print(f"loss {loss:.3f}, valid accuracy {tuner.validate(valid):.3f}")


main()
