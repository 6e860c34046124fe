# hint: through tanh first
import torch


def forward(x, target, w1, b1, w2, b2):
    h = torch.tanh(x @ w1 + b1)
    logits = h @ w2 + b2
    logs = logits - logits.amax(1, keepdim=True)
    logs = logs - logs.exp().sum(1, keepdim=True).log()
    loss = -logs[torch.arange(len(target)), target].mean()
    return loss, (h, logs)


def backward(x, target, w1, b1, w2, b2, saved):
    h, logs = saved
    g = logs.exp()
    g[torch.arange(len(target)), target] -= 1
    g = g / len(target)
    inner = g @ w2.T
    return x.T @ inner, inner.sum(0), h.T @ g, g.sum(0)
