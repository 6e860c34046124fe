from job import Classifier, batches, train, valid

from trueloop import Dataset, Recipe
from trueloop.data.padding import padded

recipe = Recipe(
    name="buckets", model=Classifier, data=lambda request: (Dataset(train, collate=padded), Dataset(valid, collate=padded)),
    order=lambda epoch, generator, train: batches(epoch), task="multiclass", optimizer="adam", batch=16, epochs=4, lr=0.02,
    log_every=1, save_every=5, trackers=(), device="cpu",
)
