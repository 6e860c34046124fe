import json, random
rng = random.Random(2)
greet = "hello good morning this is speaking thanks for taking my call i hope you are well today".split()
intent = {"cancel": "stop end quit cancel terminate".split(), "upgrade": "more faster bigger upgrade premium".split(), "repair": "broken fix dead repair noisy".split()}
fill = "please would like to with the line contract number and now because".split()
rows = []
for _ in range(1300):
    k = rng.choice(list(intent))
    w = [rng.choice(greet) for _ in range(rng.randint(5, 9))] + [rng.choice(intent[k]) if rng.random() < .4 else rng.choice(fill) for _ in range(7)]
    rows.append({"text": " ".join(w), "intent": k})
for k, m in (("bug", 5), ("ok", 20)):
    open(f"{k}/calls.jsonl", "w").write("\n".join(json.dumps(r) for r in rows))
    json.dump({"max_len": m, "dim": 16, "hidden": 24, "lr": 0.01, "batch_size": 50, "epochs": 8, "valid_share": 0.25}, open(f"{k}/config.json", "w"), indent=2)
