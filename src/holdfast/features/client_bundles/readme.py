"""Owns the text that comes with a bundle: which file goes where, and what to do then."""

from collections.abc import Sequence

from holdfast.features.client_bundles.model import VARIABLE, BundleFile, Client


def readme(client: Client, workspace_name: str, key_name: str, files: Sequence[BundleFile], *, in_env: bool) -> str:
    """What a person has to know to use the bundle."""
    lines = [f"# {client.title} and the workspace {workspace_name}", "", f"Put these files into {client.place}:", ""]
    for number, file in enumerate(files):
        note = _note(client, number, file)
        lines.append(f"- `{file.path}`: {note}")
    lines += [
        "",
        "Where such a file is there already, add to it rather than replace it; "
        f"`holdfast mcp setup {client.id} --write DIR` does that and shows the changes first.",
        "",
    ]
    if in_env:
        lines += [f"Before the client starts, set the environment variable `{VARIABLE}` to the key.", ""]
    if client.after:
        lines += [client.after, ""]
    lines += [
        f"The key is named `{key_name}`. Every bundle for the same client and workspace makes a fresh key and stops "
        "the one before, so a lost file is made harmless by making a new one. The key sees this workspace only.",
        "",
    ]
    return "\n".join(lines)


def _note(client: Client, number: int, file: BundleFile) -> str:
    if number == 0:
        return (
            "the connection; it holds the API key, keep it out of version control" if file.has_key else "the connection"
        )
    if file.path == ".gitignore":
        return "keeps the file with the key out of version control"
    return "rules that let the agent use the tools without being told each time"
