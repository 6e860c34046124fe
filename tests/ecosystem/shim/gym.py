"""Scripts of the years before gymnasium import its predecessor under this name; the calls they make are the same."""

import importlib
import sys

sys.modules[__name__] = importlib.import_module("gymnasium")
