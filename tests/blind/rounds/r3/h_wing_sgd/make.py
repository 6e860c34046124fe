import json

base = {"seed": 0, "hidden": 32, "lr": 0.1, "momentum": 0.9, "epochs": 25, "batch_size": 40, "max_grad_norm": 1.0}
json.dump(base, open("ok/settings.json", "w"))
json.dump({**base, "max_grad_norm": 0.0001}, open("bug/settings.json", "w"))
