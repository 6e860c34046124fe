"""The pages, in the order of the navigation. How one is added: see `trueloop.ui`."""

from typing import Final

from trueloop.ui.page import Page
from trueloop.ui.pages import bands, compare, curves, layers, learn, profile, run, runs, ship, source, step

__all__ = ["PAGES"]

PAGES: Final[tuple[Page, ...]] = (
    Page("runs", "Runs", runs.data),
    Page("compare", "Compare", compare.data),
    Page("run", "Run", run.data, "run"),
    Page("curves", "", curves.data, ""),
    Page("bands", "", bands.data, ""),
    Page("source", "Source", source.data, "run"),
    Page("layers", "Layers", layers.data, "run"),
    Page("step", "Step", step.data, "run"),
    Page("profile", "Profile", profile.data, "run"),
    Page("ship", "Ship", ship.data, "run"),
    Page("learn", "Learn", learn.data),
)
