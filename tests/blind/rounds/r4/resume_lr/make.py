import sys, importlib.util
import torch
sys.argv = ["train.py", "ok"]
spec = importlib.util.spec_from_file_location("t", "train.py"); t = importlib.util.module_from_spec(spec); spec.loader.exec_module(t)
for name, lr in (("ok", 1e-3), ("bug", 1e-9)):
    torch.manual_seed(0)
    model, opt = t.build()
    x, y = t.campaign(1500, 1, 1.0)
    for e in range(12):
        t.train_epoch(model, opt, x, y)
    for g in opt.param_groups:
        g["lr"] = lr
    torch.save({"step": 564, "val": t.validate(model, *t.campaign(300, 2, 1.0)), "model": model.state_dict(), "optimizer": opt.state_dict()}, f"{name}/last.pt")
