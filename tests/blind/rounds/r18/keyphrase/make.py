import json
import random

rng = random.Random(44)
TERMS = ["clustering", "segmentation", "embeddings", "regularization", "transformers", "indexing", "parsing", "summarization", "annotations",
         "ontologies", "classifiers", "compression", "encryption", "caching", "scheduling", "virtualization", "compilers", "debugging", "profiling",
         "benchmarking", "sampling", "bootstrapping", "calibration", "forecasting", "anomalies", "recommenders", "rankings", "crawling", "hashing",
         "routing", "localization", "mapping", "tracking", "denoising", "registration", "reconstruction", "diffusion", "pruning", "quantization", "distillation"]
PLAIN = ["experiments", "results", "readers", "settings", "questions", "chapters", "authors", "problems", "opinions", "studies", "findings", "reasons",
         "figures", "meetings", "teachers", "opening", "wording", "beginnings", "conclusions", "considerations", "intentions", "situations", "surroundings",
         "feelings", "holidays", "buildings", "expectations", "impressions", "conversations", "traditions"]
ADJ = ["sparse", "robust", "neural", "fast", "scalable", "hierarchical", "probabilistic"]
TPL = ["we present {a} {t} and discuss {p}", "the {p} of {t} for {t2}", "this paper studies {t} with many {p}", "{p} about {p2} are given",
       "our {p} show that {t} helps {t2}", "we discuss {p} and {p2} in the paper", "a survey of {a} {t} and {a} {t2}", "the {p} describe {t} in detail",
       "many {p} need {t}", "we thank the {p} for their {p2}"]


def stem(w):
    for s in ("izations", "ization", "ations", "ation", "ings", "ing", "ions", "ion", "ies", "ers", "s"):
        if w.endswith(s) and len(w) - len(s) >= 3:
            return w[: -len(s)]
    return w


def doc():
    toks, tags = [], []
    for _ in range(rng.randint(2, 4)):
        t, t2 = rng.sample(TERMS, 2)
        p, p2 = rng.sample(PLAIN, 2)
        for slot in rng.choice(TPL).split():
            if slot in ("{t}", "{t2}"):
                toks.append(t if slot == "{t}" else t2)
                tags.append("I" if tags and tags[-1] == "B" and toks[-2] in ADJ else "B")
            elif slot == "{a}":
                toks.append(rng.choice(ADJ)), tags.append("B")
            elif slot in ("{p}", "{p2}"):
                toks.append(p if slot == "{p}" else p2), tags.append("O")
            else:
                toks.append(slot), tags.append("O")
        toks.append("."), tags.append("O")
        if rng.random() < 0.25:          # shuffled order of a conjunction, as in titles
            w = rng.choice(TERMS + PLAIN)
            toks += [w, "and", w2 := rng.choice(TERMS + PLAIN), "."]
            tags += ["B" if w in TERMS else "O", "O", "B" if w2 in TERMS else "O", "O"]
    return {"tokens": toks, "tags": tags}


docs = [doc() for _ in range(1500)]
words = sorted({w for d in docs for w in d["tokens"]})
for side in ("bug", "ok"):
    for name, part in (("train", docs[:1200]), ("test", docs[1200:])):
        with open(f"{side}/{name}.jsonl", "w") as f:
            for d in part:
                f.write(json.dumps(d) + "\n")
    v = words if side == "ok" else sorted({stem(w) for w in words})
    open(f"{side}/vocab.txt", "w").write("\n".join(["<pad>", "<unk>"] + v) + "\n")
