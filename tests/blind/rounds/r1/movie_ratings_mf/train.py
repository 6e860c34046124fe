"""Biased matrix factorisation on explicit ratings. usage: train.py FOLDER"""
import sys
from pathlib import Path
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, DIM, BATCH, LR = 8, 8, 128, 0.01


def ratings(path):
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    return torch.tensor(table[:, 0], dtype=torch.long), torch.tensor(table[:, 1], dtype=torch.long), torch.tensor(table[:, 2], dtype=torch.float32)


class MatrixFactorization(nn.Module):
    def __init__(self, n_users, n_movies, dim, mean):
        super().__init__()
        self.users, self.movies = nn.Embedding(n_users, dim), nn.Embedding(n_movies, dim)
        self.user_bias, self.movie_bias = nn.Embedding(n_users, 1), nn.Embedding(n_movies, 1)
        self.register_buffer("mean", mean)
        for table in (self.users, self.movies, self.user_bias, self.movie_bias):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, u, m):
        bias = self.user_bias(u) + self.movie_bias(m)
        return self.mean + bias.squeeze(1) + (self.users(u) * self.movies(m)).sum(1)


def rmse(model, split):
    model.eval()
    with torch.no_grad():
        return (model(split[0], split[1]) - split[2]).pow(2).mean().sqrt().item()


def main():
    folder = Path(sys.argv[1])
    torch.manual_seed(4)
    train, test, june = [ratings(folder / f"{part}.csv") for part in ("train", "test", "june")]
    n_users = int(max(part[0].max() for part in (train, test, june))) + 1
    n_movies = int(max(part[1].max() for part in (train, test, june))) + 1
    print(f"{len(train[0])} train, {len(test[0])} test ratings, {n_users} users, {n_movies} movies")
    loader = DataLoader(TensorDataset(*train), batch_size=BATCH, shuffle=True)
    model = MatrixFactorization(n_users, n_movies, DIM, train[2].mean())
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.05)
    for epoch in range(EPOCHS):
        model.train()
        total = 0.0
        for u, m, r in loader:
            loss = nn.functional.mse_loss(model(u, m), r)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(r)
        if epoch % 3 == 1:
            print(f"epoch {epoch:2d} train rmse {(total / len(train[0])) ** 0.5:.3f} test rmse {rmse(model, test):.3f}")
    constant = (june[2] - train[2].mean()).pow(2).mean().sqrt().item()
    print(f"ratings given in June: rmse {rmse(model, june):.3f} (mean predictor {constant:.3f})")


if __name__ == "__main__":
    main()
