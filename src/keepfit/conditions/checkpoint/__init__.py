"""Saved states: what keeps them from being written, or from being gone on from."""
