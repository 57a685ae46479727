"""One process: the dashboard, the OTLP receivers and the folding of what comes in."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import uvicorn
from starlette import websockets

from ..collector import Folder, Store
from ..collector._grpc_receiver import GrpcMissingError, GrpcReceiver
from ..collector._intake import TOKEN_VARIABLE, Intake
from ..collector._receiver import http_app
from ..guard import LoopscopeError, StoreBusyError
from . import _follow
from ._links import LINKS_VARIABLE, parsed
from ._warm import counting, warmed

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["serve"]

DATABASE_VARIABLE = "LOOPSCOPE_DB"  # tells the pages which database to show
ENDPOINT_VARIABLE = "LOOPSCOPE_OTLP_HTTP"  # and where to send spans
ASKED_VARIABLE = "LOOPSCOPE_TOKEN_ASKED"  # and whether that takes a token
# The token itself is not told: what is on a page ends up in screenshots.

_GRACE_SECONDS = 1  # for open connections at the end
_FIRST_LOOK_SECONDS = 2.0
_LAST_FOLD_SECONDS = 0.5


def serve(
    db: str | os.PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int = 8501,
    otlp_http_port: int = 4318,
    otlp_grpc_port: int | None = None,
    token: str | None = None,
    links: Sequence[str] = (),
    dashboard: bool = True,
    open_browser: bool = False,
    stop: threading.Event | None = None,
    announce: Callable[[str], object] | None = None,
) -> int:
    """Run until Ctrl-C, SIGTERM or `stop`; returns 0.

    Args:
        db: the database file; made if absent.
        host: address to listen on. Anything but a loopback address opens the traces to the network, and
            is refused without a token.
        port, otlp_http_port, otlp_grpc_port: 0 takes a free one. None: no OTLP/gRPC. Where grpcio is not
            installed that is said, and the rest runs.
        token: what senders must show as a bearer token, and browsers once as `/?token=…`. By default
            `LOOPSCOPE_TOKEN`, else none.
        links: templates of links to other tools, each `Name=https://…/{trace_id}`; they go before those of
            `<database>.links.toml` and of `LOOPSCOPE_LINKS`.
        dashboard: False runs the receiver and the folding alone, and needs no Streamlit.
        open_browser: open the dashboard in a browser.
        stop: ends the server when set, for callers that are not the main thread.
        announce: takes the lines that say what listens where; standard output otherwise.

    Raises LoopscopeError: a link is none, a port is taken, the address is not of this machine or needs a
    token, Streamlit is missing, or the database cannot be used.
    """
    db_path = Path(db).expanduser().absolute()
    os.environ[DATABASE_VARIABLE] = str(db_path)
    before = set(threading.enumerate())
    say = announce or _print
    local = _is_local(host)
    token = _token(token, host, local)
    if links:
        parsed(links)
        os.environ[LINKS_VARIABLE] = "\n".join((os.environ.get(LINKS_VARIABLE, ""), *links))
    with ExitStack() as cleanup:
        _check_database(db_path)
        receiver_socket = cleanup.enter_context(_listen(host, otlp_http_port, "--otlp-http-port"))
        intake = Intake(db_path, token=token)
        receiver = _Server(http_app(intake, loopback_only=local), receiver_socket)
        os.environ[ENDPOINT_VARIABLE] = receiver.url
        os.environ[ASKED_VARIABLE] = "1" if token is not None else ""
        grpc_receiver, no_grpc = _grpc_receiver(intake, host, otlp_grpc_port)
        servers = [receiver]
        page_server = None
        if dashboard:
            page_socket = cleanup.enter_context(_listen(host, port, "--port"))
            if find_spec("streamlit") is not None:
                cleanup.enter_context(counting(db_path))
            page_server = _Server(_dashboard_app(page_socket, local, token), page_socket, websockets=True)
            servers.append(page_server)
        stop = stop or threading.Event()
        cleanup.enter_context(_signals_set(stop))
        cleanup.enter_context(_closed_tabs_unsaid())
        cleanup.enter_context(_folding(db_path))
        for server in servers:
            cleanup.enter_context(server.running(stop))
        if grpc_receiver is not None:
            cleanup.enter_context(grpc_receiver)
        say(_describe(db_path, receiver, grpc_receiver, page_server, no_grpc))
        if token is not None:
            say(_about_token(host, local, page_server))
        if page_server is not None:
            cleanup.enter_context(warmed())
        if page_server is not None and open_browser:
            webbrowser.open(page_server.url + (f"/?{urlencode({'token': token})}" if token else ""))
        stop.wait()
        for server in servers:  # all at once; leaving the block then waits for each
            server.should_exit = True
    _leave_no_thread(before)
    return 0


def _token(argument: str | None, host: str, local: bool) -> str | None:
    """The token to ask for. Raises LoopscopeError where there must be one, or it could not be sent."""
    token = (argument if argument is not None else os.environ.get(TOKEN_VARIABLE, "")).strip() or None
    if token is None and not local:
        raise LoopscopeError(
            f"listening on {host} opens your traces to the network, which needs a token: set {TOKEN_VARIABLE}"
            " or --token (any long random text), or listen on 127.0.0.1."
        )
    if token is not None and not all("!" <= character <= "~" for character in token):
        raise LoopscopeError(
            "the token goes into a header: letters, digits and signs of ASCII only, and no spaces."
        )
    return token


def _grpc_receiver(intake: Intake, host: str, port: int | None) -> tuple[GrpcReceiver | None, str]:
    """The OTLP/gRPC receiver, not started; or None, and why there is none although one was asked for."""
    if port is None:
        return None, ""
    try:
        return GrpcReceiver(intake, host, port), ""
    except GrpcMissingError as error:
        return None, str(error)


# -- servers --------------------------------------------------------------------------------------


class _Server(uvicorn.Server):
    """A uvicorn server in a thread with an event loop of its own.

    Of its own, so that a page that is being drawn and a burst of spans wait for each other no
    more than the interpreter makes them.
    """

    def __init__(self, app: ASGIApp, sock: socket.socket, *, websockets: bool = False) -> None:
        options: dict[str, Any] = _websocket_options() if websockets else {"ws": "none"}
        super().__init__(
            uvicorn.Config(
                app,
                log_level="warning",
                access_log=False,
                timeout_graceful_shutdown=_GRACE_SECONDS,
                server_header=False,
                **options,
            )
        )
        self._socket = sock
        self._up = threading.Event()
        self._trouble: BaseException | None = None

    @property
    def url(self) -> str:
        host, port = self._socket.getsockname()[:2]
        if host in {"0.0.0.0", "::"}:  # noqa: S104  shown, not bound
            host = "localhost"
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # `serve` handles them for all servers

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._up.set()

    @contextmanager
    def running(self, stop: threading.Event) -> Iterator[None]:
        """Accept connections inside the block. Sets `stop` if the server ends by itself."""

        def run() -> None:
            try:
                self.run([self._socket])
            except BaseException as error:  # noqa: BLE001  a thread's end is seen by nobody else
                self._trouble = error
            finally:
                self._up.set()
                stop.set()

        thread = threading.Thread(target=run, name="loopscope-http", daemon=True)
        thread.start()
        self._up.wait()
        if not self.started:
            raise LoopscopeError(f"the server on {self.url} did not start: {self._trouble or 'see above'}")
        try:
            yield
        finally:
            self.should_exit = True
            thread.join(_GRACE_SECONDS + 1)


def _websocket_options() -> dict[str, Any]:
    from streamlit import config

    return {
        "ws": "websockets-sansio",
        "ws_max_size": int(config.get_option("server.maxMessageSize")) << 20,
        "ws_ping_interval": 30.0,
        "ws_ping_timeout": 30.0,
    }


@contextmanager
def _closed_tabs_unsaid() -> Iterator[None]:
    """Keep the traceback of a browser tab that was closed in the middle of a message off the terminal."""
    logger = logging.getLogger("uvicorn.error")
    logger.addFilter(_is_news)
    try:
        yield
    finally:
        logger.removeFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    gone = getattr(websockets, "WebSocketDisconnected", None)  # absent from older versions of Starlette
    return gone is None or not record.exc_info or not isinstance(record.exc_info[1], gone)


@contextmanager
def _listen(host: str, port: int, option: str) -> Iterator[socket.socket]:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise LoopscopeError(f"{host!r} is not an address to listen on: {error.strerror}") from error
    with socket.socket(family, kind, protocol) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(address)
            sock.listen(2048)
        except OSError as error:
            raise LoopscopeError(
                f"cannot listen on {host} port {port}: {error.strerror}. Choose another port with {option}."
            ) from error
        sock.setblocking(False)
        yield sock


# -- the Streamlit application --------------------------------------------------------------------


def _dashboard_app(sock: socket.socket, local: bool, token: str | None) -> ASGIApp:
    try:
        from streamlit.starlette import App
        from streamlit.web import bootstrap
    except ModuleNotFoundError as error:
        raise LoopscopeError(
            f"the dashboard needs {error.name}, which is not installed: pip install 'loopscope[dashboard]',"
            " or run with --no-dashboard."
        ) from error
    from starlette.middleware import Middleware

    from ..collector._loopback import LoopbackOnly
    from ._access import TokenOnly

    host, port = sock.getsockname()[:2]
    app = App(
        Path(__file__).with_name("app.py"),
        routes=[_follow.route()],
        # Outermost, so that a foreign page gets nothing at all; Streamlit would also ask a service
        # in the internet for this machine's address before it refuses one.
        middleware=[
            *([Middleware(LoopbackOnly)] if local else []),
            *([Middleware(TokenOnly, token=token)] if token is not None else []),
        ],
    )
    bootstrap.load_config_options(
        {
            "browser.gatherUsageStats": False,
            "browser.serverAddress": "localhost" if local else host,
            "browser.serverPort": port,
            "client.toolbarMode": "minimal",
            "client.showErrorDetails": "none",
            "global.developmentMode": False,
            "logger.level": "warning",
            "server.address": host,
            "server.fileWatcherType": "none",
            "server.headless": True,
            "server.port": port,
            "server.runOnSave": False,
        }
    )
    from ._theme import configure

    configure()
    return app


# -- the rest -------------------------------------------------------------------------------------


def _check_database(path: Path) -> None:
    """Make the database if it is absent; say now, in one line, if it cannot be used."""
    try:
        with Store(path).lease(timeout=_FIRST_LOOK_SECONDS):
            pass
    except StoreBusyError:
        pass  # held for the moment; folding and pages wait their turn


@contextmanager
def _folding(db_path: Path) -> Iterator[None]:
    """What comes into the spool goes into the database, in a thread."""
    end = threading.Event()
    deadline = float("inf")
    # What is left at the deadline stays in the spool and is folded by the next one.
    folder = Folder(Store(db_path), role="server", stop=lambda: time.monotonic() > deadline)
    thread = threading.Thread(target=folder.run, args=(end,), name="loopscope-fold", daemon=True)
    thread.start()
    try:
        yield
    finally:
        deadline = time.monotonic() + _LAST_FOLD_SECONDS
        end.set()
        thread.join(_LAST_FOLD_SECONDS)


def _leave_no_thread(before: set[threading.Thread]) -> None:
    """Wait for the threads of this server; end the process here and now if one does not come.

    A page's query, or a fold on a busy machine, may still be inside of DuckDB. When the interpreter ends it
    unwinds the stacks of such threads, and through DuckDB's that ends in abort() or never. Nothing is lost
    by leaving: writes are transactions, and what is not folded stays in the spool.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    deadline = time.monotonic() + _GRACE_SECONDS
    while any(thread.daemon and thread not in before for thread in threading.enumerate()):
        if time.monotonic() > deadline:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
        time.sleep(0.01)


