"""Fine-tuning that thaws one block after another, with a rebuilt optimizer and discriminative rates; a curriculum from
easy to hard."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(37)
BLOCKS = 3


class Tower(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.stem = nn.Linear(16, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.1))
            for _ in range(BLOCKS)
        )
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


def set_trainable(module, flag):
    for p in module.parameters():
        p.requires_grad = flag


def trainable_groups(model, base_lr):
    groups = [{"params": model.head.parameters(), "lr": base_lr}]
    for depth, block in enumerate(reversed(model.blocks)):
        params = [p for p in block.parameters() if p.requires_grad]
        if params:
            groups.append({"params": params, "lr": base_lr / 2 ** (depth + 1)})
    return groups


def make(count, noise):
    y = torch.randint(0, 3, (count,))
    x = torch.zeros(count, 16)
    x[torch.arange(count), y * 5] = 2.0
    return x + noise * torch.randn(count, 16), y


def train_epoch(model, loader, optimizer):
    model.train()
    losses = []
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return sum(losses) / len(losses)


def evaluate(model, x, y):
    model.eval()
    with torch.inference_mode():
        return (model(x).argmax(1) == y).float().mean().item()


valid = make(128, 0.8)
model = Tower()
source = DataLoader(TensorDataset(*make(192, 0.5)), batch_size=32, shuffle=True)
print("pretrain", train_epoch(model, source, torch.optim.AdamW(model.parameters(), lr=1e-3)))

set_trainable(model, False)
model.head = nn.Linear(32, 3)
for stage in range(BLOCKS + 1):
    if stage:
        set_trainable(model.blocks[BLOCKS - stage], True)
    optimizer = torch.optim.AdamW(trainable_groups(model, 5e-3), weight_decay=0.01)
    noise = 0.3 + 0.15 * stage
    loader = DataLoader(TensorDataset(*make(192, noise)), batch_size=32, shuffle=True)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=[g["lr"] for g in optimizer.param_groups], total_steps=2 * len(loader), pct_start=0.2
    )
    for _ in range(2):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y, label_smoothing=0.05)
            loss.backward()
            optimizer.step()
            scheduler.step()
    frozen = sum(not p.requires_grad for p in model.parameters())
    print(f"stage {stage} frozen {frozen} loss {loss.item():.3f} valid {evaluate(model, *valid):.3f}")

set_trainable(model, False)
set_trainable(model.head, True)
optimizer = torch.optim.SGD(filter(lambda p: p.requires_grad, model.parameters()), lr=0.01)
print("refit head", train_epoch(model, loader, optimizer), evaluate(model, *valid))
