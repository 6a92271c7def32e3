"""Owns the rows of openai-agents; run by .cache/openai3's Python."""

# mypy: ignore-errors
# Typed against libraries that this project does not install beside its own.

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from pydantic import BaseModel
from rows import KEY, SERVER_TOOL, URL, row, run

set_tracing_disabled(True)
CLIENT = AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0)


class Person(BaseModel):
    """Somebody."""

    name: str
    age: int


@function_tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"21 degrees in {city}"


def make(api, *, server=False, **more):
    kind = OpenAIResponsesModel if api == "responses" else OpenAIChatCompletionsModel
    settings = ModelSettings(include_usage=True, extra_body=SERVER_TOOL if server else None)
    return Agent("helper", model=kind("any", CLIENT), model_settings=settings, **more)


def seen(*results):
    usages = [result.context_wrapper.usage for result in results]
    return {"usage": [sum(usage.input_tokens for usage in usages), sum(usage.output_tokens for usage in usages)]}


async def asked(agent, question, **more):
    result = await Runner.run(agent, question, **more)
    return {"text": result.final_output, **seen(result)}


async def streamed(agent, question):
    result = Runner.run_streamed(agent, question)
    pieces = []
    async for event in result.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            pieces.append(event.data.delta)
    return {"text": result.final_output, **seen(result), "streamed": len(pieces) > 2}


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
        result = await Runner.run(make(api, output_type=Person), "person: who?")
        return {"people": [result.final_output.model_dump()], **seen(result)}

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
        result = await Runner.run(make(api, server=True, output_type=Person), "person: who?")
        return {"people": [result.final_output.model_dump()]}

    @row(f"{api}: second turn")
    async def second_turn():
        agent, session = make(api), SQLiteSession("talk")
        first = await Runner.run(agent, "plain: hello", session=session)
        last = await Runner.run(agent, "remember: all", session=session)
        return {"text": last.final_output, **seen(first, last)}


for api in ("chat", "responses"):
    rows_of(api)


@row("responses: second turn by previous response")
async def previous_response():
    agent = make("responses")
    first = await Runner.run(agent, "plain: hello")
    last = await Runner.run(agent, "remember: all", previous_response_id=first.last_response_id)
    return {"text": last.final_output, **seen(first, last)}


@row("responses: own tool by previous response")
async def tool_and_previous_response():
    agent = make("responses", tools=[get_weather])
    result = await Runner.run(agent, "weather: in Oslo?", auto_previous_response_id=True)
    return {"text": result.final_output, **seen(result)}


run()
