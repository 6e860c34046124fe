"""Few labelled sequences, an attention classifier with strong dropout against overfitting."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(1)
LENGTH, WIDTH = 16, 32


class CoreAttention(nn.Module):
    """Softmax attention with dropout on the weights and on the result."""

    def __init__(self, dropout_p):
        super().__init__()
        self.dropout_p = dropout_p

    def forward(self, q, k, v):
        self.dropout_p = self.dropout_p if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout_p)
        return F.dropout(mixed, self.dropout_p)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(8, WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.core = CoreAttention(0.5)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 64), nn.ReLU())
        self.head = nn.Linear(64, 2)

    def forward(self, x):
        h = self.lift(x)
        q, k, v = self.qkv(h).chunk(3, dim=-1)
        h = h + self.core(q[:, None], k[:, None], v[:, None])[:, 0]
        return self.head(self.mlp(h).mean(1))


direction = torch.randn(8)


def sequences(count):
    y = torch.randint(0, 2, (count,))
    x = torch.randn(count, LENGTH, 8)
    x = x + (y * 2 - 1).view(-1, 1, 1) * direction * 0.12
    return x, y


train_x, train_y = sequences(120)
val_x, val_y = sequences(2000)
model = Classifier()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

for epoch in range(60):
    model.train()
    for rows in torch.randperm(len(train_x)).split(20):
        loss = F.cross_entropy(model(train_x[rows]), train_y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        out = model(val_x)
        val, right = F.cross_entropy(out, val_y), (out.argmax(1) == val_y).float().mean()
    if epoch % 10 == 9:
        print(f"epoch {epoch} train {loss.item():.3f} val {val.item():.3f} accuracy {right.item():.3f}")
