"""What an agent gets through its gate: tools of attached servers, by the real MCP client over the real socket."""

from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client

from tests.features.agents.conftest import GateHouse


def client(house: GateHouse, session, name: str, **more) -> Client:
    path = house.socket(session, name)
    return Client(stdio_client(StdioServerParameters(command="socat", args=["-", f"UNIX-CONNECT:{path}"])), **more)


async def test_walk(house: GateHouse) -> None:
    session = house.session(await house.attached())
    async with house.open(session) as opened:
        assert opened.servers["demo"].args == ("-", "UNIX-CONNECT:/run/x1/mcp/demo.sock")
        async with client(house, session, "demo") as c:
            tools = await c.list_tools()
            print([t.name for t in tools.tools])
            r = await c.call_tool("add", {"left": 2, "right": 3})
            print(r)
            assert r.structured_content == {"total": 5}
        async with client(house, session, "x1agent", mode="legacy") as c:
            tools = await c.list_tools()
            assert len(tools.tools) == 25
            r = await c.call_tool("emit_status", {"status": "writing"})
            print(r)
            r = await c.call_tool("graph_write", {"record_type": "person", "data": {"name": "Ada"}})
            print(r)
            r = await c.call_tool("graph_query", {"query": "find person where name = \"Ada\""})
            print(r)
    print(house.sessions.events)
