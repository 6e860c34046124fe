"""Slide-level tumour detection: attention pooling over patch embeddings (multiple instance learning)."""
import torch
import torch.nn as nn
import torch.nn.functional as F

DIM, PATCHES = 24, 30


class SlideBank:
    """Slides are bags of patch embeddings; a tumour slide holds a few tumour patches."""

    def __init__(self, n_slides, generator):
        tissue = torch.randn(5, DIM, generator=torch.Generator().manual_seed(100)) * 1.2
        tumour = torch.randn(DIM, generator=torch.Generator().manual_seed(101))
        kinds = torch.randint(0, 5, (n_slides, PATCHES), generator=generator)
        self.patches = tissue[kinds] + torch.randn(n_slides, PATCHES, DIM, generator=generator)
        self.labels = torch.randint(0, 2, (n_slides,), generator=generator).float()
        for i in range(n_slides):
            if self.labels[i] == 1:
                k = int(torch.randint(2, 5, (1,), generator=generator))
                where = torch.randperm(PATCHES, generator=generator)[:k]
                self.patches[i, where] = 1.5 * tumour + torch.randn(k, DIM, generator=generator)

    def __len__(self):
        return len(self.labels)


class GatedAttention(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.v = nn.Linear(dim, hidden)
        self.u = nn.Linear(dim, hidden)
        self.w = nn.Linear(hidden, 1)

    def forward(self, h):
        score = self.w(torch.tanh(self.v(h)) * torch.sigmoid(self.u(h))).squeeze(-1)
        weight = F.softmax(score, dim=0)
        return (weight.unsqueeze(-1) * h).sum(1), weight


class SlideClassifier(nn.Module):
    def __init__(self, dim=DIM, hidden=48):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.pool = GatedAttention(hidden, 32)
        self.head = nn.Linear(hidden, 1)

    def forward(self, bags):
        pooled, weight = self.pool(self.encoder(bags))
        return self.head(pooled).squeeze(-1), weight


@torch.no_grad()
def screen(model, bank):
    """Goes through the slides one by one, as in the clinic."""
    model.eval()
    right = 0
    for bag, label in zip(bank.patches, bank.labels):
        logit, _ = model(bag.unsqueeze(0))
        right += int((logit.item() > 0) == bool(label))
    return right / len(bank)


def train():
    torch.manual_seed(8)
    gen = torch.Generator().manual_seed(8)
    train_bank, val_bank = SlideBank(1400, gen), SlideBank(500, gen)
    mean, std = train_bank.patches.mean((0, 1)), train_bank.patches.std((0, 1))
    for bank in (train_bank, val_bank):
        bank.patches = (bank.patches - mean) / std

    model = SlideClassifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4)
    for epoch in range(12):
        model.train()
        losses = []
        for idx in torch.randperm(len(train_bank)).split(20):
            logit, _ = model(train_bank.patches[idx])
            loss = F.binary_cross_entropy_with_logits(logit, train_bank.labels[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        if epoch % 4 == 3:
            print(f"epoch {epoch:2d} loss {sum(losses) / len(losses):.4f} val acc {screen(model, val_bank):.4f}")
    return screen(model, val_bank)


if __name__ == "__main__":
    print(f"slide accuracy {train():.4f}")
