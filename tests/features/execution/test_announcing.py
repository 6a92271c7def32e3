"""A workspace's webhook hears of calls that wait: with the link, signed, and without arguments."""

import asyncio
import hashlib
import hmac
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from holdfast.core.settings import Settings
from holdfast.features.execution.model import ExecutionSetting, InvocationRequest
from holdfast.features.execution.service import Execution
from holdfast.features.execution.settings import ExecutionSettings
from holdfast.features.identity.service import local_principal
from holdfast.storage.sqlite import SqliteDatabase
from tests.fakes.embedder import WordEmbedder
from tests.fakes.mcp.inside import InsideServers
from tests.support.clock import MovableClock
from tests.support.execution.counting import enrolled
from tests.support.features.audit import MASTER_KEY, NOWHERE
from tests.support.services import background, build_services, first_start


async def test_a_webhook_is_told_of_a_call_that_waits(sqlite_database: SqliteDatabase, clock: MovableClock) -> None:
    heard: list[tuple[str, bytes]] = []

    class Listener(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["content-length"])
            heard.append((self.headers["x-holdfast-signature-256"], self.rfile.read(size)))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is printed."""

    listener = HTTPServer(("127.0.0.1", 0), Listener)
    Thread(target=listener.serve_forever, daemon=True).start()
    try:
        place = f"127.0.0.1:{listener.server_port}"
        settings = Settings(data_dir=NOWHERE, secrets_master_key=MASTER_KEY, fetch_allow=(place,))
        inside = InsideServers()
        services = build_services(settings, sqlite_database, clock, WordEmbedder(), instead=inside.instead())
        async with background(services):
            start = await first_start(services)
            owner = local_principal(start.organization_id)
            await enrolled(services, owner, start.workspace_id)
            await services.secrets.set(owner, start.workspace_id, "HOOK", "a shared secret")
            new = ExecutionSetting(webhook_url=f"http://{place}/hook", webhook_secret="HOOK")
            await services[ExecutionSettings].set(owner, start.workspace_id, new)
            request = InvocationRequest(
                principal=owner,
                workspace_id=start.workspace_id,
                tool_name="demo.count",
                arguments={"name": "confidential"},
                source="cli",
            )
            asked = (await services[Execution].invoke(request)).invocation
            async with asyncio.timeout(30):
                while not heard:
                    await asyncio.sleep(0.02)
    finally:
        listener.shutdown()
        listener.server_close()
    signature, body = heard[0]
    assert signature == "sha256=" + hmac.new(b"a shared secret", body, hashlib.sha256).hexdigest()
    told = json.loads(body)
    assert told["invocation_id"] == asked.id and "/approve/" in told["approval_url"] and b"confidential" not in body
