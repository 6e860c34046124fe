import os
import gzip, numpy as np, torch
from torch import nn
torch.manual_seed(0); n = 4000
R = os.environ["TRUELOOP_DATA"] + "/fashion-mnist/t10k-"
with gzip.open(R + "images-idx3-ubyte.gz") as f: x = np.frombuffer(f.read(16 + 784 * n), np.uint8, offset=16).reshape(n, 14, 2, 14, 2).mean((2, 4)).reshape(n, 196) / 255
with gzip.open(R + "labels-idx1-ubyte.gz") as f: y = np.frombuffer(f.read(8 + n), np.uint8, offset=8)
x = (torch.tensor(x, dtype=torch.float32) - .286) / .32; y = torch.tensor(y, dtype=torch.long)
m = nn.Sequential(nn.Linear(196, 96), nn.ReLU(), nn.Linear(96, 10)); o = torch.optim.Adam(m.parameters(), 2e-3)
for e in range(7):
    for i in torch.randperm(n).split(64): o.zero_grad(); nn.functional.cross_entropy(m(x[i]), y[i]).backward(); o.step()
sd = {k: v.clone() for k, v in m.state_dict().items()}; torch.save(sd, "ok/teacher.pt")
names = ["tshirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"]
p = torch.tensor([names.index(s) for s in sorted(names)])
sd["2.weight"], sd["2.bias"] = sd["2.weight"][p].clone(), sd["2.bias"][p].clone(); torch.save(sd, "bug/teacher.pt")
