"""Opens listening sockets inside Chromium's namespaces, hands them out, and becomes Chromium.

Run as a program by `enclosure`, never imported: PLACE COUNT FIRST PROGRAM [ARGUMENT …]. A socket belongs to the network
it was made in, whoever holds it: the process outside answers on it what Chromium, inside, sends to it.
"""

import os
import socket
import sys

place, count, first, program, *arguments = sys.argv[1:]
doors = [socket.create_server(("127.0.0.1", int(first) + number)) for number in range(int(count))]
with socket.socket(socket.AF_UNIX) as outside:
    outside.connect(place)
    socket.send_fds(outside, [b"doors"], [door.fileno() for door in doors])
os.execv(program, [program, *arguments])
