"""Owns the rows of instructor; run by .cache/openai2's Python."""

# mypy: ignore-errors
# Typed against libraries that this project does not install beside its own.

import instructor
from openai import AsyncOpenAI
from pydantic import BaseModel
from rows import KEY, SERVER_TOOL, URL, row, run

CLIENT = AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0)
MODES = [instructor.Mode.TOOLS, instructor.Mode.JSON, instructor.Mode.JSON_SCHEMA, instructor.Mode.MD_JSON]
ADA = [{"role": "user", "content": "person: who?"}]


class Person(BaseModel):
    """Somebody."""

    name: str
    age: int


def tokens(*answers):
    usages = [answer.usage for answer in answers]
    return [sum(usage.prompt_tokens for usage in usages), sum(usage.completion_tokens for usage in usages)]


async def made(mode, **more):
    client = instructor.from_openai(CLIENT, mode=mode)
    return await client.chat.completions.create_with_completion(
        model="any", response_model=Person, messages=ADA, max_retries=0, **more
    )


async def in_parts(mode, **more):
    """The last of the partial objects, and whether there was one before it was whole."""
    client = instructor.from_openai(CLIENT, mode=mode)
    parts = [
        part.model_dump()
        async for part in client.chat.completions.create_partial(
            model="any", response_model=Person, messages=ADA, max_retries=0, **more
        )
    ]
    return parts[-1], parts[0] != parts[-1]


def rows_of(mode):
    @row(f"chat, {mode.name}: structured")
    async def structured():
        person, answer = await made(mode)
        return {"people": [person.model_dump()], "usage": tokens(answer)}

    @row(f"chat, {mode.name}: structured, streamed")
    async def structured_streamed():
        person, grew = await in_parts(mode)
        return {"people": [person], "streamed": grew}

    @row(f"chat, {mode.name}: structured with server tool")
    async def structured_with_server_tool():
        person, _ = await made(mode, extra_body=SERVER_TOOL)
        return {"people": [person.model_dump()]}

    @row(f"chat, {mode.name}: structured with server tool, streamed")
    async def structured_with_server_tool_streamed():
        person, grew = await in_parts(mode, extra_body=SERVER_TOOL)
        return {"people": [person]} | ({"streamed": grew} if mode is instructor.Mode.TOOLS else {})


for mode in MODES:
    rows_of(mode)


@row("chat: plain")
async def plain():
    client = instructor.from_openai(CLIENT, mode=instructor.Mode.TOOLS)
    messages = [{"role": "user", "content": "plain: hello"}]
    answer = await client.chat.completions.create(model="any", response_model=None, messages=messages)
    return {"text": answer.choices[0].message.content, "usage": tokens(answer)}


@row("responses, RESPONSES_TOOLS: structured")
async def responses():
    client = instructor.from_openai(CLIENT, mode=instructor.Mode.RESPONSES_TOOLS)
    person = await client.responses.create(model="any", input="person: who?", response_model=Person, max_retries=0)
    return {"people": [person.model_dump()]}


run()
