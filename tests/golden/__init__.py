"""Losses of short runs at full precision: they must not move when nothing but the code's shape changes."""
