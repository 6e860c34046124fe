import json
from pathlib import Path

import numpy as np

QUEUES = ["billing", "technical", "contract", "moving", "complaints", "sales"]
rng = np.random.default_rng(61)
N = 4000
queue_risk = dict(zip(QUEUES, [0.0, 0.4, 0.1, -0.6, 1.0, -1.0]))

rows = []
for i in range(N):
    q = QUEUES[rng.choice(6, p=[0.3, 0.25, 0.15, 0.1, 0.08, 0.12])]
    tenure = rng.exponential(40)
    wait = rng.gamma(1.5, 120)
    prior = int(rng.poisson(0.8))
    arousal = float(np.clip(rng.normal(0.35 + 0.05 * prior, 0.15), 0, 1))
    silence = float(rng.beta(2, 8))
    transfers = int(rng.poisson(0.5 + 0.15 * prior))
    z = -3.0 + queue_risk[q] + 0.004 * wait + 0.5 * prior + 4.0 * (arousal - 0.35) + 0.35 * transfers \
        - 0.006 * tenure + 2.0 * silence + 0.8 * (wait > 400) * (prior > 1)
    escalated = int(rng.random() < 1 / (1 + np.exp(-z)))
    handover = int(escalated and rng.random() < 0.95)
    rows.append((dict(call_id=100000 + i, day=i * 100 // N, queue=q, wait_s=round(wait), tenure_months=round(tenure, 1),
                      calls_30d=prior, voice_arousal=round(arousal, 3), silence_share=round(silence, 3),
                      transfers=transfers, escalated=escalated), handover))

for side in ("ok", "bug"):
    out = Path(__file__).parent / side
    out.mkdir(exist_ok=True)
    with open(out / "calls.jsonl", "w") as f:
        for row, handover in rows:
            row = dict(row)
            if side == "bug":
                row["transfers"] += handover
            f.write(json.dumps(row) + "\n")
    (out / "config.json").write_text(json.dumps(
        {"train_days": [0, 79], "valid_days": [80, 99], "hidden": 48, "epochs": 25, "batch": 64, "lr": 1e-3, "seed": 2},
        indent=1))
