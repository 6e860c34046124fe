import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(51)
PEOPLE, RAW = 30, 24
identity = torch.randn(PEOPLE, RAW)
nuisance = 2.0 * torch.randn(3, RAW)


def photos(people):
    light = torch.randn(len(people), 3)
    return identity[people] + light @ nuisance + 0.4 * torch.randn(len(people), RAW)


def triplets(n, low, high):
    anchor = torch.randint(low, high, (n,))
    other = low + (anchor - low + torch.randint(1, high - low, (n,))) % (high - low)
    return photos(anchor), photos(anchor), photos(other)


def closeness(a, b):
    return F.cosine_similarity(a, b, dim=1)


def margin_loss(anchor, positive, negative, margin=0.5):
    same = closeness(anchor, positive)
    different = closeness(anchor, negative)
    return F.relu(margin + different - same).mean()


def verify(net, parts):
    """Share of triplets in which the two photos of one person are closer."""
    net.eval()
    with torch.no_grad():
        a, p, n = (net(x) for x in parts)
        share = (closeness(a, p) > closeness(a, n)).float().mean().item()
    net.train()
    return share


net = nn.Sequential(nn.Linear(RAW, 64), nn.ReLU(), nn.Linear(64, 16))
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
held_out = triplets(600, 0, PEOPLE)
print(f"start verified {verify(net, held_out):.3f}")
history = []
for step in range(1, 301):
    parts = triplets(96, 0, PEOPLE)
    joint = net(torch.cat(parts))
    loss = margin_loss(*joint.chunk(3))
    opt.zero_grad()
    loss.backward()
    opt.step()
    history.append(loss.item())
    if step % 60 == 0:
        print(f"step {step} loss {sum(history[-60:]) / 60:.4f} verified {verify(net, held_out):.3f}")
