import json
import numpy as np

rng = np.random.default_rng(83)
N = 3000
clean, noise, staff = rng.normal(0, 1, N), rng.normal(0, 1, N), rng.normal(0, 1, N)
price = rng.gamma(5, 26, N)
dist = rng.gamma(2, 1.4, N)
wifi = rng.integers(0, 2, N)
nights = rng.integers(1, 9, N)
trip = rng.integers(0, 3, N)
z = (1.1 * clean + 0.9 * staff - 0.7 * noise * (1 + 0.5 * (trip == 1)) - 0.008 * (price - 130) - 0.25 * dist * (trip == 2) + 0.4 * wifi * (trip == 1)
     + 0.5 * np.tanh(clean * staff) + rng.logistic(0, 0.35, N))
words = ["poor", "fair", "good", "very good", "excellent"]
lab = np.digitize(z, np.quantile(z, [0.12, 0.3, 0.58, 0.83]))
head = "cleanliness,street_noise,staff,price,km_centre,wifi,nights,trip,rating"
trips = ["leisure", "business", "family"]
rows = [f"{clean[i]:.2f},{noise[i]:.2f},{staff[i]:.2f},{price[i]:.0f},{dist[i]:.1f},{wifi[i]},{nights[i]},{trips[trip[i]]},{words[lab[i]]}" for i in range(N)]
for side in ("bug", "ok"):
    open(f"{side}/reviews_train.csv", "w").write("\n".join([head] + rows[:2400]) + "\n")
    open(f"{side}/reviews_test.csv", "w").write("\n".join([head] + rows[2400:]) + "\n")
    json.dump({"target": "rating", "levels": sorted(words) if side == "bug" else words}, open(f"{side}/schema.json", "w"))
