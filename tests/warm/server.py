"""Runs Python programs in processes forked from this one, which has imported what the harness takes seconds to import.

``server.py SOCKET CLIENT`` listens at a socket. A client sends the arguments, the environment, the folder and its three
streams; signals for the program follow. It gets the program's exit code, and a client that is gone takes its program
with it. Neither the harness nor this package is imported before a fork: a program does that itself, as usual.
"""

from __future__ import annotations

import gc
import io
import json
import os
import random
import runpy
import selectors
import signal
import socket
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from typing import Any

HEAVY = [
    *("accelerate", "datasets", "jinja2", "lxml.etree", "numpy", "pandas", "peft", "pyarrow.parquet", "requests"),
    *("sacrebleu.metrics", "scipy.optimize", "scipy.special", "scipy.stats", "stdnum", "tokenizers", "yaml"),
    *("torch", "torch._dynamo", "torch.distributed.run", "torch.distributed.tensor", "torch.utils.data"),
    *("transformers", "transformers.generation.utils", "transformers.loss.loss_utils", "transformers.modeling_utils"),
    *("transformers.models.auto.modeling_auto", "transformers.models.auto.tokenization_auto", "transformers.trainer"),
    *("transformers.models.bert.modeling_bert", "transformers.models.gpt2.modeling_gpt2"),
]
LONGEST = 1 << 20
"""Bytes of a request."""


def warm_up() -> None:
    for name in HEAVY:
        with suppress(ImportError):
            import_module(name)
    gc.collect()
    gc.freeze()


def serve(path: str) -> None:
    """Start and end programs until the standard input is closed."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(64)
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
    running: dict[int, socket.socket] = {}
    while True:
        for key, _ in selector.select(0.005 if running else None):
            if key.fileobj is listener:
                client = listener.accept()[0]
                selector.register(client, selectors.EVENT_READ)
                running[begin(client, [listener, *running.values()])] = client
            elif key.fileobj == sys.stdin.fileno():
                for pid in running:
                    os.kill(pid, signal.SIGKILL)
                os.unlink(path)
                return
            else:
                pass_on(key.fileobj, running, selector)
        while running and (ended := os.waitpid(-1, os.WNOHANG))[0]:
            client = running.pop(ended[0])
            with suppress(OSError):
                client.sendall(json.dumps(os.waitstatus_to_exitcode(ended[1])).encode())
            with suppress(KeyError):
                selector.unregister(client)
            client.close()


def pass_on(client: Any, running: dict[int, socket.socket], selector: selectors.BaseSelector) -> None:
    """Give a program the signals of its client; a client that is gone was killed."""
    (pid,) = [pid for pid, each in running.items() if each is client]
    numbers = client.recv(64) or bytes([signal.SIGKILL])
    if numbers == bytes([signal.SIGKILL]):
        selector.unregister(client)
    for number in numbers:
        os.kill(pid, number)


def begin(client: socket.socket, others: list[socket.socket]) -> int:
    """Fork a program; its process."""
    content, streams, _, _ = socket.recv_fds(client, LONGEST, 3)
    while True:
        with suppress(json.JSONDecodeError):
            request = json.loads(content)
            break
        content += client.recv(LONGEST)
    pid = os.fork()
    if pid:
        for each in streams:
            os.close(each)
        return pid
    code = 70
    try:
        for number, each in enumerate(streams):
            os.dup2(each, number)
            os.close(each)
        for one in (client, *others):
            one.close()
        code = run(request)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
    raise AssertionError


def run(request: dict[str, Any]) -> int:
    """Be the program, as Python would start it, and end as it does."""
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    random.seed()
    encoding = os.environ.get("PYTHONIOENCODING", "utf-8").partition(":")[0]
    sys.stdin = open(0, encoding=encoding, closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        assert isinstance(stream, io.TextIOWrapper)
        stream.reconfigure(encoding=encoding, line_buffering=stream is sys.stderr)
    if os.environ.get("LM_EVAL_LEAKAGE_AUTOLOAD") == "0":
        sys.meta_path[:] = [each for each in sys.meta_path if type(each).__name__ != "LeakageAutoload"]
    what, *words = request["words"]
    name = words.pop(0) if what in ("-m", "-c") else what
    sys.argv = [what if what in ("-m", "-c") else name, *words]
    sys.executable = request["python"]
    first = {"-c": "", "-m": request["folder"]}.get(what, os.path.dirname(os.path.abspath(name)))
    places = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    sys.path[:] = [first, *places, *(each for each in sys.path[1:] if each not in places)]
    code = 0
    try:
        if what == "-m":
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        elif what == "-c":
            exec(compile(name, "<string>", "exec"), vars(sys.modules["__main__"]) | {"__name__": "__main__"})
        else:
            runpy.run_path(name, run_name="__main__")
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
    except KeyboardInterrupt:
        traceback.print_exc()
        code = -signal.SIGINT
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    return finish(code)


def finish(code: int) -> int:
    """Run what is to run at a program's end; its exit code."""
    import atexit
    import threading

    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    warm_up()
    print("ready", flush=True)
    serve(sys.argv[1])
