"""Ratings from one to five stars: biased matrix factorisation by mean squared error, ids in, stars out, best weights
restored."""

import copy

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

np.random.seed(0)
torch.manual_seed(0)
USERS, ITEMS = 60, 40
taste, kind = np.random.randn(USERS, 3), np.random.randn(ITEMS, 3)
users, items = np.random.randint(0, USERS, 2400), np.random.randint(0, ITEMS, 2400)
stars = np.clip(np.round(3 + (taste[users] * kind[items]).sum(1) + 0.3 * np.random.randn(2400)), 1, 5)


class Ratings(Dataset):
    def __init__(self, which):
        self.users = torch.tensor(users[which], dtype=torch.long)
        self.items = torch.tensor(items[which], dtype=torch.long)
        self.ratings = torch.tensor(stars[which], dtype=torch.float)

    def __len__(self):
        return len(self.ratings)

    def __getitem__(self, i):
        return self.users[i], self.items[i], self.ratings[i]


class MatrixFactorization(nn.Module):
    def __init__(self, factors=8):
        super().__init__()
        self.user_factors = nn.Embedding(USERS, factors)
        self.item_factors = nn.Embedding(ITEMS, factors)
        self.user_bias = nn.Embedding(USERS, 1)
        self.item_bias = nn.Embedding(ITEMS, 1)
        self.mean = nn.Parameter(torch.tensor(3.0))
        for table in (self.user_factors, self.item_factors):
            nn.init.normal_(table.weight, std=0.3)
        for table in (self.user_bias, self.item_bias):
            nn.init.zeros_(table.weight)

    def forward(self, user, item):
        dot = (self.user_factors(user) * self.item_factors(item)).sum(1)
        return self.mean + dot + self.user_bias(user).squeeze(1) + self.item_bias(item).squeeze(1)


train_loader = DataLoader(Ratings(slice(0, 2000)), batch_size=100, shuffle=True)
test_loader = DataLoader(Ratings(slice(2000, None)), batch_size=200)
model = MatrixFactorization()
criterion = nn.MSELoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.03, weight_decay=1e-5)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="min", factor=0.5, patience=1)
best, best_weights = np.inf, None
for epoch in range(6):
    model.train()
    train_loss = 0
    for user, item, rating in train_loader:
        optimizer.zero_grad()
        loss = criterion(model(user, item), rating)
        loss.backward()
        optimizer.step()
        train_loss += loss.item() * len(rating)
    model.eval()
    squares = 0
    with torch.no_grad():
        for user, item, rating in test_loader:
            squares += ((model(user, item) - rating) ** 2).sum().item()
    mse = squares / len(test_loader.dataset)
    scheduler.step(mse)
    if mse < best:
        best, best_weights = mse, copy.deepcopy(model.state_dict())
    print(f"{epoch}: train {train_loss / len(train_loader.dataset):.3f} test rmse {mse**0.5:.3f}")
model.load_state_dict(best_weights)
