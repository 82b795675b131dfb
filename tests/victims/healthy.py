"""Does its work and ends."""

print("all is well")
