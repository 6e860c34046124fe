import json
json.dump({"mean": 123.675, "std": 58.395, "seed": 5}, open("bug/norm.json", "w"))
json.dump({"mean": 0.2860, "std": 0.3530, "seed": 5}, open("ok/norm.json", "w"))
