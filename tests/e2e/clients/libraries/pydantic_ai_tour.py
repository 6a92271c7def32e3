"""Owns the rows of pydantic-ai; run by .cache/openai3's Python."""

# mypy: ignore-errors
# Typed against libraries that this project does not install beside its own.

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, PromptedOutput, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from rows import KEY, SERVER_TOOL, URL, row, run


class Person(BaseModel):
    """Somebody."""

    name: str
    age: int


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"21 degrees in {city}"


def make(api, *, server=False, **more):
    kind = OpenAIResponsesModel if api == "responses" else OpenAIChatModel
    model = kind("any", provider=OpenAIProvider(base_url=URL, api_key=KEY))
    settings = {"extra_body": SERVER_TOOL} if server else {}
    return Agent(model, model_settings=settings, retries=0, **more)


def seen(result, *others):
    usages = [each.usage for each in (*others, result)]
    return {"usage": [sum(usage.input_tokens for usage in usages), sum(usage.output_tokens for usage in usages)]}


async def asked(agent, question, **more):
    result = await agent.run(question, **more)
    return {"text": result.output, **seen(result)}


async def streamed(agent, question):
    pieces = []
    async with agent.run_stream(question) as result:
        async for piece in result.stream_text(delta=True, debounce_by=None):
            pieces.append(piece)
    return {"text": "".join(pieces), **seen(result), "streamed": len(pieces) > 2}


def rows_of(api):
    @row(f"{api}: plain")
    async def plain():
        return await asked(make(api), "plain: hello")

    @row(f"{api}: stream")
    async def stream():
        return await streamed(make(api), "plain: hello")

    @row(f"{api}: own tool")
    async def own_tool():
        return await asked(make(api, tools=[get_weather]), "weather: in Oslo?")

    @row(f"{api}: own tool, streamed")
    async def own_tool_streamed():
        return await streamed(make(api, tools=[get_weather]), "weather: in Oslo?")

    @row(f"{api}: structured")
    async def structured():
        kinds = (ToolOutput(Person), NativeOutput(Person), PromptedOutput(Person))
        results = [await make(api, output_type=kind).run("person: who?") for kind in kinds]
        return {"people": [result.output.model_dump() for result in results], **seen(*results)}

    @row(f"{api}: structured, streamed")
    async def structured_streamed():
        people = []
        for kind in (ToolOutput(Person), NativeOutput(Person)):
            async with make(api, output_type=kind).run_stream("person: who?") as result:
                async for _ in result.stream_output(debounce_by=None):
                    pass
                people.append((await result.get_output()).model_dump())
        return {"people": people}

    @row(f"{api}: server tool")
    async def server_tool():
        return await asked(make(api, server=True), "sum: 6 * 7?")

    @row(f"{api}: server tool, streamed")
    async def server_tool_streamed():
        return await streamed(make(api, server=True), "sum: 6 * 7?")

    @row(f"{api}: both tools")
    async def both():
        return await asked(make(api, server=True, tools=[get_weather]), "both: please")

    @row(f"{api}: both tools, streamed")
    async def both_streamed():
        return await streamed(make(api, server=True, tools=[get_weather]), "both: please")

    @row(f"{api}: structured with server tool")
    async def structured_with_server_tool():
        kinds = (ToolOutput(Person), NativeOutput(Person))
        results = [await make(api, server=True, output_type=kind).run("person: who?") for kind in kinds]
        return {"people": [result.output.model_dump() for result in results]}

    @row(f"{api}: second turn")
    async def second_turn():
        agent = make(api)
        first = await agent.run("plain: hello")
        last = await agent.run("remember: all", message_history=first.all_messages())
        return {"text": last.output, **seen(first, last)}


for api in ("chat", "responses"):
    rows_of(api)
run()
