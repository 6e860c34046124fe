"""Matrix factorisation of star ratings."""
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn


class RatingTable:
    def __init__(self, folder):
        train, test = np.load(folder / "train.npz"), np.load(folder / "test.npz")
        accounts = np.concatenate([train["account"], test["account"]])
        self.accounts, code = np.unique(accounts, return_inverse=True)
        movies = np.concatenate([train["movie"], test["movie"]])
        self.n_movies = int(movies.max()) + 1
        n = len(train["stars"])
        code, movies = torch.from_numpy(code), torch.from_numpy(movies)
        stars = torch.from_numpy(np.concatenate([train["stars"], test["stars"]]))
        self.train = (code[:n], movies[:n], stars[:n])
        self.test = (code[n:], movies[n:], stars[n:])


class Factors(nn.Module):
    def __init__(self, n_users, n_movies, rank, mean):
        super().__init__()
        self.p = nn.Embedding(n_users, rank)
        self.q = nn.Embedding(n_movies, rank)
        self.bu = nn.Embedding(n_users, 1)
        self.bm = nn.Embedding(n_movies, 1)
        self.mean = mean
        for e in (self.p, self.q):
            nn.init.normal_(e.weight, std=0.2)
        for e in (self.bu, self.bm):
            nn.init.zeros_(e.weight)

    def forward(self, u, m):
        return self.mean + (self.p(u) * self.q(m)).sum(1) + self.bu(u)[:, 0] + self.bm(m)[:, 0]


def rmse(model, part):
    with torch.no_grad():
        return (model(part[0], part[1]) - part[2]).pow(2).mean().sqrt().item()


def main():
    torch.manual_seed(6)
    table = RatingTable(Path(sys.argv[1]))
    u, m, s = table.train
    model = Factors(len(table.accounts), table.n_movies, 4, s.mean().item())
    opt = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-5)
    for epoch in range(15):
        for idx in torch.randperm(len(s)).split(500):
            loss = nn.functional.mse_loss(model(u[idx], m[idx]), s[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1} train RMSE {rmse(model, table.train):.3f}")
    print(f"test RMSE {rmse(model, table.test):.3f}")


main()
