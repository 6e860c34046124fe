import json

json.dump({"max_shift": 1.5, "shear": 0.3, "noise_std": 0.1}, open("ok/augment.json", "w"))
json.dump({"max_shift": 1.5, "shear": 0.3, "noise_std": 25}, open("bug/augment.json", "w"))
