"""Reads its data from a TCP server that sends a little, stalls, and then resets: stalling_server.py [recovers]"""

import socket
import struct
import sys
import threading
import time

server = socket.create_server(("127.0.0.1", 0))
recovers = sys.argv[1:] == ["recovers"]


def serve():
    peer, _ = server.accept()
    peer.sendall(b"x" * 1000)
    time.sleep(1.5)
    if recovers:
        peer.sendall(b"x" * 1000)
        peer.close()
    else:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()


threading.Thread(target=serve, daemon=True).start()
client = socket.create_connection(server.getsockname())
received = 0
while chunk := client.recv(4096):
    received += len(chunk)
print(f"received {received} bytes")
