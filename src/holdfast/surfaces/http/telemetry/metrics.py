"""Owns what Prometheus reads: requests by surface, method and status, and how long they took."""

from collections.abc import Awaitable, Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.process_collector import ProcessCollector
from starlette.types import Receive, Scope, Send

from holdfast.surfaces.http.asgi import send_bytes

_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})


class Metrics:
    """One registry per server, so that tests can run several."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = Counter(
            "holdfast_http_requests", "Requests", ["surface", "method", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "holdfast_http_request_seconds",
            "Seconds per request",
            ["surface"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._children: dict[tuple[str, str, int], Counter] = {}
        self._timers: dict[str, Histogram] = {}
        self.whole: Callable[[], Awaitable[bytes]] | None = None
        """Where several processes serve together: what all of them measured."""

    def gauge(self, name: str, help: str) -> Gauge:
        """A number that something else keeps current."""
        return Gauge(f"holdfast_{name}", help, registry=self.registry)

    def refusals(self) -> Counter:
        """Counts what the front refused before it became a request, by error code."""
        return Counter("holdfast_http_refusals", "Refused before they were requests", ["code"], registry=self.registry)

    def request(self, scope: Scope, status: int, seconds: float) -> None:
        """Count one request."""
        surface = surface_of(scope["path"])
        method = scope["method"] if scope["method"] in _METHODS else "other"
        key = (surface, method, status)
        counter = self._children.get(key)
        if counter is None:
            counter = self._children[key] = self._requests.labels(surface, method, str(status))
        counter.inc()
        timer = self._timers.get(surface)
        if timer is None:
            timer = self._timers[surface] = self._seconds.labels(surface)
        timer.observe(seconds)

    def own(self) -> bytes:
        """What this process measured."""
        return generate_latest(self.registry)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`GET /metrics`."""
        body = self.own() if self.whole is None else await self.whole()
        await send_bytes(send, 200, body, content_type=b"text/plain; version=0.0.4; charset=utf-8")


def surface_of(path: str) -> str:
    """A label of few values for any path."""
    if path.startswith("/api"):
        return "rest"
    if path.endswith("/v1/mcp") or path.startswith("/mcp"):
        return "mcp"
    if path.startswith("/proj_"):
        return "openai"
    if path in ("/healthz", "/readyz", "/metrics"):
        return "operation"
    return "dashboard"
