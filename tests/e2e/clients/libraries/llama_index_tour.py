"""Owns the rows of llama-index, for OpenAI-like servers and for Responses; run by .cache/openai2's Python."""

# mypy: ignore-errors
# Typed against libraries that this project does not install beside its own.

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai import OpenAIResponses
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel
from rows import HOSTED_TOOL, KEY, SERVER_TOOL, URL, row, run


class Person(BaseModel):
    """Somebody."""

    name: str
    age: int


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"21 degrees in {city}"


TOOL = FunctionTool.from_defaults(get_weather)


def make(api, *, server=False, **more):
    if api == "responses":
        tools = {"built_in_tools": [HOSTED_TOOL]} if server else {}
        return OpenAIResponses(model="gpt-4.1", api_base=URL, api_key=KEY, max_retries=0, **tools, **more)
    extra = {"extra_body": SERVER_TOOL} if server else {}
    return OpenAILike(
        model="any",
        api_base=URL,
        api_key=KEY,
        is_chat_model=True,
        is_function_calling_model=True,
        context_window=8000,
        max_retries=0,
        additional_kwargs={**extra, **more},
    )


def usage_of(answer):
    told = getattr(answer.raw, "response", answer.raw).usage
    names = ("input_tokens", "output_tokens") if hasattr(told, "input_tokens_details") else None
    names = names or ("prompt_tokens", "completion_tokens")
    return [getattr(told, name) for name in names]


def seen(answer, *others):
    usages = [usage_of(each) for each in (*others, answer)]
    return {"text": answer.message.content, "usage": [sum(column) for column in zip(*usages, strict=True)]}


async def streamed(llm, messages):
    pieces, last = [], None
    async for part in await llm.astream_chat(messages):
        pieces += [part.delta] if part.delta else []
        last = part
    return {"text": "".join(pieces), "usage": usage_of(last), "streamed": len(pieces) > 2}


async def by_agent(llm, question, *, streaming):
    """The library's own loop around its own tool; it tells no usage."""
    agent = FunctionAgent(tools=[TOOL], llm=llm, streaming=streaming)
    return {"text": str(await agent.run(question))}


def rows_of(api):
    options = {} if api == "responses" else {"stream_options": {"include_usage": True}}

    @row(f"{api}: plain")
    async def plain():
        return seen(await make(api).achat([ChatMessage(role="user", content="plain: hello")]))

    @row(f"{api}: stream")
    async def stream():
        return await streamed(make(api, **options), [ChatMessage(role="user", content="plain: hello")])

    @row(f"{api}: own tool")
    async def own_tool():
        return await by_agent(make(api), "weather: in Oslo?", streaming=False)

    @row(f"{api}: own tool, streamed")
    async def own_tool_streamed():
        return await by_agent(make(api), "weather: in Oslo?", streaming=True)

    @row(f"{api}: structured")
    async def structured():
        made = await make(api).as_structured_llm(Person).achat([ChatMessage(role="user", content="person: who?")])
        return {"people": [made.raw.model_dump()]}

    @row(f"{api}: server tool")
    async def server_tool():
        return seen(await make(api, server=True).achat([ChatMessage(role="user", content="sum: 6 * 7?")]))

    @row(f"{api}: server tool, streamed")
    async def server_tool_streamed():
        llm = make(api, server=True, **options)
        return await streamed(llm, [ChatMessage(role="user", content="sum: 6 * 7?")])

    @row(f"{api}: both tools")
    async def both():
        return await by_agent(make(api, server=True), "both: please", streaming=False)

    @row(f"{api}: both tools, streamed")
    async def both_streamed():
        return await by_agent(make(api, server=True), "both: please", streaming=True)

    @row(f"{api}: structured with server tool")
    async def structured_with_server_tool():
        llm = make(api, server=True).as_structured_llm(Person)
        made = await llm.achat([ChatMessage(role="user", content="person: who?")])
        return {"people": [made.raw.model_dump()]}

    @row(f"{api}: second turn")
    async def second_turn():
        llm, memory = make(api), ChatMemoryBuffer.from_defaults(token_limit=4000)
        memory.put(ChatMessage(role="user", content="plain: hello"))
        first = await llm.achat(memory.get())
        memory.put(first.message)
        memory.put(ChatMessage(role="user", content="remember: all"))
        return seen(await llm.achat(memory.get()), first)


for api in ("chat", "responses"):
    rows_of(api)
run()
