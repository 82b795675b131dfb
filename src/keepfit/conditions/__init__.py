"""The catalogue: one condition, one file. See `catalogue` for the shape, `verdict` for the judgement.

A new failure mode is added by adding one file here and one victim program in the tests, nothing else.
"""
