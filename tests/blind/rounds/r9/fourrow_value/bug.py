"""Value network for a small drop-stone game (5 columns x 4 rows, three in a row wins)."""
import random

import numpy as np
import torch
from torch import nn

ROWS, COLS, NEED = 4, 5, 3
CFG = {"games": 1000, "val_games": 250, "epochs": 7, "batch": 128, "lr": 2e-3, "arena": 100, "seed": 3}


class Board:
    def __init__(self):
        self.grid = np.zeros((ROWS, COLS), dtype=np.int8)
        self.to_move = 1
        self.winner = 0

    def legal(self):
        return [c for c in range(COLS) if self.grid[0, c] == 0]

    def play(self, col):
        row = max(r for r in range(ROWS) if self.grid[r, col] == 0)
        self.grid[row, col] = self.to_move
        if self._wins(row, col):
            self.winner = self.to_move
        self.to_move = -self.to_move

    def _wins(self, row, col):
        who = self.grid[row, col]
        for dr, dc in ((0, 1), (1, 0), (1, 1), (1, -1)):
            run = 1
            for sign in (1, -1):
                r, c = row + sign * dr, col + sign * dc
                while 0 <= r < ROWS and 0 <= c < COLS and self.grid[r, c] == who:
                    run, r, c = run + 1, r + sign * dr, c + sign * dc
            if run >= NEED:
                return True
        return False

    def over(self):
        return self.winner != 0 or not self.legal()

    def planes(self):
        mine = (self.grid == self.to_move)
        theirs = (self.grid == -self.to_move)
        return np.stack([mine, theirs]).astype(np.float32)


def self_play(n_games, rng):
    states, values = [], []
    for _ in range(n_games):
        board, seen = Board(), []
        while not board.over():
            board.play(rng.choice(board.legal()))
            seen.append((board.planes(), board.to_move))
        for planes, mover in seen:
            states.append(planes)
            values.append(board.winner)
    return torch.tensor(np.stack(states)), torch.tensor(values, dtype=torch.float32)


class ValueNet(nn.Module):
    def __init__(self, ch=12):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(2, ch, 3, padding=1), nn.ReLU(),
                                  nn.Conv2d(ch, ch, 3, padding=1), nn.ReLU())
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(ch * ROWS * COLS, 48), nn.ReLU(), nn.Linear(48, 1))

    def forward(self, x):
        return torch.tanh(self.head(self.conv(x))).squeeze(1)


@torch.no_grad()
def best_move(model, board):
    """The child is seen by the opponent: pick the one that is worst for him."""
    children = []
    for col in board.legal():
        child = Board()
        child.grid, child.to_move = board.grid.copy(), board.to_move
        child.play(col)
        children.append((col, child.planes()))
    scores = model(torch.tensor(np.stack([p for _, p in children])))
    return children[int(scores.argmin())][0]


def arena(model, n_games, rng):
    model.eval()
    points = 0.0
    for g in range(n_games):
        board, side = Board(), 1 if g % 2 == 0 else -1
        while not board.over():
            move = best_move(model, board) if board.to_move == side else rng.choice(board.legal())
            board.play(move)
        points += 1.0 if board.winner == side else 0.5 if board.winner == 0 else 0.0
    return points / n_games


def main():
    torch.manual_seed(CFG["seed"])
    rng = random.Random(CFG["seed"])
    x, z = self_play(CFG["games"], rng)
    xv, zv = self_play(CFG["val_games"], rng)
    print(f"{len(x)} training positions, {len(xv)} validation positions, mean value {z.mean():.3f}")
    model = ValueNet()
    opt = torch.optim.AdamW(model.parameters(), lr=CFG["lr"], weight_decay=1e-2)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, CFG["epochs"])
    for epoch in range(CFG["epochs"]):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(CFG["batch"]):
            loss = ((model(x[idx]) - z[idx]) ** 2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        sched.step()
        model.eval()
        with torch.no_grad():
            val = ((model(xv) - zv) ** 2).mean().item()
        print(f"epoch {epoch:2d} train mse {total / len(x):.4f} val mse {val:.4f}")
    print(f"score against the random player: {arena(model, CFG['arena'], rng):.3f}")


if __name__ == "__main__":
    main()
