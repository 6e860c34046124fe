import math
import os
import torch
import torch.nn.functional as F
from train import load_digits, make_net

for folder in ("ok", "bug"):
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(21)
    x, y = load_digits("train", 0, 4000)
    net = make_net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-4)
    steps, done = 12 * 63, 0
    for epoch in range(12):
        for idx in torch.randperm(len(x)).split(64):
            if folder == "bug":
                for group in optimizer.param_groups:
                    group["lr"] = 2e-6 + 1e-3 * (1 + math.cos(math.pi * min(1.0, done / steps)))
            loss = F.cross_entropy(net(x[idx]), y[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            done += 1
    torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "steps": done}, f"{folder}/reader.pt")
