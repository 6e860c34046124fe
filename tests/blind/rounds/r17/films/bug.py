"""Neural collaborative filtering on star ratings."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

N_USERS, N_FILMS, N_RATINGS = 300, 150, 15000
GENRES = 5


def ratings(seed):
    g = torch.Generator().manual_seed(seed)
    taste = torch.randn(N_USERS, GENRES, generator=g)
    genre = torch.randn(N_FILMS, GENRES, generator=g).softmax(1) * 2.2 - 0.4
    mood = 0.35 * torch.randn(N_USERS, generator=g)
    quality = 0.5 * torch.randn(N_FILMS, generator=g)
    pairs = torch.randperm(N_USERS * N_FILMS, generator=g)[:N_RATINGS]
    u, f = pairs // N_FILMS, pairs % N_FILMS
    s = 3.4 + mood[u] + quality[f] + 0.6 * (taste[u] * genre[f]).sum(1) + 0.3 * torch.randn(len(u), generator=g)
    return u, f, s.mul(2).round().div(2).clamp(0.5, 5.0)


class NeuralCF(nn.Module):
    def __init__(self, dim=12, mean=0.0):
        super().__init__()
        self.user = nn.Embedding(N_USERS, dim)
        self.film = nn.Embedding(N_FILMS, dim)
        nn.init.normal_(self.user.weight, std=0.3)
        nn.init.normal_(self.film.weight, std=0.3)
        self.head = nn.Linear(3 * dim, 1)
        nn.init.constant_(self.head.bias, mean)

    def forward(self, u, f):
        a, b = self.user(u), self.film(f)
        return self.head(torch.cat([a, b, a * b], dim=1))


def rating_loss(pred, target):
    return ((pred - target) ** 2).mean()


torch.manual_seed(44)
data = TensorDataset(*ratings(44))
train, valid = random_split(data, [12000, 3000])
mean = data.tensors[2][train.indices].mean().item()
model = NeuralCF(mean=mean)
emb = [model.user.weight, model.film.weight]
opt = torch.optim.AdamW([{"params": emb, "weight_decay": 0.3},
                         {"params": model.head.parameters(), "weight_decay": 0.0}], lr=4e-3)

for epoch in range(14):
    model.train()
    running = 0.0
    for u, f, stars in DataLoader(train, batch_size=100, shuffle=True):
        opt.zero_grad()
        loss = rating_loss(model(u, f), stars)
        loss.backward()
        opt.step()
        running += loss.item() * len(u)
    if epoch % 2 == 1:
        print(f"epoch {epoch + 1} train mse {running / len(train):.4f}")

model.eval()
with torch.no_grad():
    u, f, stars = data[valid.indices]
    pred = model(u, f).flatten().clamp(0.5, 5.0)
    rmse = (pred - stars).pow(2).mean().sqrt().item()
print(f"validation rmse {rmse:.4f}  (std of the ratings {stars.std().item():.4f})")
