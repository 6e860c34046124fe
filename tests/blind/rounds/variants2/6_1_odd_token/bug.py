import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(19)
LENGTH, TOKENS = 6, 12


def sequences(n):
    """Label 1: some token occurs twice in the sequence."""
    x = torch.stack([torch.randperm(TOKENS)[:LENGTH] for _ in range(n)])
    y = torch.randint(0, 2, (n,))
    for row in torch.nonzero(y).flatten().tolist():
        i, j = torch.randperm(LENGTH)[:2].tolist()
        x[row, i] = x[row, j]
    return x, y


class PairFinder(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.token = nn.Embedding(TOKENS, dim)
        layer = nn.TransformerEncoderLayer(d_model=dim, nhead=heads, dim_feedforward=64, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, num_layers=1, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2))

    def forward(self, x):
        h = self.encoder(self.token(x))
        return self.head(h.amax(dim=1))


train_ds = TensorDataset(*sequences(3000))
val_ds = TensorDataset(*sequences(500))
train_dl = DataLoader(train_ds, batch_size=64, shuffle=True, drop_last=True)
val_dl = DataLoader(val_ds, batch_size=100)
model = PairFinder()
epochs = 6
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-4)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5e-3, total_steps=epochs * len(train_dl))
criterion = nn.CrossEntropyLoss()

for epoch in range(epochs):
    model.train()
    mean_loss = 0.0
    for x, y in train_dl:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        mean_loss += loss.item() / len(train_dl)
    model.eval()
    right = 0
    with torch.no_grad():
        for x, y in val_dl:
            right += (model(x).argmax(1) == y).sum().item()
    print(f"epoch {epoch} loss {mean_loss:.4f} val accuracy {right / len(val_ds):.3f}")
