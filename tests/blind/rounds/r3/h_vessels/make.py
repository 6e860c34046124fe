import json

base = {"seed": 1, "epochs": 16, "batch_size": 4, "lr": 0.01, "accumulate": 4}
json.dump(base, open("ok/train.json", "w"))
json.dump({**base, "accumulate": 64}, open("bug/train.json", "w"))
