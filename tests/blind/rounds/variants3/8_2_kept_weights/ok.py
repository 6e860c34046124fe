import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(24)


def two_spirals(n, noise):
    y = torch.randint(0, 2, (n,))
    r = torch.rand(n).sqrt() * 3 + 0.3
    a = r * 1.6 + y * torch.pi
    x = torch.stack([r * a.cos(), r * a.sin()], 1) + 0.12 * torch.randn(n, 2)
    x = torch.cat([x, torch.randn(n, 10)], 1)
    flip = torch.rand(n) < noise
    return x, torch.where(flip, 1 - y, y)


train_x, train_y = two_spirals(400, 0.2)
valid_x, valid_y = two_spirals(600, 0.0)
test_x, test_y = two_spirals(1000, 0.0)

net = nn.Sequential(nn.Linear(12, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2))
opt = torch.optim.Adam(net.parameters(), lr=1.5e-3)


def snapshot(module):
    return {k: v.detach().cpu().clone() for k, v in module.state_dict().items()}


@torch.no_grad()
def score(x, y):
    net.eval()
    out = net(x)
    net.train()
    return F.cross_entropy(out, y).item(), (out.argmax(1) == y).float().mean().item()


def train_epochs(count, size=50):
    for epoch in range(count):
        for rows in torch.randperm(len(train_x)).split(size):
            loss = F.cross_entropy(net(train_x[rows]), train_y[rows])
            opt.zero_grad()
            loss.backward()
            opt.step()
        yield epoch, score(valid_x, valid_y)


best_loss, best_epoch, kept = float("inf"), -1, None
for epoch, (vloss, vacc) in train_epochs(40):
    if vloss < best_loss:
        best_loss, best_epoch, kept = vloss, epoch, snapshot(net)
    if epoch % 4 == 3:
        print(f"epoch {epoch:2d}  valid loss {vloss:.4f}  valid acc {vacc:.4f}")

net.load_state_dict(kept)
tloss, tacc = score(test_x, test_y)
print(f"best epoch {best_epoch}  best valid loss {best_loss:.4f}  test loss {tloss:.4f}  test acc {tacc:.4f}")
