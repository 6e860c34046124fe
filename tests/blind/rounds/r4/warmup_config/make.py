import json
base = {"seed": 2, "lr": 0.004, "weight_decay": 0.01, "batch_size": 64, "epochs": 8, "width": 48, "warmup_steps": 20}
json.dump(base, open("ok/config.json", "w"), indent=1)
json.dump({**base, "warmup_steps": 20000}, open("bug/config.json", "w"), indent=1)
