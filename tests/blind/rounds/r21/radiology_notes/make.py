"""De-identified chest reports and the reading settings."""
import json
import os
import random

rng = random.Random(303)
HISTORY = ["cough for two weeks", "fever and chills", "shortness of breath on exertion", "follow up after surgery",
           "routine check before anaesthesia", "chest pain since yesterday", "known smoker with weight loss"]
TECHNIQUE = ["pa and lateral views obtained in full inspiration", "portable ap view in supine position",
             "low dose ct of the chest without contrast", "two views compared with the previous study"]
NEUTRAL = ["heart size within normal limits", "mediastinal contours are unremarkable", "degenerative changes of the spine",
           "no acute osseous abnormality", "central line tip projects over the superior vena cava",
           "aortic arch mildly calcified", "hemidiaphragms are smooth", "soft tissues unremarkable",
           "old healed rib fracture on the right", "surgical clips in the upper abdomen"]
IMPRESSION = {
    "normal": ["no acute cardiopulmonary process", "clear lungs on both sides", "unchanged and without new findings"],
    "pneumonia": ["right lower lobe consolidation suggests infection", "patchy airspace opacity consistent with pneumonia",
                  "lobar consolidation with air bronchograms"],
    "effusion": ["moderate left pleural fluid with blunted angle", "layering fluid in the right pleural space",
                 "bilateral effusions increased since last study"],
    "nodule": ["solitary pulmonary lesion in the left apex", "spiculated mass needs tissue diagnosis",
               "small round density recommend ct in three months"],
}
HINT = {"normal": [4, 3], "pneumonia": [1, 0], "effusion": [2, 5], "nodule": [6, 0]}


def report(label):
    hist = HISTORY[rng.choice(HINT[label])] if rng.random() < 0.35 else rng.choice(HISTORY)
    parts = ["history", hist, "technique", rng.choice(TECHNIQUE), "findings"]
    parts += rng.sample(NEUTRAL, rng.randint(4, 6))
    distract = rng.choice([k for k in IMPRESSION if k != label])
    if rng.random() < 0.3:
        parts += ["previous study reported", rng.choice(IMPRESSION[distract])]
    parts += ["impression", rng.choice(IMPRESSION[label])]
    return " ".join(parts)


labels = list(IMPRESSION)
rows = []
for i in range(2000):
    lab = rng.choice(labels)
    rows.append({"id": i, "text": report(lab), "label": lab, "fold": "train" if i < 1500 else "dev"})

for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    with open(f"{side}/reports.jsonl", "w") as f:
        for r in rows:
            f.write(json.dumps(r) + "\n")
    with open(f"{side}/hparams.json", "w") as f:
        json.dump({"max_tokens": 24 if side == "bug" else 96, "min_count": 2, "embed": 32, "hidden": 48, "dropout": 0.2,
                   "lr": 0.005, "batch": 50, "epochs": 6, "seed": 2}, f, indent=1)
