import json

base = {"seed": 1, "epochs": 8, "batch_size": 64, "lr": 0.002, "hidden": 128, "latent": 10, "kl_weight": 1.0}
json.dump(base, open("ok/config.json", "w"), indent=1)
json.dump({**base, "kl_weight": 60.0}, open("bug/config.json", "w"), indent=1)
