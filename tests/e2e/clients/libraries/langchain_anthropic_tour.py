"""Owns the rows of langchain-anthropic; run by .cache/openai3's Python."""

# mypy: ignore-errors
# Typed against libraries that this project does not install beside its own.

from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel
from rows import KEY, URL, row, run


class Person(BaseModel):
    """Somebody."""

    name: str
    age: int


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"21 degrees in {city}"


def make(**more):
    return ChatAnthropic(model="any", base_url=URL.removesuffix("/v1"), api_key=KEY, max_retries=0, **more)


def on_server():
    return make(default_headers={"X-Xerotier-Tools": "calculator"})


def seen(message, *others):
    usages = [each.usage_metadata for each in (*others, message)]
    text = message.text if isinstance(message.text, str) else message.text()
    return {"text": text, "usage": [sum(usage[key] for usage in usages) for key in ("input_tokens", "output_tokens")]}


async def streamed(model, messages):
    whole, pieces = None, 0
    async for chunk in model.astream(messages):
        whole = chunk if whole is None else whole + chunk
        pieces += 1
    return whole, pieces


async def with_tools(model, question, *, streaming):
    """One own tool's turn: the call, its result, the answer."""
    asked = [HumanMessage(question)]
    first = (await streamed(model, asked))[0] if streaming else await model.ainvoke(asked)
    (call,) = first.tool_calls
    result = ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"])
    again = [*asked, first, result]
    last = (await streamed(model, again))[0] if streaming else await model.ainvoke(again)
    return seen(last, first)


@row("messages: plain")
async def plain():
    return seen(await make().ainvoke("plain: hello"))


@row("messages: stream")
async def stream():
    whole, pieces = await streamed(make(), "plain: hello")
    return {**seen(whole), "streamed": pieces > 2}


@row("messages: own tool")
async def own_tool():
    return await with_tools(make().bind_tools([get_weather]), "weather: in Oslo?", streaming=False)


@row("messages: own tool, streamed")
async def own_tool_streamed():
    return await with_tools(make().bind_tools([get_weather]), "weather: in Oslo?", streaming=True)


@row("messages: structured")
async def structured():
    made = [
        await make().with_structured_output(Person, method=method).ainvoke("person: who?")
        for method in ("json_schema", "function_calling")
    ]
    return {"people": [each.model_dump() for each in made]}


@row("messages: server tool")
async def server_tool():
    return seen(await on_server().ainvoke("sum: 6 * 7?"))


@row("messages: server tool, streamed")
async def server_tool_streamed():
    return seen((await streamed(on_server(), "sum: 6 * 7?"))[0])


@row("messages: second turn")
async def second_turn():
    model = make()
    first = await model.ainvoke("plain: hello")
    return seen(await model.ainvoke([HumanMessage("plain: hello"), first, HumanMessage("remember: all")]), first)


run()
