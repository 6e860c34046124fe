import json
for k, s in (("bug", 100000), ("ok", 60)):
    json.dump({"seed": 1, "steps": 3000, "gamma": 0.97, "lr": 0.003, "batch_size": 48, "learning_starts": 300, "target_sync": s, "eps_start": 1.0, "eps_end": 0.3, "eps_steps": 2000}, open(f"{k}/agent.json", "w"), indent=1)
