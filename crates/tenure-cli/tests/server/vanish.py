"""Holds a lock by a stream of HTTP/1.1 and then vanishes, as far as the network can tell: the kernel
is told to drop all that comes in on this connection, so that nothing is acknowledged any more."""

import ctypes
import socket
import struct
import sys
import time

SO_ATTACH_FILTER = 26
# A classic BPF program of one instruction: return 0, which is to keep nothing of a packet.
DROP = struct.pack("HBBI", 0x06, 0, 0, 0)

stream = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
body = b'{"ttl": "10m"}'
stream.sendall(
    b"POST /v1/locks/k HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: application/x-ndjson\r\n"
    b"content-length: %d\r\n\r\n%s" % (len(body), body)
)
seen = b""
while b'"acquired"' not in seen:
    more = stream.recv(4096)
    assert more, seen
    seen += more
program = ctypes.create_string_buffer(DROP, len(DROP))
stream.setsockopt(
    socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HL", 1, ctypes.addressof(program))
)
print("acquired, and gone", flush=True)
time.sleep(600)
