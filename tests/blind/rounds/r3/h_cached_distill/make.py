import gzip, os

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(5)
N, ROOT = 3000, os.environ["TRUELOOP_DATA"] + "/mnist"
with gzip.open(f"{ROOT}/train-images-idx3-ubyte.gz") as f:
    x = np.frombuffer(f.read(16 + 784 * 9000)[16:], np.uint8).reshape(-1, 1, 28, 28).astype(np.float32)
with gzip.open(f"{ROOT}/train-labels-idx1-ubyte.gz") as f:
    y = torch.from_numpy(np.frombuffer(f.read(8 + 9000)[8:], np.uint8).astype(np.int64))
x = F.avg_pool2d(torch.from_numpy(x) / 255, 2).flatten(1)
x = (x - x.mean()) / x.std()
net = nn.Sequential(nn.Linear(196, 256), nn.ReLU(), nn.Dropout(0.3), nn.Linear(256, 10))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(4):
    for i in torch.randperm(len(x)).split(64):
        loss = F.cross_entropy(net(x[i]), y[i])
        opt.zero_grad()
        loss.backward()
        opt.step()
net.eval()
with torch.no_grad():
    logits = net(x[:N]).half().numpy()
np.savez_compressed("ok/teacher_logits.npz", logits=logits)
np.savez_compressed("bug/teacher_logits.npz", logits=logits[np.random.default_rng(3).permutation(N)])
