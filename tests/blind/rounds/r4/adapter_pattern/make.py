import json, sys, importlib.util
import torch
import torch.nn.functional as F
sys.argv = ["train.py", "ok"]
spec = importlib.util.spec_from_file_location("t", "train.py"); t = importlib.util.module_from_spec(spec); spec.loader.exec_module(t)
torch.manual_seed(0)
m = t.Model()
x = torch.randn(3000, 20); y = torch.tanh(x[:, 4:12].sum(1)) + 0.3 * x[:, 0] - 0.3 * x[:, 3]
for n, p in m.named_parameters():
    p.requires_grad_("adapter" not in n)
opt = torch.optim.Adam([p for p in m.parameters() if p.requires_grad], lr=2e-3)
for e in range(5):
    for i in torch.randperm(3000).split(60):
        l = F.mse_loss(m(x[i]), y[i]); opt.zero_grad(); l.backward(); opt.step()
for name, pat in (("ok", "blocks.*.adapter*"), ("bug", "encoder.*.adapter*")):
    torch.save(m.state_dict(), f"{name}/base.pt")
    json.dump({"seed": 3, "lr": 0.004, "weight_decay": 0.001, "epochs": 12, "batch_size": 40, "trainable": [pat, "head*"]}, open(f"{name}/config.json", "w"), indent=1)
