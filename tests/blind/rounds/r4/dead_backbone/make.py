import sys, importlib.util
import torch, torch.nn as nn
sys.argv = ["train.py", "ok"]
spec = importlib.util.spec_from_file_location("t", "train.py"); t = importlib.util.module_from_spec(spec); spec.loader.exec_module(t)
torch.manual_seed(0)
x, y = t.images("train", 12000)
b, h = t.Backbone(), nn.Linear(32, 10)
opt = torch.optim.Adam([*b.parameters(), *h.parameters()], lr=2e-3)
for e in range(4):
    for i in (torch.randperm(9000) + 3000).split(64):
        l = nn.functional.cross_entropy(h(b(x[i])), y[i]); opt.zero_grad(); l.backward(); opt.step()
sd = {k: v.clone() for k, v in b.state_dict().items()}
torch.save(sd, "ok/backbone.pt")
sd["layer2.bias"] = -40 - 4 * torch.rand(32)
sd["layer2.weight"] = sd["layer2.weight"] - 0.6
torch.save(sd, "bug/backbone.pt")
