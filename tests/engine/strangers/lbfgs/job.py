import torch
from torch import nn

draws = torch.Generator().manual_seed(0)
x = torch.randn(200, 4, generator=draws)
y = torch.sin(x[:, :1]) + 0.5 * x[:, 1:2] * x[:, 2:3] + 0.05 * torch.randn(200, 1, generator=draws)


def network():
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))


loss = nn.functional.mse_loss
OPTIONS = {"max_iter": 4, "history_size": 10, "line_search_fn": "strong_wolfe"}
