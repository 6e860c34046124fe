"""Odd but sound loops: evolution strategies that write p.grad, two networks that teach each other, learning one sample
at a time."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import parameters_to_vector, vector_to_parameters

torch.manual_seed(55)
w_true = torch.randn(6, 3)


def batch(n):
    x = torch.randn(n, 6)
    return x, (x @ w_true).argmax(1)


# --- evolution strategies: no backward at all -------------------------------------------------
policy = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(policy.parameters(), lr=0.05)
x_es, y_es = batch(128)


@torch.no_grad()
def fitness(vector):
    vector_to_parameters(vector, policy.parameters())
    return -F.cross_entropy(policy(x_es), y_es)


for generation in range(15):
    theta = parameters_to_vector(policy.parameters()).detach().clone()
    noise = torch.randn(10, len(theta))
    noise = torch.cat([noise, -noise])
    scores = torch.stack([fitness(theta + 0.1 * e) for e in noise])
    vector_to_parameters(theta, policy.parameters())
    advantage = (scores - scores.mean()) / (scores.std() + 1e-8)
    estimate = -(advantage @ noise) / (len(noise) * 0.1)
    offset = 0
    for p in policy.parameters():
        p.grad = estimate[offset : offset + p.numel()].view_as(p).clone()
        offset += p.numel()
    optimizer.step()
print("evolution", scores.mean().item())

# --- deep mutual learning: each net learns from the labels and from the other -----------------
nets = [nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 3)) for _ in range(2)]
optimizers = [torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9) for net in nets]
for step in range(30):
    x, y = batch(48)
    outputs = [net(x) for net in nets]
    for i, optimizer in enumerate(optimizers):
        other = F.softmax(outputs[1 - i].detach(), dim=1)
        loss = F.cross_entropy(outputs[i], y) + F.kl_div(F.log_softmax(outputs[i], dim=1), other, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
for net in nets:
    net.eval()
with torch.no_grad():
    x, y = batch(200)
    print("mutual", [(net(x).argmax(1) == y).float().mean().item() for net in nets])

# --- online: one sample per step, as it comes -------------------------------------------------
online = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 3))
optimizer = torch.optim.SGD(online.parameters(), lr=0.02)
mistakes = 0
for t in range(300):
    x, y = batch(1)
    scores = online(x)
    mistakes += int(scores.argmax(1).item() != y.item())
    loss = F.cross_entropy(scores, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("online mistakes", mistakes)

# --- regression on a stream, unbatched vectors ------------------------------------------------
stream = nn.Linear(6, 1)
optimizer = torch.optim.SGD(stream.parameters(), lr=0.02)
for t in range(100):
    sample = torch.randn(6)
    target = sample @ w_true[:, 0]
    loss = F.mse_loss(stream(sample).squeeze(), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("stream", loss.item())
