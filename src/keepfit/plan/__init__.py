"""What a step will need, and what to do about it: pure functions from measurements to choices."""
