"""Two threads wait for each other's lock."""

import threading

first, second, both = threading.Lock(), threading.Lock(), threading.Barrier(2)


def take(one, other):
    with one:
        both.wait()
        with other:
            print("never")


threads = [threading.Thread(target=take, args=pair) for pair in ((first, second), (second, first))]
print("ready", flush=True)
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
