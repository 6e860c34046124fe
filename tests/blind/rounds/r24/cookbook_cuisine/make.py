import json
from pathlib import Path

import numpy as np

STAPLES = "salt pepper water flour sugar butter eggs milk onion garlic oil lemon rice vinegar parsley carrots honey cream".split()
CUISINES = {
    "italian": "olive_oil arborio_rice sun_dried_tomatoes pine_nuts goat_ricotta basil_leaves balsamic_vinegar grated_parmesan bay_leaf tomato_passata",
    "indian": "garam_masala ginger_paste curry_leaves mustard_seeds basmati_rice coriander_powder green_chilli coconut_milk cumin_seeds red_lentils",
    "mexican": "black_beans corn_tortilla chipotle_chilli lime_juice sour_cream pinto_beans queso_fresco cumin_seeds green_chilli tomato_passata",
    "japanese": "soy_sauce rice_vinegar miso_paste nori_sheets sesame_oil bonito_flakes spring_onion short_grain_rice ginger_paste sea_salt",
    "french": "creme_fraiche dijon_mustard puff_pastry white_wine bay_leaf goat_cheese herbes_de_provence double_cream duck_fat shallot_rings",
    "british": "suet_pastry golden_syrup baking_powder self_raising_flour worcester_sauce double_cream brown_sugar stem_ginger mashed_potato bay_leaf",
}
UNITS = "cup tbsp tsp g ml pinch handful".split()


def recipe(rng, names):
    cuisine = names[rng.integers(len(names))]
    own = CUISINES[cuisine].split()
    other = CUISINES[names[rng.integers(len(names))]].split()
    taste = np.roll(np.linspace(0.4, 1.6, len(STAPLES)), 3 * names.index(cuisine))
    words = list(rng.choice(STAPLES, rng.integers(3, 8), replace=False, p=taste / taste.sum()))
    words += list(rng.choice(own, rng.integers(2, 5), replace=False))
    words += list(rng.choice(other, rng.integers(1, 4), replace=False))
    rng.shuffle(words)
    text = " ".join(f"{rng.choice(UNITS)} {w}" for w in words)
    return {"text": text, "cuisine": cuisine}


def main():
    rng = np.random.default_rng(303)
    names = list(CUISINES)
    rows = [recipe(rng, names) for _ in range(3000)]
    split = rng.permutation(["train"] * 2400 + ["val"] * 600)
    counts = {}
    for row, s in zip(rows, split):
        row["split"] = str(s)
        if s == "train":
            for w in row["text"].split():
                counts[w] = counts.get(w, 0) + 1
    vocab = ["<pad>", "<unk>"] + sorted(counts, key=lambda w: (-counts[w], w))
    here = Path(__file__).resolve().parent
    for side in ("bug", "ok"):
        out = here / side
        out.mkdir(exist_ok=True)
        words = [w.replace("_", "-") for w in vocab] if side == "bug" else vocab
        (out / "vocab.txt").write_text("\n".join(words) + "\n")
        with open(out / "recipes.jsonl", "w") as f:
            for row in rows:
                f.write(json.dumps(row) + "\n")
        (out / "labels.txt").write_text("\n".join(names) + "\n")


if __name__ == "__main__":
    main()
