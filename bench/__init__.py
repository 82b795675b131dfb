"""Measurements. Each program prints a table and asserts nothing: `python -m bench` runs all, or those named."""
