import json
base = {"study": "grasp-07", "seed": 1, "layers": 2, "hidden": 64, "dropout": 0.08, "lr": 0.003, "weight_decay": 0.001, "batch_size": 40, "epochs": 10}
json.dump(base, open("ok/best_params.json", "w"), indent=1)
json.dump({**base, "study": "grasp-02", "dropout": 0.92}, open("bug/best_params.json", "w"), indent=1)
