"""Owns ask_user, which ends the turn with a question to the person."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from holdfast.core.access import RUN
from holdfast.core.errors import FieldError, Invalid
from holdfast.core.ids import new_id
from holdfast.core.tools.alias import AliasInput, AnyAlias, json_text, under_its_name
from holdfast.core.tools.outcome import Json, Outcome, Pause
from holdfast.core.tools.tool import Annotations, AnyTool, Tool, ToolCall

Style = Literal["default", "confirm", "rating", "form"]

_Option = Annotated[str, Field(min_length=1, max_length=500)]


class AskField(AliasInput):
    label: str = Field(description="What people see beside the input.", min_length=1, max_length=200)
    key: str = Field(description="The name of the value in the answer.", min_length=1, max_length=100)
    placeholder: str | None = Field(None, description="A hint in the empty input.", max_length=200)
    required: bool = Field(False, description="Whether it must be filled.")


class AskUserInput(AliasInput):
    question: str = Field(description="What to ask.", min_length=1, max_length=4_000)
    options: list[_Option] | None = Field(None, description="Answers to choose from.", max_length=50)
    allow_free_text: bool = Field(True, description="Whether the person may answer in other words.")
    multi_select: bool = Field(False, description="Whether several options may be chosen.")
    style: Style = Field("default", description="confirm asks yes or no, rating from 1 to 5, form shows the fields.")
    fields: list[AskField] | None = Field(None, description="The inputs of a form.", max_length=50)


class AskUserOutput(BaseModel):
    correlation_id: str
    question: Json


async def _ask(call: ToolCall, given: AskUserInput) -> AskUserOutput:
    if given.style == "form" and not given.fields:
        raise Invalid("A form needs fields.", fields=[FieldError("fields", "add at least one with label and key")])
    keys = [field.key for field in given.fields or ()]
    if len(set(keys)) != len(keys):
        raise Invalid("Two fields have one key.", fields=[FieldError("fields", "give each field a key of its own")])
    return AskUserOutput(correlation_id=new_id("ask"), question=_question(given))


ASK_USER: AnyTool = Tool(
    name="ask_user",
    title="Ask the person",
    description="Ask the person something that you need to know before you can be useful, and stop until they answer. "
    "Do not use it for what you can find out yourself.",
    input=AskUserInput,
    output=AskUserOutput,
    handler=_ask,
    annotations=Annotations(read_only=True),
    access=RUN,
    consumer=None,
)


def tools() -> list[AnyTool]:
    """The tool; answering and going on is the chat's work."""
    return [ASK_USER]


def aliases() -> list[AnyAlias]:
    """Chats alone can wait for a person."""
    return [under_its_name(ASK_USER.name, "chat", ASK_USER.description, AskUserInput, _waiting)]


def _waiting(output: AskUserOutput) -> Outcome:
    event = {"type": "x_ask_user.question", **output.question, "correlation_id": output.correlation_id}
    waiting = {"status": "waiting", "correlation_id": output.correlation_id}
    pause = Pause(output.correlation_id, output.question, _in_words(output.question))
    return Outcome(json_text(waiting), events=[event], pause=pause)


def _question(given: AskUserInput) -> Json:
    question: Json = {
        "question": given.question,
        "options": given.options or [],
        "allow_free_text": given.allow_free_text,
        "multi_select": given.multi_select,
        "style": given.style,
    }
    if given.fields:
        question["fields"] = [field.model_dump(exclude_none=True) for field in given.fields]
    return question


def _in_words(question: Json) -> str:
    """The question as a client shows it that knows text alone: with what to choose from, or what to fill in."""
    hint = {"confirm": " (yes or no)", "rating": " (1 to 5)"}.get(question["style"], "")
    lines = [*question["options"], *(field["label"] for field in question.get("fields", ()))]
    return "\n".join([f"{question['question']}{hint}", *(f"- {line}" for line in lines)])
