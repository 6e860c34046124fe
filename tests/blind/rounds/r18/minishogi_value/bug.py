"""Value network for 5x5 shogi positions (material + placement + pieces in hand), seen from the side to move."""
import torch
from torch import nn

KINDS = ["king", "gold", "silver", "bishop", "rook", "pawn"]
BOARD_WORTH = torch.tensor([0.0, 5.0, 4.5, 7.0, 8.0, 1.0])
HAND_WORTH = torch.tensor([0.0, 5.5, 5.0, 7.8, 9.0, 1.3])
SIZE = 5


def sample_positions(n, gen):
    """board[n, 5, 5]: 0 empty, +k sente piece k, -k gote piece k; hands[n, 2, 6]; turn[n] in {0, 1}"""
    board = torch.zeros(n, SIZE * SIZE, dtype=torch.long)
    squares = torch.rand(n, SIZE * SIZE, generator=gen).argsort(1)
    board.scatter_(1, squares[:, :1], 1)
    board.scatter_(1, squares[:, 1:2], -1)
    hands = torch.zeros(n, 2, len(KINDS))
    slot = 2
    for kind in range(2, 7):
        for _ in range(2):
            fate = torch.randint(0, 5, (n,), generator=gen)
            piece = torch.where(fate % 2 == 0, kind, -kind)
            here = torch.where(fate < 3, piece, 0)
            board.scatter_(1, squares[:, slot:slot + 1], here[:, None])
            hands[fate == 3, 1, kind - 1] += 1
            hands[fate == 4, 0, kind - 1] += 1
            slot += 1
    turn = torch.randint(0, 2, (n,), generator=gen)
    return board.view(n, SIZE, SIZE), hands, turn


def oracle(board, hands, turn, gen):
    worth = torch.zeros(len(board))
    for k in range(6):
        advance = torch.linspace(-0.3, 0.3, SIZE)[None, :, None]
        mine = ((board == k + 1) * (BOARD_WORTH[k] - advance * (k > 0))).sum((1, 2))
        theirs = ((board == -(k + 1)) * (BOARD_WORTH[k] + advance * (k > 0))).sum((1, 2))
        worth += mine - theirs
    worth += (hands[:, 0] - hands[:, 1]) @ HAND_WORTH
    worth = torch.where(turn == 0, worth, -worth) + 0.8
    return torch.tanh((worth + 0.7 * torch.randn(len(board), generator=gen)) / 12.0)


def encode(board, hands, turn):
    gote = turn == 1
    view = torch.where(gote[:, None, None], -board.flip(1, 2), board)
    planes = [(view == s * k) for s in (1, -1) for k in range(1, 7)]
    x = torch.stack(planes, 1).float()
    in_hand = hands.clone()
    h = in_hand.flatten(1)[:, :, None, None].expand(-1, -1, SIZE, SIZE)
    return torch.cat([x, h / 2.0], 1)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.b = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)
        self.n1, self.n2 = nn.BatchNorm2d(c), nn.BatchNorm2d(c)

    def forward(self, x):
        return torch.relu(x + self.n2(self.b(torch.relu(self.n1(self.a(x))))))


class ValueNet(nn.Module):
    def __init__(self, c=24):
        super().__init__()
        self.stem = nn.Conv2d(24, c, 3, padding=1)
        self.body = nn.Sequential(Block(c), Block(c))
        self.head = nn.Sequential(nn.Conv2d(c, 8, 1), nn.ReLU(), nn.Flatten(), nn.Linear(200, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        return torch.tanh(self.head(self.body(torch.relu(self.stem(x))))).squeeze(1)


def main():
    torch.manual_seed(5)
    gen = torch.Generator().manual_seed(11)
    pos = sample_positions(7500, gen)
    y = oracle(*pos, gen)
    x = encode(*pos)
    xtr, ytr, xte, yte = x[:6000], y[:6000], x[6000:], y[6000:]
    net = ValueNet()
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-4)
    epochs, bs = 6, 128
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 4e-3, total_steps=epochs * (len(xtr) // bs))
    for ep in range(epochs):
        net.train()
        order, tot = torch.randperm(len(xtr)), 0.0
        for i in range(len(xtr) // bs):
            idx = order[i * bs:(i + 1) * bs]
            loss = nn.functional.mse_loss(net(xtr[idx]), ytr[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            tot += loss.item()
        print(f"epoch {ep} mse {tot / (len(xtr) // bs):.4f}")
    net.eval()
    with torch.no_grad():
        p = net(xte)
    r2 = 1 - ((p - yte) ** 2).mean() / yte.var()
    print(f"test R2 {r2:.4f}  sign agreement {((p > 0) == (yte > 0)).float().mean():.4f}")


if __name__ == "__main__":
    main()
