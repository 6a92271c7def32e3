"""Owns the text that comes with a bundle: which file goes where, and what to do then."""

from collections.abc import Sequence

from holdfast.features.client_bundles.model import KEYSTONE, XEROTIER, ZERO, BundleFile, Client, McpEndpoint


def readme(
    surface: McpEndpoint,
    client: Client,
    workspace_name: str,
    key_name: str,
    files: Sequence[BundleFile],
    *,
    in_env: bool,
) -> str:
    """What a person has to know to use the bundle."""
    what = surface.title if surface is KEYSTONE else f"the workspace {workspace_name}"
    option = "" if surface is XEROTIER else f" --surface {surface.name}"
    lines = [f"# {client.title} and {what}", "", f"Put these files into {client.place}:", ""]
    for number, file in enumerate(files):
        note = _note(client, number, file)
        lines.append(f"- `{file.path}`: {note}")
    lines += [
        "",
        "Where such a file is there already, add to it rather than replace it; "
        f"`holdfast mcp setup {client.id}{option} --write DIR` does that and shows the changes first.",
        "",
    ]
    if in_env:
        lines += [
            f"Before the client starts, set the environment variable {_variables(surface, client, files)} to the key.",
            "",
        ]
    if client.after:
        lines += [client.after, ""]
    if surface is KEYSTONE:
        lines += [
            "Then ask the agent which projects there are: it should call `list_projects`. The other three tools are "
            "`ask`, `search_memory` and `get_project_status`.",
            "",
        ]
    if surface is ZERO:
        lines += ["Then ask the agent what there is to do: it should call `zero_list_cases`.", ""]
    lines += [_about_key(surface, key_name), ""]
    return "\n".join(lines)


def _variables(surface: McpEndpoint, client: Client, files: Sequence[BundleFile]) -> str:
    is_routed = client.router is not None and any(file.path == client.router.path for file in files)
    also = f" and `{client.router.variable}`" if client.router is not None and is_routed else ""
    return f"`{surface.variable}`{also}"


def _about_key(surface: McpEndpoint, key_name: str) -> str:
    of_what = "client" if surface is KEYSTONE else "client and workspace"
    sees = "every repository of the organization" if surface is KEYSTONE else "this workspace only"
    return (
        f"The key is named `{key_name}`. Every bundle for the same {of_what} makes a fresh key and stops "
        f"the one before, so a lost file is made harmless by making a new one. The key sees {sees}."
    )


def _note(client: Client, number: int, file: BundleFile) -> str:
    if number == 0:
        return (
            "the connection; it holds the API key, keep it out of version control" if file.has_key else "the connection"
        )
    if file.path == ".gitignore":
        return "keeps the file with the key out of version control"
    if client.router is not None and file.path == client.router.path:
        key = "; it holds the API key, keep it out of version control" if file.has_key else ""
        return f"has one of your endpoints answer as the model{key}"
    return "rules that let the agent use the tools without being told each time"