@contextmanager
def _signals_set(stop: threading.Event) -> Iterator[None]:
    """Ctrl-C and SIGTERM set `stop`; a second one has its usual effect."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def handle(_number: int, _frame: FrameType | None) -> None:
        restore()
        stop.set()

    for number in numbers:
        signal.signal(number, handle)
    try:
        yield
    finally:
        restore()


def _is_local(host: str) -> bool:
    from ..collector._loopback import is_loopback

    return is_loopback(host)


def _describe(
    db_path: Path,
    receiver: _Server,
    grpc_receiver: GrpcReceiver | None,
    page_server: _Server | None,
    no_grpc: str,
) -> str:
    lines = [f"Loopscope on {db_path}"]
    if page_server is not None:
        lines.append(f"  dashboard  {page_server.url}")
    lines.append(f"  OTLP/HTTP  {receiver.url}  (/v1/traces, /v1/logs)")
    if grpc_receiver is not None:
        lines.append(f"  OTLP/gRPC  {grpc_receiver.address}")
    elif no_grpc:
        lines.append(f"  OTLP/gRPC  off: {no_grpc}")
    lines.append("Ctrl-C stops.")
    return "\n".join(lines)


def _about_token(host: str, local: bool, page_server: _Server | None) -> str:
    """How to show the token, which is not printed itself: what is printed ends up in logs."""
    lines = (
        [] if local else [f"Listening on {host}: who has the token can read your traces and send new ones."]
    )
    lines.append('Senders: OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20<token>"')
    if page_server is not None:
        lines.append(f"Pages: open {page_server.url}/?token=<token> once")
    return "\n".join(lines)


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
