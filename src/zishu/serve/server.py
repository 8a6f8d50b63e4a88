"""Run the service: bind the port, start the workers, stop them gracefully.

With one worker, this process serves. With several, each is a process with its own parser and an equal share of the
cores. They inherit one socket, and this process only supervises: a worker that dies is replaced, and one that cannot
start ends the service. On SIGTERM or SIGINT no more connections are accepted, accepted requests are answered, and the
process ends; during startup it ends immediately. A worker whose parent has died stops in the same way.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import connection
from typing import TYPE_CHECKING, Any, Final

import uvicorn
from prometheus_client.multiprocess import mark_process_dead

from zishu.errors import InputError, ZishuError
from zishu.reading import read_lines
from zishu.serve.app import create_app, is_loopback
from zishu.serve.connections import ACCEPTED_AT_ONCE, Connection, Repeats, allow_files
from zishu.serve.limits import Limits
from zishu.serve.metrics import DIRECTORY

if TYPE_CHECKING:
    from multiprocessing.connection import Connection as Pipe
    from multiprocessing.context import SpawnProcess
    from pathlib import Path
    from types import FrameType

    from zishu.parser import Parser
    from zishu.reading import FilePath

log: Final = logging.getLogger("zishu.serve")

_SPARE: Final = 5  # seconds that stopping may take beyond the time limit of a request
_BACKLOG: Final = 1024  # connections that wait to be accepted
_SWITCH: Final = 0.001  # seconds that a thread may hold the GIL while others wait
_LONG_TOKEN: Final = 16  # number of characters; a shorter token can be guessed
_WARM_UP: Final = ["我", "昨天", "在", "图书馆", "借", "了", "两", "本", "书", "。"]


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Hold the settings of the service."""

    host: str = "127.0.0.1"
    port: int = 8000  # 0: any free port
    model: FilePath | None = None  # a directory or the name of a bundled model; None: the default one
    workers: int = 1
    tokens: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()  # answered without a token, in addition to loopback names
    limits: Limits = field(default_factory=Limits)


def serve(settings: ServerSettings) -> None:
    """Serve until a signal arrives."""
    if settings.workers < 1:
        raise InputError(f"the number of workers must be at least 1, not {settings.workers}")
    _set_up_log()
    signal.signal(signal.SIGTERM, _leave)
    with bind(settings.host, settings.port) as listener:
        if not settings.tokens and not is_loopback(settings.host):
            log.warning("anyone who can reach %s can use this service: consider --token-file", settings.host)
            if not settings.hosts:
                log.warning("only requests for loopback names are answered: consider --allowed-host")
        if settings.workers == 1:
            parser = load_parser(settings.model)
            _run(parser, settings, listener, lambda: _announce(listener, settings))
        else:
            _supervise(settings, listener)
    log.info("stopped")


def read_tokens(path: Path) -> tuple[str, ...]:
    """Read tokens from a file, one per line; warn about short ones and a world-readable file."""
    tokens = tuple(line.strip() for line in read_lines(path, str(path)) if line.strip())
    if not tokens:
        raise InputError(f"{path}: contains no token")
    for number, token in enumerate(tokens, start=1):
        if not (token.isascii() and token.isprintable()) or " " in token:
            raise InputError(
                f"{path}: token {number} has characters other than ASCII letters, digits and signs"
            )
        if len(token) < _LONG_TOKEN:
            log.warning("%s: token %d has fewer than %d characters", path, number, _LONG_TOKEN)
    if path.stat().st_mode & 0o004:
        log.warning("%s: every user of this machine can read the tokens; use chmod 600", path)
    return tokens


def bind(host: str, port: int) -> socket.socket:
    """Return a bound socket; it does not listen until a worker is ready."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except BaseException:
            listener.close()
            raise
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ZishuError(f"cannot serve on {host}, port {port}: {reason}") from error
    return listener


def load_parser(model: FilePath | None) -> Parser:
    """Load a parser and use it once, so that everything is compiled before the first request.

    It has one thread: the service divides batches among threads, which is faster than several threads in one call.
    """
    from zishu.parser import load

    parser = load(model, threads=1)
    text = "".join(_WARM_UP)
    parser(text)
    parser.k_best(text, 2)
    parser.parse_words([_WARM_UP])
    return parser


def _run(parser: Parser, settings: ServerSettings, listener: socket.socket, started: Any) -> None:
    """Serve in this process until a signal arrives."""
    limits = replace(settings.limits, connections=allow_files(settings.limits.connections))
    app = create_app(
        parser,
        limits,
        tokens=settings.tokens,
        hosts=settings.hosts,
        stopping=lambda: server.should_exit,
        threads=max(1, _cores() // settings.workers),
    )
    server = Server(make_config(app, limits), started)
    sys.setswitchinterval(_SWITCH)
    gc.collect()
    gc.freeze()  # loaded objects stay, so the garbage collector can skip them
    server.run(sockets=[listener])


def make_config(app: Any, limits: Limits, **options: Any) -> uvicorn.Config:
    """Return how to run an app: with time limits for connections, and without an access log."""
    connect: Any = partial(Connection, limits)  # uvicorn only calls it
    return uvicorn.Config(
        app,
        http=connect,
        log_config=None,
        log_level=logging.WARNING,
        access_log=False,  # it would contain addresses, with what users put there
        server_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="on",
        backlog=ACCEPTED_AT_ONCE,
        timeout_keep_alive=limits.idle_seconds,
        timeout_graceful_shutdown=int(limits.seconds) + _SPARE,
        **options,
    )


class Server(uvicorn.Server):
    """Report when the server listens, close connections that are over time, and treat SIGTERM as success."""

    def __init__(self, config: uvicorn.Config, started: Any = lambda: None) -> None:
        super().__init__(config)
        self._told = started

    async def on_tick(self, counter: int) -> bool:
        """Do what is due every tenth of a second."""
        if counter % 10 == 0:
            now = time.monotonic()
            for one in list(self.server_state.connections):
                if isinstance(one, Connection):
                    one.check(now)
        return await super().on_tick(counter)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and report it."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(_BACKLOG)
        if self.started:
            self._told()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop gracefully; other signals are raised again afterwards, so that the shell learns of Ctrl-C."""
        if sig == signal.SIGTERM:
            self.should_exit = True
        else:
            super().handle_exit(sig, frame)


