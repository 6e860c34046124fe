"""Predict the destination square of the side's queen move (policy over 64 squares).

Positions are sampled at random: own queen, a few enemy pieces and own pawns.
The expert captures the most valuable enemy piece the queen can reach; positions
without a capture are discarded.
"""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

RAYS = [(-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1)]
VALUE = {1: 9, 2: 5, 3: 3, 4: 1}          # enemy queen, rook, minor, pawn
PLANES = 6                                # own queen, four enemy kinds, own pawn


def sample_position(rng):
    board = np.zeros(64, dtype=np.int64) - 1
    n_enemy, n_own = int(rng.integers(4, 10)), int(rng.integers(2, 8))
    squares = rng.choice(64, size=1 + n_enemy + n_own, replace=False)
    board[squares[0]] = 0
    board[squares[1:1 + n_enemy]] = rng.integers(1, 5, size=n_enemy)
    board[squares[1 + n_enemy:]] = 5
    return board, int(squares[0])


def expert_move(board, queen):
    r0, f0 = divmod(queen, 8)
    best, best_key = None, None
    for dr, df in RAYS:
        r, f, dist = r0 + dr, f0 + df, 1
        while 0 <= r < 8 and 0 <= f < 8:
            piece = board[r * 8 + f]
            if piece != -1:
                if piece in VALUE:
                    key = (VALUE[piece], -dist)
                    if best_key is None or key > best_key:
                        best, best_key = r * 8 + f, key
                break
            r, f, dist = r + dr, f + df, dist + 1
    return best


def build(rng, n):
    boards, moves = [], []
    while len(boards) < n:
        board, queen = sample_position(rng)
        move = expert_move(board, queen)
        if move is not None:
            boards.append(board)
            moves.append(move)
    boards = np.stack(boards)
    planes = (boards[:, None, :] == np.arange(PLANES)[None, :, None]).astype(np.float32)
    return torch.from_numpy(planes.reshape(n, PLANES, 8, 8)), torch.tensor(moves)


def mirror(planes, target):
    """Left-right symmetry of the board, applied to half of the batch."""
    flip = torch.rand(len(planes)) < 0.5
    planes = torch.where(flip[:, None, None, None], planes.flip(-1), planes)
    target = torch.where(flip, target ^ 7, target)
    return planes, target


class Policy(nn.Module):
    def __init__(self, ch=24, blocks=4):
        super().__init__()
        self.stem = nn.Conv2d(PLANES, ch, 3, padding=1)
        self.blocks = nn.ModuleList(nn.Conv2d(ch, ch, 3, padding=1) for _ in range(blocks))
        self.norms = nn.ModuleList(nn.BatchNorm2d(ch) for _ in range(blocks))
        self.head = nn.Conv2d(ch, 1, 1)

    def forward(self, x):
        x = F.relu(self.stem(x))
        for conv, norm in zip(self.blocks, self.norms):
            x = x + F.relu(norm(conv(x)))
        return self.head(x).flatten(1)


@torch.no_grad()
def accuracy(model, x, y, chunk=500):
    model.eval()
    right = 0
    for i in range(0, len(x), chunk):
        right += (model(x[i:i + chunk]).argmax(1) == y[i:i + chunk]).sum().item()
    return right / len(x)


torch.set_num_threads(1)
torch.manual_seed(0)
rng = np.random.default_rng(0)
x_train, y_train = build(rng, 4000)
x_val, y_val = build(rng, 1000)
print("train", tuple(x_train.shape), "val", tuple(x_val.shape))

model = Policy()
EPOCHS, BATCH = 8, 64
steps = EPOCHS * (len(x_train) // BATCH)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-4)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=steps)

for epoch in range(EPOCHS):
    model.train()
    order = torch.randperm(len(x_train))
    losses = []
    for b in range(len(x_train) // BATCH):
        idx = order[b * BATCH:(b + 1) * BATCH]
        planes, target = mirror(x_train[idx], y_train[idx])
        loss = F.cross_entropy(model(planes), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    print(f"epoch {epoch + 1}: loss {np.mean(losses):.4f}  val top-1 {accuracy(model, x_val, y_val):.4f}")
