"""Owns the prompts and resources that the conformance suite asks for."""

import base64
import json
from collections.abc import Sequence

from holdfast.core.access import READ
from holdfast.core.principal import Principal
from holdfast.registry.content import Content
from holdfast.registry.prompts import Prompt, PromptArgument, PromptCall
from holdfast.registry.resources import Arguments, Read, Resource, ResourceTemplate
from tests.surfaces.mcp.conformance.data import PNG

IMAGE = base64.b64decode(PNG)


async def _simple(call: PromptCall) -> str:
    return "This is a simple prompt for testing."


async def _with_arguments(call: PromptCall) -> str:
    return f"Prompt with arguments: arg1='{call.arguments['arg1']}', arg2='{call.arguments['arg2']}'"


async def _with_image(call: PromptCall) -> list[Content]:
    return [Content(IMAGE, "image/png"), Content("Please analyze the image above.")]


async def _with_resource(call: PromptCall) -> list[Content]:
    quoted = Content("Embedded resource content for testing.", "text/plain", call.arguments["resourceUri"])
    return [quoted, Content("Please process the embedded resource above.")]


async def _asking(call: PromptCall) -> str:
    schema = {"type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]}
    return f"Prompt with context: {await call.ask('What context should the prompt use?', schema)}"


async def _cities(principal: Principal, workspace_id: str, begun: str) -> Sequence[str]:
    return [word for word in ("paris", "park", "party") if word.startswith(begun)]


def prompts() -> list[Prompt]:
    both = tuple(PromptArgument(name, name, complete=_cities) for name in ("arg1", "arg2"))
    quoted = (PromptArgument("resourceUri", "Resource"),)
    return [
        Prompt(name=name, title=name, description=f"Fixture {name}", access=READ, write=write, arguments=arguments)
        for name, write, arguments in (
            ("test_simple_prompt", _simple, ()),
            ("test_prompt_with_arguments", _with_arguments, both),
            ("test_prompt_with_embedded_resource", _with_resource, quoted),
            ("test_prompt_with_image", _with_image, ()),
            ("test_input_required_result_prompt", _asking, ()),
        )
    ]


def _fixed(content: Content) -> Read:
    async def read(principal: Principal, workspace_id: str, arguments: Arguments) -> Content:
        return content

    return read


async def _data(principal: Principal, workspace_id: str, arguments: Arguments) -> Content:
    id = arguments["id"]
    said = json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})
    return Content(said, "application/json")


def resources() -> list[Resource | ResourceTemplate]:
    contents = {
        "static-text": Content("This is the content of the static text resource.", "text/plain"),
        "static-binary": Content(IMAGE, "image/png"),
        "watched-resource": Content("Watched.", "text/plain"),
    }
    return [
        *(
            Resource(
                uri=f"test://{name}",
                name=name,
                title=name,
                description=f"Fixture {name}",
                access=READ,
                read=_fixed(content),
                mime_type=content.mime_type,
            )
            for name, content in contents.items()
        ),
        ResourceTemplate(
            uri_template="test://template/{id}/data",
            name="template",
            title="template",
            description="Template",
            access=READ,
            read=_data,
            mime_type="application/json",
        ),
    ]