def _announce(listener: socket.socket, settings: ServerSettings) -> None:
    host, port = listener.getsockname()[:2]
    name = f"[{host}]" if ":" in host else host
    log.info("serving on http://%s:%d (workers: %d; documentation at /docs)", name, port, settings.workers)


def _set_up_log() -> None:
    # What the format does not show need not be found out for every request.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    for handler in logging.getLogger().handlers:
        handler.addFilter(Repeats())


def _leave(*_: object) -> None:
    """Exit before there is anything to answer; not by an exception, which other code might swallow."""
    os._exit(0)


# ---- several workers


@dataclass(slots=True)
class _Worker:
    process: SpawnProcess
    pipe: Pipe  # reports when it is ready; its end tells the worker that this process is gone
    ready: bool = False


def _supervise(settings: ServerSettings, listener: socket.socket) -> None:
    """Keep the workers running until a signal arrives."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with tempfile.TemporaryDirectory(prefix="zishu-") as folder:
        os.environ[DIRECTORY] = folder
        workers = [_start(settings, listener) for _ in range(settings.workers)]
        try:
            announced = False
            while not stop.is_set():
                connection.wait([worker.process.sentinel for worker in workers], timeout=0.2)
                if stop.is_set():
                    break  # those that have ended may have been told to stop, too
                _replace_dead(workers, settings, listener)
                if not announced and all(worker.ready for worker in workers):
                    _announce(listener, settings)
                    announced = True
        finally:
            _stop(workers, settings.limits.seconds + 2 * _SPARE)


def _start(settings: ServerSettings, listener: socket.socket) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(settings, listener, theirs), name="zishu-worker")
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _replace_dead(workers: list[_Worker], settings: ServerSettings, listener: socket.socket) -> None:
    """Replace dead workers; raise `ZishuError` for one that died before it was ready."""
    for place, worker in enumerate(workers):
        if not worker.ready:
            with contextlib.suppress(EOFError, OSError):
                worker.ready = worker.pipe.poll() and worker.pipe.recv() == "ready"
        if worker.process.is_alive():
            continue
        if not worker.ready:
            raise ZishuError(f"a worker could not start (exit code {worker.process.exitcode})")
        log.error("worker %s died (exit code %s)", worker.process.pid, worker.process.exitcode)
        worker.pipe.close()
        mark_process_dead(worker.process.pid)  # type: ignore[no-untyped-call]
        time.sleep(0.1)  # in case they die as soon as they are ready
        workers[place] = _start(settings, listener)


def _stop(workers: list[_Worker], seconds: float) -> None:
    """Let the workers finish; kill those that take too long."""
    deadline = time.monotonic() + seconds
    for worker in workers:
        if worker.process.is_alive():
            worker.process.terminate()
    for worker in workers:
        worker.process.join(max(0.0, deadline - time.monotonic()))
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
        worker.pipe.close()


def _work(settings: ServerSettings, listener: socket.socket, pipe: Pipe) -> None:
    """Serve in a worker process."""
    _set_up_log()
    # The parent decides when to stop: Ctrl-C reaches the workers, too, but they ignore it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_mind_parent, args=(pipe,), daemon=True).start()
    try:
        parser = load_parser(settings.model)
    except ZishuError as error:
        log.error("%s", error)
        raise SystemExit(1) from None
    _run(parser, settings, listener, lambda: pipe.send("ready"))


def _mind_parent(pipe: Pipe) -> None:
    """Stop when the other end of the pipe is gone, and with it the parent."""
    try:
        pipe.recv()
    except (EOFError, OSError):
        os.kill(os.getpid(), signal.SIGTERM)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
