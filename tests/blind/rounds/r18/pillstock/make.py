import numpy as np

rng = np.random.default_rng(33)
ITEMS = ["ibuprofen400", "paracetamol500", "amoxicillin", "cetirizine10", "omeprazole20", "metformin850", "salbutamol", "vitaminD", "loperamide",
         "nasal_spray", "insulin_pen", "cough_syrup"]
WEEKS = 170
level = rng.uniform(15, 90, len(ITEMS))
amp = rng.uniform(0, 0.5, len(ITEMS))
phase = rng.uniform(0, 52, len(ITEMS))
dem = np.zeros((WEEKS, len(ITEMS)))
state = np.zeros(len(ITEMS))
for w in range(WEEKS):
    state = 0.7 * state + rng.normal(0, 0.13, len(ITEMS))
    dem[w] = rng.poisson(level * (1 + amp * np.sin(2 * np.pi * (w - phase) / 52)) * np.exp(state))
stock = np.maximum(0, 2.2 * level + rng.normal(0, 0.3, dem.shape) * level)


def rows(first, last, source):
    out = []
    for w in range(first, last):
        for j, item in enumerate(ITEMS):
            ref = dem[w + 1, j] if source == "next" else dem[w - 3:w + 1, j].mean()
            cover = stock[w, j] / max(ref, 1.0) * 7
            out.append(f"{w},{item},{stock[w, j]:.0f},{dem[w, j]:.0f},{dem[w - 1, j]:.0f},{dem[w - 2, j]:.0f},{dem[w - 3, j]:.0f},{cover:.2f},{dem[w + 1, j]:.0f}")
    return out


HEAD = "week,item,stock,sold_w0,sold_w1,sold_w2,sold_w3,days_of_cover,sold_next"
for side in ("bug", "ok"):
    with open(f"{side}/history.csv", "w") as f:
        f.write("\n".join([HEAD] + rows(3, 140, "next" if side == "bug" else "past")) + "\n")
    with open(f"{side}/live.csv", "w") as f:
        f.write("\n".join([HEAD] + rows(140, WEEKS - 1, "past")) + "\n")
