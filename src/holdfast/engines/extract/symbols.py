"""Owns what a source file defines: functions, classes, types and constants by name, with their lines."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import tree_sitter

from holdfast.engines.extract.code import name_of

MAX_SYMBOLS = 2_000
_MAX_DEPTH = 40
_KINDS = {
    "function": "function_definition function_declaration function_item function_signature_item method method_signature"
    " generator_function_declaration method_definition method_declaration singleton_method constructor_declaration"
    " init_declaration abstract_method_signature",
    "class": "class_definition class_declaration abstract_class_declaration class_specifier class record_declaration",
    "object": "object_declaration",
    "interface": "interface_declaration",
    "trait": "trait_item trait_declaration",
    "protocol": "protocol_declaration",
    "struct": "struct_item struct_specifier struct_declaration union_specifier",
    "enum": "enum_item enum_specifier enum_declaration",
    "type": "type_alias_declaration type_item type_spec type_definition type_alias annotation_type_declaration",
    "module": "mod_item module namespace_definition namespace_declaration file_scoped_namespace_declaration"
    " internal_module",
    "macro": "macro_definition preproc_function_def",
    "constant": "const_item static_item const_spec var_spec",
}
_KIND_OF = {node: kind for kind, nodes in _KINDS.items() for node in nodes.split()}
_HOLDERS = (
    "program source_file translation_unit compilation_unit decorated_definition export_statement lexical_declaration"
    " variable_declaration const_declaration var_declaration type_declaration template_declaration statement_block"
    " expression_statement block class_body declaration_list field_declaration_list body_statement interface_body"
    " enum_body enum_class_body protocol_body if_statement else_clause try_statement except_clause ERROR"
    " linkage_specification preproc_if preproc_ifdef preproc_else companion_object impl_item"
)
_THROUGH = frozenset(_HOLDERS.split())
"""What may hold definitions; nothing else is opened, so that bodies of functions cost nothing."""
_FUNCTIONS = ("arrow_function", "function_expression", "function", "generator_function")
_METHODS = ("method_declaration", "singleton_method")
_CALLED = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Definition:
    """A name that the file defines. `container` is what stands around it, dotted."""

    name: str
    kind: str
    start_line: int
    end_line: int
    container: str = ""


def definitions(tree: tree_sitter.Tree) -> list[Definition]:
    """What the file defines, in order, nested in classes and modules but not in functions."""
    found: list[Definition] = []
    for definition in _within(tree.root_node, (), "", 0):
        found.append(definition)
        if len(found) == MAX_SYMBOLS:
            break
    return found


def _within(node: tree_sitter.Node, path: tuple[str, ...], owner: str, depth: int) -> Iterator[Definition]:
    for child in node.named_children:
        kind = _KIND_OF.get(child.type)
        if kind is not None:
            yield from _defined(child, kind, path, owner, depth)
        elif child.type in ("variable_declarator", "assignment", "public_field_definition", "field_definition"):
            yield from _assigned(child, path, owner)
        elif child.type in _THROUGH and depth < _MAX_DEPTH:
            inside = (*path, name) if child.type == "impl_item" and (name := name_of(child)) else path
            yield from _within(child, inside, "type" if inside != path else owner, depth + 1)


def _defined(node: tree_sitter.Node, kind: str, path: tuple[str, ...], owner: str, depth: int) -> Iterator[Definition]:
    if node.type.endswith("_specifier") and node.child_by_field_name("body") is None:
        return
    outside = len(path)
    name, path, kind = _named(node, kind, path)
    if not name:
        return
    if kind == "function" and (owner not in ("", "module") or len(path) > outside or node.type in _METHODS):
        kind = "method"
    if kind != "extension":
        yield Definition(name, kind, node.start_point[0] + 1, node.end_point[0] + 1, ".".join(path))
    if kind not in ("function", "method", "constant", "macro", "type") and depth < _MAX_DEPTH:
        yield from _within(node, (*path, name), kind, depth + 1)


def _named(node: tree_sitter.Node, kind: str, path: tuple[str, ...]) -> tuple[str, tuple[str, ...], str]:
    *outer, name = (_qualified(node) or name_of(node)).split("::")
    receiver = node.child_by_field_name("receiver")
    if receiver is not None and (words := _CALLED.findall((receiver.text or b"").decode(errors="replace"))):
        outer = [words[-1]]
    # Swift calls everything a class and says apart which it is.
    told = node.child_by_field_name("declaration_kind")
    if told is not None:
        kind = (told.text or b"").decode(errors="replace")
    return name, (*path, *outer), kind


def _qualified(node: tree_sitter.Node) -> str:
    """The whole of a C++ name like `Shop::sell`, whose class stands elsewhere."""
    current = node.child_by_field_name("declarator")
    while current is not None and current.type != "qualified_identifier":
        current = current.child_by_field_name("declarator")
    return "" if current is None else (current.text or b"").decode(errors="replace")[:200]


def _assigned(node: tree_sitter.Node, path: tuple[str, ...], owner: str) -> Iterator[Definition]:
    target = node.child_by_field_name("name") or node.child_by_field_name("left")
    target = target or node.child_by_field_name("property")
    if target is None or ("identifier" not in target.type and target.type != "constant"):
        return
    value = node.child_by_field_name("value")
    is_function = value is not None and value.type in _FUNCTIONS
    if path and not is_function:
        return
    kind = ("method" if owner not in ("", "module") else "function") if is_function else "constant"
    name = (target.text or b"").decode(errors="replace")[:80]
    yield Definition(name, kind, node.start_point[0] + 1, node.end_point[0] + 1, ".".join(path))
