import json
for k, c in (("bug", "0.0005"), ("ok", "5.0")):
    json.dump({"LEARNING_RATE": "0.5", "MAX_GRAD_NORM": c, "EPOCHS": "10", "SEED": "3"}, open(f"{k}/env.json", "w"), indent=1)
