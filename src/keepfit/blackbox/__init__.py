"""The record that survives SIGKILL: ring, journal, output tails, run directory, run index."""
