import json, os
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(31)
ACUTE = "hypotensive tachypneic lactate pressors obtunded mottled rigors desaturating bandemia oliguria".split()
CALM = "ambulating tolerating afebrile comfortable discharge oriented unremarkable resting clear soft".split()
COMMON = ("pt seen and examined this am hx of htn dm2 on home meds labs reviewed plan discussed with family abd lungs "
          "heart ext neuro continue monitor follow up tomorrow cxr ekg iv po prn daily overnight nursing report no "
          "change denies pain states feels").split()


def note():
    sick = rng.random() < 0.12
    n = rng.integers(25, 50)
    p = rng.random(n)
    words = []
    for q in p:
        if q < 0.10:
            words.append(str(rng.choice(ACUTE if rng.random() < (0.62 if sick else 0.30) else CALM)))
        elif q < 0.14:
            words.append("bp_%d" % rng.integers(8, 18))
        else:
            words.append(str(rng.choice(COMMON)))
    return {"text": " ".join(words), "icu_24h": int(sick)}


rows = {"train": [note() for _ in range(4000)], "dev": [note() for _ in range(800)], "test": [note() for _ in range(2000)]}
pos = np.mean([r["icu_24h"] for r in rows["train"]])
w_neg, w_pos = round(0.5 / (1 - pos), 3), round(0.5 / pos, 3)
for name, w in (("ok", {"0": w_neg, "1": w_pos}), ("bug", {"0": w_pos, "1": w_neg})):
    d = os.path.join(HERE, name)
    os.makedirs(d, exist_ok=True)
    for part, rs in rows.items():
        with open(os.path.join(d, part + ".jsonl"), "w") as f:
            f.writelines(json.dumps(r) + "\n" for r in rs)
    json.dump(w, open(os.path.join(d, "class_weights.json"), "w"))
