"""Python as :mod:`tests.warm.server` runs it: takes the words of a Python command, and ends with its exit code."""

import json
import os
import signal
import socket
import sys

REAL, SOCKET = sys.argv[1:3]
words = [word for word in sys.argv[3:] if word != "-u" and not word.startswith("-X")]
if words[:1] not in (["-m"], ["-c"]) and not words[0].endswith(".py") or "multiprocessing" in " ".join(words):
    os.execv(REAL, [REAL, *sys.argv[3:]])
server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
server.connect(SOCKET)
request = {"words": words, "environment": dict(os.environ), "folder": os.getcwd(), "python": os.environ["WARM_PYTHON"]}
socket.send_fds(server, [json.dumps(request).encode()], [0, 1, 2])
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda number, frame: server.send(bytes([number])))
for stream in (0, 1, 2):
    # The program alone holds them: they are closed when it is gone.
    os.close(stream)
code = json.loads(server.recv(16) or b"-9")
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if code != -signal.SIGKILL else None
    os.kill(os.getpid(), -code)
os._exit(code)
