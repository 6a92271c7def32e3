"""Owns the rows of litellm as a client; run by .cache/openai2's Python."""

# mypy: ignore-errors
# Typed against libraries that this project does not install beside its own.

import json
import os

# The table of prices is otherwise fetched from the network while importing.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm
from pydantic import BaseModel
from rows import HOSTED_TOOL, KEY, SERVER_TOOL, URL, row, run

litellm.telemetry = False
PLACE = {"model": "openai/any", "api_base": URL, "api_key": KEY, "num_retries": 0}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER_TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}
WEATHER_ITEM = {"type": "function", "name": "get_weather", "parameters": PARAMETERS, "strict": False}


class Person(BaseModel):
    """Somebody."""

    name: str
    age: int


def get_weather(city: str) -> str:
    return f"21 degrees in {city}"


def seen(answer, *others):
    usages = [each.usage for each in (*others, answer)]
    tokens = [sum(usage.prompt_tokens for usage in usages), sum(usage.completion_tokens for usage in usages)]
    return {"text": answer.choices[0].message.content, "usage": tokens}


async def asked(messages, *, streaming=False, **more):
    messages = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
    if not streaming:
        return await litellm.acompletion(messages=messages, **PLACE, **more), 0
    stream = await litellm.acompletion(
        messages=messages, stream=True, stream_options={"include_usage": True}, **PLACE, **more
    )
    chunks = [chunk async for chunk in stream]
    pieces = [chunk for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
    return litellm.stream_chunk_builder(chunks, messages=messages), len(pieces)


async def with_tools(question, **more):
    messages = [{"role": "user", "content": question}]
    first, _ = await asked(messages, tools=[WEATHER_TOOL], **more)
    (call,) = first.choices[0].message.tool_calls
    result = get_weather(**json.loads(call.function.arguments))
    messages += [first.choices[0].message.model_dump(), {"role": "tool", "tool_call_id": call.id, "content": result}]
    last, _ = await asked(messages, tools=[WEATHER_TOOL], **more)
    return seen(last, first)


@row("chat: plain")
async def plain():
    return seen((await asked("plain: hello"))[0])


@row("chat: stream")
async def stream():
    answer, pieces = await asked("plain: hello", streaming=True)
    return {**seen(answer), "streamed": pieces > 2}


@row("chat: own tool")
async def own_tool():
    return await with_tools("weather: in Oslo?")


@row("chat: own tool, streamed")
async def own_tool_streamed():
    return await with_tools("weather: in Oslo?", streaming=True)


@row("chat: structured")
async def structured():
    answer, _ = await asked("person: who?", response_format=Person)
    made = seen(answer)
    return {"people": [Person.model_validate_json(made["text"]).model_dump()], "usage": made["usage"]}


@row("chat: server tool")
async def server_tool():
    return seen((await asked("sum: 6 * 7?", extra_body=SERVER_TOOL))[0])


@row("chat: server tool, streamed")
async def server_tool_streamed():
    answer, pieces = await asked("sum: 6 * 7?", extra_body=SERVER_TOOL, streaming=True)
    return {**seen(answer), "streamed": pieces > 2}


@row("chat: both tools")
async def both():
    return await with_tools("both: please", extra_body=SERVER_TOOL)


@row("chat: both tools, streamed")
async def both_streamed():
    return await with_tools("both: please", extra_body=SERVER_TOOL, streaming=True)


@row("chat: structured with server tool")
async def structured_with_server_tool():
    answer, _ = await asked("person: who?", response_format=Person, extra_body=SERVER_TOOL)
    return {"people": [json.loads(seen(answer)["text"])]}


@row("chat: second turn")
async def second_turn():
    first, _ = await asked("plain: hello")
    said = [{"role": "user", "content": "plain: hello"}, first.choices[0].message.model_dump()]
    last, _ = await asked([*said, {"role": "user", "content": "remember: all"}])
    return seen(last, first)


def text_of(response):
    parts = [part for item in response.output if item.type == "message" for part in item.content]
    return "".join(part.text for part in parts)


def answered(response, *others):
    usages = [each.usage for each in (*others, response)]
    tokens = [sum(usage.input_tokens for usage in usages), sum(usage.output_tokens for usage in usages)]
    return {"text": text_of(response), "usage": tokens}


async def responded(input, **more):
    return await litellm.aresponses(input=input, **PLACE, **more)


async def responded_in_pieces(input, **more):
    pieces, whole = 0, None
    async for event in await responded(input, stream=True, **more):
        pieces += event.type == "response.output_text.delta"
        whole = event.response if event.type == "response.completed" else whole
    return whole, pieces


async def items_with_tools(question, **more):
    first = await responded(question, tools=[WEATHER_ITEM, *more.get("tools", ())])
    (call,) = [item for item in first.output if item.type == "function_call"]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": get_weather("Oslo")}
    last = await responded([result], previous_response_id=first.id, tools=[WEATHER_ITEM])
    return answered(last, first)


@row("responses: plain")
async def response():
    return answered(await responded("plain: hello"))


@row("responses: stream")
async def response_streamed():
    whole, pieces = await responded_in_pieces("plain: hello")
    return {**answered(whole), "streamed": pieces > 2}


@row("responses: own tool")
async def response_own_tool():
    return await items_with_tools("weather: in Oslo?")


@row("responses: structured")
async def response_structured():
    response = await responded("person: who?", text_format=Person)
    made = answered(response)
    return {"people": [json.loads(made["text"])], "usage": made["usage"]}


@row("responses: server tool")
async def response_server_tool():
    return answered(await responded("sum: 6 * 7?", tools=[HOSTED_TOOL]))


@row("responses: server tool, streamed")
async def response_server_tool_streamed():
    return answered((await responded_in_pieces("sum: 6 * 7?", tools=[HOSTED_TOOL]))[0])


@row("responses: both tools")
async def response_both():
    return await items_with_tools("both: please", tools=[HOSTED_TOOL])


@row("responses: second turn")
async def response_second_turn():
    first = await responded("plain: hello")
    return answered(await responded("remember: all", previous_response_id=first.id), first)


run()
