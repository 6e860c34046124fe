import json
base = {"seed": 0, "width": 32, "lr": 0.003, "batch_size": 50, "epochs": 6, "bn_momentum": 0.1}
json.dump(base, open("ok/model.json", "w"), indent=1)
json.dump({**base, "bn_momentum": 0.001}, open("bug/model.json", "w"), indent=1)
