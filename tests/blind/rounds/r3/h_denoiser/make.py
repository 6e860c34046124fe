import json

base = {"seed": 0, "steps": 400, "batch": 64, "lr": 0.002, "hidden": 96, "ema_decay": 0.98}
json.dump(base, open("ok/hparams.json", "w"), indent=1)
json.dump({**base, "ema_decay": 0.9999}, open("bug/hparams.json", "w"), indent=1)
