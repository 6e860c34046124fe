import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(36)
DIM, HIDDEN = 40, 32
basis = torch.randn(4, DIM)


def sensors(n):
    z = torch.randn(n, 4)
    x = torch.tanh(z @ basis / 2) + 0.25 * torch.randn(n, DIM)
    return x, (z[:, 0] + z[:, 1] > 0).long() + 2 * (z[:, 2] - 0.5 * z[:, 3] > 0).long()


def trunk():
    return nn.Sequential(nn.Linear(DIM, 96), nn.GELU(), nn.LayerNorm(96), nn.Linear(96, 4))


class MaskedModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = trunk()
        self.decoder = nn.Sequential(nn.Linear(4, 96), nn.GELU(), nn.Linear(96, DIM))

    def forward(self, x):
        return self.decoder(self.encoder(x))


class Classifier(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.backbone = trunk()
        self.head = nn.Sequential(nn.Linear(4, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, classes))

    def forward(self, x):
        return self.head(self.backbone(x))


def pretrain(x, steps):
    model = MaskedModel()
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    for step in range(steps):
        batch = x[torch.randint(len(x), (128,))]
        hidden = torch.rand_like(batch) < 0.2
        loss = F.mse_loss(model(batch.masked_fill(hidden, 0.0)), batch)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"pretraining loss {loss.item():.4f}  (variance {x.var():.4f})")
    return model.state_dict()


def transfer(source, model):
    own = model.state_dict()
    taken = {k: v for k, v in source.items() if k in own}
    own.update(taken)
    model.load_state_dict(own)
    for p in model.backbone.parameters():
        p.requires_grad_(False)
    return model


unlabeled, _ = sensors(4000)
train_x, train_y = sensors(300)
valid_x, valid_y = sensors(1000)
model = transfer(pretrain(unlabeled, 220), Classifier())
opt = torch.optim.AdamW(model.head.parameters(), lr=5e-3, weight_decay=0.01)

for epoch in range(16):
    model.train()
    for rows in torch.randperm(len(train_x)).split(30):
        loss = F.cross_entropy(model(train_x[rows]), train_y[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
    if epoch % 4 == 3:
        model.eval()
        with torch.no_grad():
            out = model(valid_x)
        print(f"epoch {epoch + 1:2d}  train {loss.item():.4f}  valid {F.cross_entropy(out, valid_y).item():.4f}  "
              f"valid acc {(out.argmax(1) == valid_y).float().mean().item():.4f}")
