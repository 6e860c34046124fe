import json

for side, sync in (("ok", 100), ("bug", 10000)):
    cfg = {"seed": 6, "size": 6, "pits": [[1, 1], [1, 4], [3, 2], [4, 4], [2, 5]], "goal": [5, 5], "max_steps": 40,
           "lr": 0.003, "gamma": 0.95, "memory": 5000, "batch_size": 64, "warmup": 200, "total_steps": 6000,
           "eps_steps": 3000, "eps_end": 0.1, "target_sync_every": sync}
    json.dump(cfg, open(f"{side}/agent.json", "w"), indent=1)
