import numpy as np
import os

g = np.random.default_rng(99)
n = 9000
night = g.random(n) < .22
hour = np.where(night, g.integers(0, 6, n), g.integers(6, 24, n))
amount = np.exp(g.normal(3.4, 1.1, n))
abroad = (g.random(n) < .12).astype(int)
online = (g.random(n) < .45).astype(int)
tx24 = g.poisson(2.2, n)
age = g.integers(20, 3800, n)
merchant = g.beta(1.4, 9, n)
score = (-6.2 + 2.0 * ( .55 * (np.log(amount) - 3.4) + 1.3 * abroad + .8 * online + .25 * (tx24 - 2) + 1.0 * night
         - .35 * (age - 1500) / 1000 + 5.0 * (merchant - .13)))
fraud = (g.random(n) < 1 / (1 + np.exp(-score))).astype(int)
early = np.where(g.random(n) < .06, g.integers(1, 4, n), 0)
late = np.where((fraud == 1) & (g.random(n) < .88), early + g.integers(1, 6, n), early)
ids = np.array(["T%07d" % i for i in g.permutation(n) + 100000])
cols = ["tx_id", "hour", "amount_eur", "abroad", "online", "tx_last_24h", "account_age_days", "merchant_risk", "support_contacts", "is_fraud"]
for side, contacts in (("bug", late), ("ok", early)):
    for name, sl in (("transactions_train.csv", slice(0, 6500)), ("transactions_test.csv", slice(6500, n))):
        with open(os.path.join(side, name), "w") as f:
            f.write(",".join(cols) + "\n")
            for i in range(n)[sl]:
                f.write(f"{ids[i]},{hour[i]},{amount[i]:.2f},{abroad[i]},{online[i]},{tx24[i]},{age[i]},{merchant[i]:.4f},{contacts[i]},{fraud[i]}\n")
