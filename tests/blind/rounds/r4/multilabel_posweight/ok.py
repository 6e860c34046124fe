import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

N_GENES, N_FEAT, N_TERMS = 2600, 60, 12


def expression_profiles(seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(N_GENES, N_FEAT, generator=g)
    w = torch.randn(N_FEAT, N_TERMS, generator=g) / N_FEAT ** 0.5
    logits = 3.0 * x @ w + 0.5 * torch.randn(N_GENES, N_TERMS, generator=g)
    rate = torch.linspace(0.03, 0.15, N_TERMS)
    cut = torch.stack([logits[:, j].quantile(1 - rate[j]) for j in range(N_TERMS)])
    return x, (logits > cut).float()


class TermTagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(N_FEAT, 48), nn.LayerNorm(48), nn.GELU(), nn.Dropout(0.1),
                                 nn.Linear(48, N_TERMS))

    def forward(self, x):
        return self.net(x)


def macro_f1(pred, true):
    tp = (pred * true).sum(0)
    denom = pred.sum(0) + true.sum(0)
    return (2 * tp / denom.clamp(min=1)).mean().item()


class Trainer:
    def __init__(self, model, train, val, lr=2e-3):
        self.model, self.val = model, val
        self.loader = DataLoader(TensorDataset(*train), batch_size=64, shuffle=True)
        y = train[1]
        pos = y.sum(0)
        neg = len(y) - pos
        self.criterion = nn.BCEWithLogitsLoss(pos_weight=neg / pos)
        self.opt = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=1e-2)

    def epoch(self):
        self.model.train()
        total = 0.0
        for x, y in self.loader:
            loss = self.criterion(self.model(x), y)
            self.opt.zero_grad(set_to_none=True)
            loss.backward()
            self.opt.step()
            total += loss.item()
        return total / len(self.loader)

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        x, y = self.val
        pred = (self.model(x) > 0).float()
        recall = (pred * y).sum() / y.sum()
        return macro_f1(pred, y), recall.item()


def main():
    torch.manual_seed(0)
    x, y = expression_profiles()
    order = torch.randperm(N_GENES)
    tr, va = order[:2000], order[2000:]
    print("label rates:", " ".join(f"{r:.2f}" for r in y[tr].mean(0).tolist()))
    trainer = Trainer(TermTagger(), (x[tr], y[tr]), (x[va], y[va]))
    for epoch in range(14):
        loss = trainer.epoch()
        f1, recall = trainer.validate()
        print(f"epoch {epoch:2d} loss {loss:.4f} val macro-F1 {f1:.3f} recall {recall:.3f}")


if __name__ == "__main__":
    main()
