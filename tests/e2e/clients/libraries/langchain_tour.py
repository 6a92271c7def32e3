"""Owns the rows of langchain-openai; run by .cache/openai3's Python."""

# mypy: ignore-errors
# Typed against libraries that this project does not install beside its own.

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel
from rows import HOSTED_TOOL, KEY, SERVER_TOOL, URL, WEATHER, row, run


class Person(BaseModel):
    """Somebody."""

    name: str
    age: int


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"21 degrees in {city}"


def make(api, **more):
    return ChatOpenAI(
        model="any", base_url=URL, api_key=KEY, use_responses_api=api == "responses", stream_usage=True, **more
    )


def on_server(api, *tools):
    """A model with a tool of the server, and tools of its own."""
    if api == "responses":
        return make(api).bind_tools([HOSTED_TOOL, *tools])
    model = make(api, extra_body=SERVER_TOOL)
    return model.bind_tools(list(tools)) if tools else model


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


def rows_of(api):
    @row(f"{api}: plain")
    async def plain():
        return seen(await make(api).ainvoke("plain: hello"))

    @row(f"{api}: stream")
    async def stream():
        whole, pieces = await streamed(make(api), "plain: hello")
        return {**seen(whole), "streamed": pieces > 2}

    @row(f"{api}: own tool")
    async def own_tool():
        return await with_tools(make(api).bind_tools([get_weather]), "weather: in Oslo?", streaming=False)

    @row(f"{api}: own tool, streamed")
    async def own_tool_streamed():
        return await with_tools(make(api).bind_tools([get_weather]), "weather: in Oslo?", streaming=True)

    @row(f"{api}: structured")
    async def structured():
        made = [
            await make(api).with_structured_output(Person, method=method).ainvoke("person: who?")
            for method in ("json_schema", "function_calling")
        ]
        return {"people": [each.model_dump() for each in made]}

    @row(f"{api}: server tool")
    async def server_tool():
        return seen(await on_server(api).ainvoke("sum: 6 * 7?"))

    @row(f"{api}: server tool, streamed")
    async def server_tool_streamed():
        return seen((await streamed(on_server(api), "sum: 6 * 7?"))[0])

    @row(f"{api}: both tools")
    async def both():
        return await with_tools(on_server(api, get_weather), "both: please", streaming=False)

    @row(f"{api}: both tools, streamed")
    async def both_streamed():
        return await with_tools(on_server(api, get_weather), "both: please", streaming=True)

    @row(f"{api}: structured with server tool")
    async def structured_with_server_tool():
        model = on_server(api) if api == "chat" else make(api, model_kwargs={"tools": [HOSTED_TOOL]})
        return {"people": [(await model.with_structured_output(Person).ainvoke("person: who?")).model_dump()]}

    @row(f"{api}: second turn")
    async def second_turn():
        model = make(api)
        first = await model.ainvoke("plain: hello")
        return seen(await model.ainvoke([HumanMessage("plain: hello"), first, HumanMessage("remember: all")]), first)


for api in ("chat", "responses"):
    rows_of(api)
assert get_weather.invoke({"city": "Oslo"}) == WEATHER
run()
