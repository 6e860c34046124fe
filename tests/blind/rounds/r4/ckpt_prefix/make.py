import numpy as np
import torch
import torch.nn as nn
import importlib.util, sys
sys.argv = ["train.py", "ok"]
spec = importlib.util.spec_from_file_location("t", "train.py"); t = importlib.util.module_from_spec(spec); spec.loader.exec_module(t)
torch.manual_seed(0)
g = torch.Generator().manual_seed(1)
mix = torch.randn(6, 50, generator=g)
nuis = torch.randn(30, 50, generator=g)
proto = torch.randn(8, 6, generator=g) * 1.5
def data(n):
    y = torch.randint(0, 8, (n,), generator=g)
    z = proto[y] + 0.6 * torch.randn(n, 6, generator=g)
    return torch.tanh(z) @ mix + 0.9 * torch.randn(n, 30, generator=g) @ nuis, y
enc = t.Encoder(); head = nn.Linear(16, 8)
x, y = data(6000)
opt = torch.optim.Adam([*enc.parameters(), *head.parameters()], lr=2e-3)
for e in range(12):
    for i in torch.randperm(6000).split(100):
        l = nn.functional.cross_entropy(head(enc(x[i])), y[i]); opt.zero_grad(); l.backward(); opt.step()
print(l.item())
x, y = data(96); xv, yv = data(250)
for name in ("ok", "bug"):
    sd = {("module." if name == "bug" else "") + k: v.clone() for k, v in enc.state_dict().items()}
    torch.save(sd, f"{name}/encoder.pt")
    np.savez_compressed(f"{name}/fewshot.npz", x=x.numpy().astype(np.float16), y=y.numpy(), xv=xv.numpy().astype(np.float16), yv=yv.numpy())
