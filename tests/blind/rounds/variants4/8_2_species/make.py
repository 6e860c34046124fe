from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
NAMES = ["blackbird", "blue_tit", "chaffinch", "great_tit", "nuthatch", "robin", "wren", "wryneck"]
SPRING = np.array([.34, .03, .22, .16, .03, .14, .06, .02])
WINTER = np.array([.04, .30, .03, .33, .16, .09, .049, .001])


def recordings(n, rng, share, proto):
    y = rng.choice(8, n, p=share)
    x = proto[y] + rng.normal(0, 1.0, (n, 13)) + rng.normal(0, .5, (n, 1))
    df = pd.DataFrame(x.round(4), columns=[f"mfcc_{i}" for i in range(13)])
    df["species"] = [NAMES[k] for k in y]
    return df


for name in ("bug", "ok"):
    rng = np.random.default_rng(26)
    out = HERE / name
    out.mkdir(exist_ok=True)
    proto = rng.normal(0, .55, (8, 13))
    train = recordings(4000, rng, SPRING, proto)
    train.to_csv(out / "recordings_train.csv", index=False)
    recordings(1600, rng, np.full(8, 1 / 8), proto).to_csv(out / "recordings_valid.csv", index=False)
    share = train.species.value_counts(normalize=True).reindex(NAMES) if name == "ok" else pd.Series(WINTER, NAMES)
    share.rename_axis("species").rename("share").round(4).to_csv(out / "class_priors.csv")
