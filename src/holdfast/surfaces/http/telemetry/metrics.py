"""Owns what Prometheus reads: requests by surface, method and status, and how long they took."""

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from starlette.types import Receive, Scope, Send

from holdfast.surfaces.http.asgi import send_bytes

_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})


class _Requests(Collector):
    """Counts requests in plain numbers, on the event loop alone: the library's counters take locks."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, int], int] = {}
        self._seconds: dict[str, list[float]] = {}
        """By surface: how many took up to each bound, the sum last."""

    def add(self, surface: str, method: str, status: int, seconds: float) -> None:
        key = (surface, method, status)
        self._counts[key] = self._counts.get(key, 0) + 1
        times = self._seconds.get(surface)
        if times is None:
            times = self._seconds[surface] = [0.0] * (len(_BUCKETS) + 2)
        times[bisect_left(_BUCKETS, seconds)] += 1
        times[-1] += seconds

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily("holdfast_http_requests", "Requests", labels=["surface", "method", "status"])
        for (surface, method, status), count in self._counts.items():
            requests.add_metric([surface, method, str(status)], count)
        yield requests
        took = HistogramMetricFamily("holdfast_http_request_seconds", "Seconds per request", labels=["surface"])
        for surface, times in self._seconds.items():
            sums = accumulate(times[:-1])
            bounds = [*map(str, map(float, _BUCKETS)), "+Inf"]
            took.add_metric([surface], list(zip(bounds, sums, strict=True)), times[-1])
        yield took


class Metrics:
    """One registry per server, so that tests can run several."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = _Requests()
        self.registry.register(self._requests)
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
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._requests.add(surface_of(scope["path"]), method, status, seconds)

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
