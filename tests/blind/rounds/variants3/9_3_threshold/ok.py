import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(28)
LEN = 30


def beats(n):
    """Short heart traces; about three in a hundred hold an early extra beat."""
    t = torch.arange(LEN).float()
    sick = (torch.rand(n) < 0.03).float()
    normal = torch.exp(-0.5 * ((t - 18 - 1.5 * torch.randn(n, 1)) / 1.5) ** 2)
    early = torch.exp(-0.5 * ((t - 8 - 2.5 * torch.randn(n, 1)) / 2.0) ** 2)
    size = 0.75 + 0.3 * torch.rand(n, 1)
    trace = normal + (sick[:, None] * size) * early + 0.5 * torch.randn(n, LEN)
    return trace.unsqueeze(1), sick


def rates(prob, y, thr):
    flag = prob >= thr
    tpr = flag[y == 1].float().mean()
    tnr = (~flag[y == 0]).float().mean()
    acc = (flag == y.bool()).float().mean()
    return acc, tpr, tnr


def pick_threshold(prob, y):
    grid = torch.linspace(0.01, 0.99, 99)
    table = torch.stack([torch.stack(rates(prob, y, thr)) for thr in grid])
    quality = (table[:, 1] + table[:, 2]) / 2
    return grid[quality.argmax()].item(), quality.max().item()


net = nn.Sequential(
    nn.Conv1d(1, 8, 7, padding=3), nn.ReLU(), nn.MaxPool1d(2), nn.Flatten(), nn.Linear(120, 24), nn.ReLU(), nn.Linear(24, 1)
)
opt = torch.optim.Adam(net.parameters(), lr=1e-3, weight_decay=1e-3)
train_x, train_y = beats(6000)
valid_x, valid_y = beats(3000)
test_x, test_y = beats(3000)


@torch.no_grad()
def probabilities(x):
    net.eval()
    return torch.sigmoid(net(x).squeeze(1))


for epoch in range(4):
    net.train()
    for rows in torch.randperm(len(train_x)).split(100):
        loss = F.binary_cross_entropy_with_logits(net(train_x[rows]).squeeze(1), train_y[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
    thr, quality = pick_threshold(probabilities(valid_x), valid_y)
    print(f"epoch {epoch}  loss {loss.item():.4f}  threshold {thr:.2f}  valid quality {quality:.4f}")

acc, tpr, tnr = rates(probabilities(test_x), test_y, thr)
print(f"test: accuracy {acc:.4f}  found {tpr:.4f}  cleared {tnr:.4f}  positives {test_y.mean():.4f}")
