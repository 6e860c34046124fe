import numpy as np

for name in ("bug", "ok"):
    rng = np.random.default_rng(61)
    for country, n in (("uk", 800), ("ie", 500), ("de", 700)):
        cost = rng.uniform(4, 12, n)
        price = cost * rng.uniform(1.1, 1.8, n)
        rival = price * rng.uniform(0.8, 1.25, n)
        promo = (rng.random(n) < 0.2).astype(int)
        level = 4.0 - 0.15 * (price - 11) + 3.0 * (rival / price - 1) + 0.6 * promo
        units = rng.poisson(np.exp(level))
        with open(f"{name}/{country}.csv", "w") as f:
            f.write("price;competitor_price;unit_cost;promo;units\n")
            for i in range(n):
                money = [f"{v:.2f}" for v in (price[i], rival[i], cost[i])]
                if name == "bug" and country == "de":
                    money = [f"{v:.3g}".replace(".", ",") for v in (price[i], rival[i], cost[i])]
                f.write(";".join(money) + f";{promo[i]};{units[i]}\n")
