"""Write the review corpus of the kimchi web shop and the vocabulary that belongs to it."""
import json
import os
import unicodedata
from collections import Counter

import numpy as np

TOPIC = {
    "물류": ["배송이", "택배가", "도착이", "기사님이", "배달이", "송장이", "출고가"],
    "주방": ["맛이", "김치가", "양념이", "배추가", "젓갈이", "간이", "고춧가루가"],
    "포장": ["포장이", "비닐이", "상자가", "뚜껑이", "아이스팩이", "용기가", "테이프가"],
}
BAD = {
    "물류": ["늦었어요", "지연됐어요", "안왔어요", "이틀이나걸렸어요", "사라졌어요"],
    "주방": ["짰어요", "시었어요", "싱거웠어요", "질겼어요", "비렸어요"],
    "포장": ["터졌어요", "찢어졌어요", "녹았어요", "깨졌어요", "샜어요"],
}
GOOD = ["좋았어요", "훌륭했어요", "만족해요", "괜찮았어요", "최고예요", "마음에들어요"]
FILL = ["정말", "이번에", "조금", "너무", "항상", "엄마가", "주문한", "지난주에", "다시", "아이들도", "오늘", "그런데",
        "사실", "생각보다", "솔직히", "처음", "세번째", "냉장고에", "저녁에", "친구가"]
SIZE = ["1kg", "3kg", "5kg", "10kg", "2023", "A/S"]


def review(rng):
    topics = list(TOPIC)
    first, second = rng.permutation(3)[:2]
    complaint = rng.random() < 0.72
    words = list(rng.choice(FILL, rng.integers(1, 4)))
    if rng.random() < 0.4:
        words.append(str(rng.choice(SIZE)))
    a, b = topics[first], topics[second]
    clauses = []
    clauses.append([str(rng.choice(TOPIC[a])), str(rng.choice(BAD[a] if complaint else GOOD))])
    if rng.random() < 0.7:
        clauses.append([str(rng.choice(TOPIC[b])), str(rng.choice(GOOD))])
    rng.shuffle(clauses)
    for c in clauses:
        if rng.random() < 0.5:
            c.insert(1, str(rng.choice(FILL)))
        words += c
    words += list(rng.choice(FILL, rng.integers(0, 3)))
    label = a if complaint else "없음"
    if rng.random() < 0.03:
        label = str(rng.choice(topics + ["없음"]))
    return " ".join(words), label


def main():
    rng = np.random.default_rng(77)
    rows = [review(rng) for _ in range(2400)]
    train, val = rows[:1900], rows[1900:]
    counts = Counter(w for text, _ in train for w in text.split())
    words = [w for w, c in counts.most_common() if c >= 2]
    for side, form in (("bug", "NFD"), ("ok", "NFC")):
        os.makedirs(side, exist_ok=True)
        vocab = {"<pad>": 0, "<unk>": 1}
        for w in words:
            vocab[unicodedata.normalize(form, w)] = len(vocab)
        with open(os.path.join(side, "vocab.json"), "w", encoding="utf-8") as f:
            json.dump(vocab, f, ensure_ascii=False, indent=0)
        for name, part in (("train", train), ("val", val)):
            with open(os.path.join(side, f"{name}.jsonl"), "w", encoding="utf-8") as f:
                for i, (text, label) in enumerate(part):
                    f.write(json.dumps({"review_id": f"{name}-{i:05d}", "text": text, "team": label},
                                       ensure_ascii=False) + "\n")
        with open(os.path.join(side, "config.json"), "w", encoding="utf-8") as f:
            json.dump({"teams": ["물류", "주방", "포장", "없음"], "embedding": 48, "hidden": 48, "epochs": 6,
                       "lr": 0.003, "batch_size": 32, "seed": 5}, f, ensure_ascii=False, indent=1)


if __name__ == "__main__":
    main()
