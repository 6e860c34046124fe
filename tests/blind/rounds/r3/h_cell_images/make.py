import json

base = {"seed": 0, "channels": [8, 16], "bn_momentum": 0.1, "lr": 0.003, "epochs": 7}
json.dump(base, open("ok/model.json", "w"))
json.dump({**base, "bn_momentum": 0.0005}, open("bug/model.json", "w"))
