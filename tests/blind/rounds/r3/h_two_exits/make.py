import json

base = {"seed": 0, "envs": 32, "steps": 500, "batch": 96, "hidden": 64, "lr": 3e-3, "sync": 10, "gamma": 0.97}
json.dump(base, open("ok/config.json", "w"), indent=2)
json.dump({**base, "gamma": 0.5}, open("bug/config.json", "w"), indent=2)
