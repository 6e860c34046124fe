"""Tests of trueloop inside other programs."""
