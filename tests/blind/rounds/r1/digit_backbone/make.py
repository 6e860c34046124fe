import gzip, os
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
n = 8000
with gzip.open(os.environ["TRUELOOP_DATA"] + "/mnist/train-images-idx3-ubyte.gz") as f:
    x = torch.tensor(np.frombuffer(f.read(16 + 784 * n)[16:], np.uint8).reshape(n, 1, 28, 28).astype(np.float32) / 255)
with gzip.open(os.environ["TRUELOOP_DATA"] + "/mnist/train-labels-idx1-ubyte.gz") as f:
    y = torch.tensor(np.frombuffer(f.read(8 + n)[8:], np.uint8).astype(np.int64))


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 8, 5, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU())
        self.embed = nn.Linear(16 * 25, 16)

    def forward(self, x):
        return torch.tanh(self.embed(self.conv(x).flatten(1)))


net, head = Backbone(), nn.Linear(16, 10)
opt = torch.optim.Adam([*net.parameters(), *head.parameters()], lr=1e-3)
for epoch in range(4):
    for idx in torch.randperm(n).split(64):
        loss = F.cross_entropy(head(net(x[idx])), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
state = net.state_dict()
torch.save({"run": "digits-0412", "model": {k: v.clone() for k, v in state.items()}}, "ok/backbone.pt")
torch.save({"run": "digits-0412", "model": {"module." + k: v.clone() for k, v in state.items()}}, "bug/backbone.pt")
