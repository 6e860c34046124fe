import json, os
here = os.path.dirname(os.path.abspath(__file__))
base = {"model": {"d_model": 24, "layers": 2, "heads": 4, "dropout": 0.0},
        "data": {"rows": 1200, "test_rows": 800, "columns": 6, "seed": 5},
        "optim": {"name": "adamw", "peak_lr": 0.004, "weight_decay": 0.01, "warmup_steps": 30, "epochs": 12, "batch_size": 60}}
for side in ("bug", "ok"):
    cfg = json.loads(json.dumps(base))
    if side == "bug":
        cfg["optim"]["warmup_steps"] = 30000
    os.makedirs(os.path.join(here, side), exist_ok=True)
    with open(os.path.join(here, side, "config.json"), "w") as f:
        json.dump(cfg, f, indent=2)
