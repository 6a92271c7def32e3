"""Runs inside a private network namespace where every forbidden address is really served; prints who was reached.

Started by test_fetch_namespace.py with `unshare`; prints one JSON object.
"""

import asyncio
import json
import subprocess
import sys
import urllib.request

from holdfast.core.errors import Invalid
from holdfast.engines.fetch.network.guard import FetchLimits, Guard
from holdfast.engines.fetch.network.url import parse_url

PUBLIC = "93.184.215.14"
ADDRESSES = [
    *("10.0.0.1/32", "172.31.255.255/32", "192.168.1.1/32", "169.254.169.254/32", "100.100.100.200/32"),
    *("168.63.129.16/32", "198.18.0.1/32", f"{PUBLIC}/32", "fd00:ec2::254/128", "64:ff9b::7f00:1/128"),
    *("64:ff9b:1::7f00:1/128", "2002:7f00:1::/128", "2001:0:7f00:1::/128"),
]


class Names:
    """What an attacker's name server would say."""

    known = {
        "public.test": [PUBLIC],
        "loopback.test": ["127.0.0.1"],
        "mixed.test": [PUBLIC, "127.0.0.1"],
        "six.test": ["::1"],
        "mapped.test": ["::ffff:127.0.0.1"],
        "translated.test": ["64:ff9b::7f00:1"],
        "scoped.test": ["fe80::1%lo"],
    }

    async def resolve(self, host: str, port: int) -> list[str]:
        if host not in self.known:
            raise OSError("unknown host")
        return self.known[host]


async def main() -> None:
    attacks: list[str] = json.loads(sys.stdin.read())
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for address in ADDRESSES:
        subprocess.run(["ip", "addr", "add", address, "dev", "lo", "nodad"], check=False, capture_output=True)
    reached: list[str] = []
    location = ""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = (await reader.readuntil(b"\r\n\r\n")).decode()
        local = str(writer.get_extra_info("sockname")[0])
        if local != PUBLIC:
            reached.append(local)
        status = f"302 Found\r\nLocation: {location}" if request.startswith("GET /go ") else "200 OK"
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi".encode())
        await writer.drain()
        writer.close()

    for host in ("0.0.0.0", "::"):
        await asyncio.start_server(answer, host, 80)

    def naive(url: str) -> None:
        urllib.request.urlopen(url, timeout=5).read()

    controls = ["http://127.0.0.1/", "http://169.254.169.254/", "http://10.0.0.1/", "http://[::1]/", "http://127.1/"]
    for url in controls:
        await asyncio.to_thread(naive, url)
    naively_reached, reached = list(reached), []
    guard = Guard(resolver=Names(), limits=FetchLimits(seconds=30))
    public = (await guard.get(parse_url("http://public.test/"))).status
    allowed: list[str] = []
    for attack in attacks:
        location = attack
        for url in (attack, "http://public.test/go"):
            try:
                await guard.get(parse_url(url))
                allowed.append(f"{url} ({attack})")
            except Invalid:
                pass
    print(json.dumps({"naive": naively_reached, "public": public, "reached": reached, "allowed": allowed}))


asyncio.run(main())
