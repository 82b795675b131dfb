"""The tour's stand-in where no framework is installed: it gathers more and more in memory."""

rows = []
print("reading the data set", flush=True)
while True:
    rows.append(bytearray(1 << 20))
    rows[-1][::4096] = b"x" * 256
