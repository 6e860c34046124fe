import json
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
rng = np.random.default_rng(0)
x = rng.normal(size=(1500, 8))
y = 1.4 * x[:, 0] - 0.5 * x[:, 1] + 0.2 * np.maximum(x[:, 2], 0) - 0.5 * x[:, 3] * x[:, 4]
x, y = torch.tensor(x, dtype=torch.float32), torch.tensor(y + 0.2 * rng.normal(size=1500), dtype=torch.float32)
model = nn.Sequential(nn.Linear(8, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(12):
    for idx in torch.randperm(1500).split(64):
        loss = F.mse_loss(model(x[idx]).squeeze(1), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
for name, lr in (("bug", 1e-8), ("ok", 2e-3)):
    opt.param_groups[0]["lr"] = lr
    torch.save({"season": 2023, "model": model.state_dict(), "optimizer": opt.state_dict()}, f"{name}/last_year.pt")
    json.dump(dict(seed=4, lr=2e-3, epochs=12, batch_size=64), open(f"{name}/config.json", "w"))
