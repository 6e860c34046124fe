import json
for k, a in (("bug", 64), ("ok", 2)):
    json.dump({"seed": 2, "epochs": 10, "batch_size": 32, "accumulate": a, "lr": 0.01, "hidden": 32}, open(f"{k}/train.json", "w"), indent=2)
