"""Which sherd joins which: profiles of broken edges, left-hand sherds against right-hand sherds of one find box.

Each box holds N left pieces and N right pieces in any order. The fracture line is common to a joining pair,
but seen from the other side, abraded and scanned with another stylus pressure.
"""
import argparse
import copy

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--boxes", type=int, default=260)
parser.add_argument("--val-boxes", type=int, default=60)
parser.add_argument("--per-box", type=int, default=16)
parser.add_argument("--epochs", type=int, default=40)
parser.add_argument("--patience", type=int, default=6)
parser.add_argument("--lr", type=float, default=4e-4)
parser.add_argument("--seed", type=int, default=14)
args = parser.parse_args()

torch.manual_seed(args.seed)
POINTS = 40


def fracture(n):
    """Random fracture lines in mm, rough on several scales."""
    t = torch.linspace(0, 1, POINTS)
    line = torch.zeros(n, POINTS)
    for f in range(1, 7):
        amp = 1.2 * torch.randn(n, 1) / f
        line = line + amp * torch.sin(2 * torch.pi * (f * t + torch.rand(n, 1)))
    return line


def find_boxes(n_boxes, n):
    line = fracture(n_boxes * n).view(n_boxes, n, POINTS)
    left = line + 0.75 * torch.randn_like(line)
    abraded = torch.nn.functional.avg_pool1d(line, 3, stride=1, padding=1)
    right = -abraded.flip(-1) * (0.8 + 0.4 * torch.rand(n_boxes, n, 1)) + 0.75 * torch.randn_like(line)
    place = torch.stack([torch.randperm(n) for _ in range(n_boxes)])
    # the partner of left piece i lies at place[i] among the right pieces
    shuffled = torch.empty_like(right)
    shuffled.scatter_(1, place.unsqueeze(2).expand_as(right), right)
    return left, shuffled, place


class EdgeEncoder(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, 16, 5, padding=2), nn.ReLU(),
            nn.Conv1d(16, 16, 5, stride=2, padding=2), nn.ReLU(),
            nn.Flatten(), nn.Linear(16 * POINTS // 2, dim),
        )

    def forward(self, edges):
        b, n, p = edges.shape
        z = self.net(edges.reshape(b * n, 1, p))
        return nn.functional.normalize(z, dim=1).view(b, n, -1)


class Matcher(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = EdgeEncoder(), EdgeEncoder()
        self.log_scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, left, right):
        return torch.bmm(self.left(left), self.right(right).transpose(1, 2)) * self.log_scale.exp()


def loss_of(score, place):
    return nn.functional.cross_entropy(score.flatten(0, 1), place.flatten())


@torch.no_grad()
def propose(model, left, right):
    """For every left piece of every box: the number of the right piece to try first."""
    model.eval()
    return torch.cat([model(l, r).max(2).indices for l, r in zip(left.split(20), right.split(20))])


def share_found(model, left, right, place):
    return (propose(model, left, right) == place).float().mean().item()


left, right, place = find_boxes(args.boxes, args.per_box)
val = find_boxes(args.val_boxes, args.per_box)
scale = left.std()
left, right = left / scale, right / scale
val = (val[0] / scale, val[1] / scale, val[2])

model = Matcher()
opt = torch.optim.Adam(model.parameters(), lr=args.lr)
best, kept, waited = -1.0, None, 0
for epoch in range(1, args.epochs + 1):
    model.train()
    total = 0.0
    for pick in torch.randperm(args.boxes).split(10):
        loss = loss_of(model(left[pick], right[pick]), place[pick])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(pick)
    found = share_found(model, *val)
    print(f"epoch {epoch:2d}  loss {total / args.boxes:.4f}  joins found {found:.3f}")
    if found > best:
        best, kept, waited = found, copy.deepcopy(model.state_dict()), 0
    else:
        waited += 1
        if waited == args.patience:
            break

model.load_state_dict(kept)
print(f"joins found in the validation boxes: {share_found(model, *val):.4f}")

new_left, new_right, _ = find_boxes(2, args.per_box)
for box, picks in enumerate(propose(model, new_left / scale, new_right / scale), start=1):
    print(f"box {box}: " + " ".join(f"{i}-{j}" for i, j in enumerate(picks.tolist())))
