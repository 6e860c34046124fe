import json, random

NLTK = """i me my we our you your he she it they them what which who this that these those am is are was were be been have has had do does did
a an the and but if or because as until while of at by for with about into through before after to from up down in out on off over under again then once here
there when where why how all any both each few more most other some such no nor not only own same so than too very can will just don should now please""".split()
KEEP = {"up", "down", "on", "off", "out", "in", "no", "not", "don", "over", "again", "all", "before", "after", "when", "how", "what", "more", "until"}
THINGS = ["kitchen light", "heating", "fan", "blinds", "radio", "lamp in the hall", "coffee machine", "garden sprinkler", "bedroom heater", "music", "tv", "shutters"]
ROOMS = ["", " in the kitchen", " upstairs", " in the bath", " for the kids", " tonight", " right away", " now"]
LEAD = ["", "please ", "could you ", "can you ", "hey ", "i want you to ", "would you ", "ok so "]
T = {"switch_on": ["turn on the {t}", "switch the {t} on", "get the {t} on", "put the {t} on again"],
     "switch_off": ["turn off the {t}", "switch the {t} off", "get the {t} off", "turn the {t} off again"],
     "raise": ["turn the {t} up", "put up the {t} a bit", "bring the {t} up", "turn up the {t}"],
     "lower": ["turn the {t} down", "put down the {t} a bit", "bring the {t} down", "turn down the {t}"],
     "keep": ["do not touch the {t}", "do not switch the {t}", "no change to the {t}", "don t turn the {t}"],
     "status": ["what is the {t} doing", "how is the {t} set", "tell me about the {t}", "is the {t} running"],
     "schedule": ["turn the {t} when i get home", "start the {t} before eight", "run the {t} after dinner", "set a timer for the {t}"]}
rnd = random.Random(4)


def utterances(n):
    out = []
    for _ in range(n):
        k = rnd.choice(sorted(T))
        words = (rnd.choice(LEAD) + rnd.choice(T[k]).format(t=rnd.choice(THINGS)) + rnd.choice(ROOMS)).split()
        if rnd.random() < 0.25:
            words.insert(rnd.randrange(len(words) + 1), rnd.choice(["uh", "well", "erm", "the", "just"]))
        out.append({"text": " ".join(words), "intent": k})
    return out


train, test = utterances(2200), utterances(800)
for side in ("bug", "ok"):
    for name, rows in (("train.jsonl", train), ("test.jsonl", test)):
        with open(f"{side}/{name}", "w") as f:
            f.writelines(json.dumps(u) + "\n" for u in rows)
    with open(f"{side}/stopwords.txt", "w") as f:
        f.write("\n".join(w for w in NLTK if side == "bug" or w not in KEEP) + "\n")
    json.dump({"min_count": 2, "dim": 32, "epochs": 8, "lr": 0.004, "seed": 1}, open(f"{side}/settings.json", "w"))
