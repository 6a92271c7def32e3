"""Owns the rows of pydantic-ai's Anthropic model; run by .cache/openai3's Python."""

# mypy: ignore-errors
# Typed against libraries that this project does not install beside its own.

from anthropic import AsyncAnthropic
from pydantic import BaseModel
from pydantic_ai import Agent, PromptedOutput, ToolOutput
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from rows import KEY, URL, row, run


class Person(BaseModel):
    """Somebody."""

    name: str
    age: int


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"21 degrees in {city}"


def make(*, server=False, **more):
    headers = {"X-Xerotier-Tools": "calculator"} if server else {}
    client = AsyncAnthropic(base_url=URL.removesuffix("/v1"), api_key=KEY, max_retries=0, default_headers=headers)
    return Agent(AnthropicModel("any", provider=AnthropicProvider(anthropic_client=client)), retries=0, **more)


def seen(result, *others):
    usages = [each.usage for each in (*others, result)]
    return {"usage": [sum(usage.input_tokens for usage in usages), sum(usage.output_tokens for usage in usages)]}


async def asked(agent, question):
    result = await agent.run(question)
    return {"text": result.output, **seen(result)}


async def streamed(agent, question):
    pieces = []
    async with agent.run_stream(question) as result:
        async for piece in result.stream_text(delta=True, debounce_by=None):
            pieces.append(piece)
    return {"text": "".join(pieces), **seen(result), "streamed": len(pieces) > 2}


@row("messages: plain")
async def plain():
    return await asked(make(), "plain: hello")


@row("messages: stream")
async def stream():
    return await streamed(make(), "plain: hello")


@row("messages: own tool")
async def own_tool():
    return await asked(make(tools=[get_weather]), "weather: in Oslo?")


@row("messages: own tool, streamed")
async def own_tool_streamed():
    return await streamed(make(tools=[get_weather]), "weather: in Oslo?")


@row("messages: structured")
async def structured():
    results = [
        await make(output_type=kind).run("person: who?") for kind in (ToolOutput(Person), PromptedOutput(Person))
    ]
    return {"people": [result.output.model_dump() for result in results], **seen(*results)}


@row("messages: server tool")
async def server_tool():
    return await asked(make(server=True), "sum: 6 * 7?")


@row("messages: server tool, streamed")
async def server_tool_streamed():
    return await streamed(make(server=True), "sum: 6 * 7?")


@row("messages: both tools")
async def both():
    return await asked(make(server=True, tools=[get_weather]), "both: please")


@row("messages: second turn")
async def second_turn():
    agent = make()
    first = await agent.run("plain: hello")
    last = await agent.run("remember: all", message_history=first.all_messages())
    return {"text": last.output, **seen(first, last)}


run()
