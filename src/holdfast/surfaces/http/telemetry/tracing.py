"""Owns OpenTelemetry: one span for each request, joined to the caller's trace, sent to the configured collector."""

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast import __version__
from holdfast.core.text.redaction import redacted_path
from holdfast.surfaces.http.asgi import header, request_id
from holdfast.surfaces.http.telemetry.metrics import surface_of


class Traced:
    """ASGI middleware; built only where a collector is configured."""

    def __init__(self, inside: ASGIApp, endpoint: str) -> None:
        self._inside = inside
        resource = Resource.create({"service.name": "holdfast", "service.version": __version__})
        self._provider = TracerProvider(resource=resource)
        exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=5)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("holdfast")
        self._propagator = TraceContextTextMapPropagator()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inside(scope, receive, send)
            return
        parent = self._propagator.extract({"traceparent": header(scope, b"traceparent") or ""})
        name = f"{scope['method']} {surface_of(scope['path'])}"
        # An exception's words are the log's, where they are redacted; the span says only that there was one.
        with self._tracer.start_as_current_span(
            name, context=parent, kind=trace.SpanKind.SERVER, record_exception=False, set_status_on_exception=False
        ) as span:
            span.set_attribute("http.request.method", scope["method"])
            span.set_attribute("url.path", redacted_path(scope["path"]))
            span.set_attribute("holdfast.request_id", request_id(scope))

            async def told(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                    if message["status"] >= 500:
                        span.set_status(trace.StatusCode.ERROR)
                await send(message)

            try:
                await self._inside(scope, receive, told)
            except Exception as problem:
                span.set_attribute("error.type", type(problem).__name__)
                span.set_status(trace.StatusCode.ERROR)
                raise
            actor = scope["state"].get("actor")
            if actor is not None:
                span.set_attribute("holdfast.actor", actor)

    async def stop(self) -> None:
        """Send what is left."""
        self._provider.shutdown()
