"""Owns the proof that a passage names the lines it stands on, and that what code defines is found in each language."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.engines.extract.chunk import chunk_markdown, chunk_text
from holdfast.engines.extract.code import chunk_code, parse
from holdfast.engines.extract.lines import NumberedPassage, number, number_markdown
from holdfast.engines.extract.symbols import definitions
from tests.support.properties import examples

_ANY_TEXT = st.text(st.sampled_from("ab é.!?\n\t#-=`~漢 "), max_size=600)


def _stand(text: str, passages: list[NumberedPassage]) -> None:
    lines = text.split("\n")
    last = 1
    for passage in passages:
        assert 1 <= passage.start_line <= passage.end_line <= len(lines)
        assert last <= passage.start_line
        last = passage.start_line
        covered = "".join("".join(lines[passage.start_line - 1 : passage.end_line]).split())
        assert "".join(passage.text.split()) in covered


@examples(200)
@given(_ANY_TEXT)
def test_passages_of_any_text_stand_on_their_lines(text: str) -> None:
    _stand(text, list(number(text, chunk_text(text))))
    _stand(text, list(number(text, chunk_code(text, None))))
    _stand(text, list(number(text, chunk_code(text, "python"))))


@examples(200)
@given(_ANY_TEXT)
def test_markdown_is_cut_the_same_with_lines_and_without(text: str) -> None:
    passages = list(number_markdown(text))
    assert [(each.text, each.heading) for each in passages] == [
        (each.text, each.heading) for each in chunk_markdown(text) if each.text.strip()
    ]
    _stand(text, passages)


@pytest.mark.parametrize(
    ("language", "source", "expected"),
    [
        ("python", "@d\nclass A:\n    def m(self): ...\nX = 1\n", ["class A", "method A.m", "constant X"]),
        ("javascript", "export const f = () => 1;\nclass A { m() {} }\n", ["function f", "class A", "method A.m"]),
        ("typescript", "interface I {}\ntype T = 1;\nenum E {}\n", ["interface I", "type T", "enum E"]),
        ("tsx", "export function App() { return <a/> }\n", ["function App"]),
        ("go", "package p\ntype S struct{}\nfunc (s *S) M() {}\nfunc F() {}\n", ["type S", "method S.M", "function F"]),
        ("rust", "struct A;\nimpl A { fn f() {} }\nmod m { fn g() {} }\n", "struct A|method A.f|module m|function m.g"),
        ("java", "class A { A() {} void m() {} }\n", ["class A", "method A.A", "method A.m"]),
        ("c", "struct s { int a; };\nint *f(int x) { return 0; }\n", ["struct s", "function f"]),
        ("cpp", "namespace n { class A {}; }\nvoid A::m() {}\n", ["module n", "class n.A", "method A.m"]),
        ("csharp", "namespace N { class A { void M() {} } }\n", ["module N", "class N.A", "method N.A.M"]),
        ("ruby", "module M\n  class A\n    def m; end\n  end\nend\n", ["module M", "class M.A", "method M.A.m"]),
        ("php", "<?php\nclass A { function m() {} }\nfunction f() {}\n", ["class A", "method A.m", "function f"]),
        ("bash", "f() { echo; }\n", ["function f"]),
        ("swift", "struct S {\n  func m() {}\n}\nfunc f() {}\n", ["struct S", "method S.m", "function f"]),
        ("kotlin", "class A {\n    fun m() {}\n}\nfun f() {}\n", ["class A", "method A.m", "function f"]),
    ],
)
def test_what_a_file_defines_is_found_by_name(language: str, source: str, expected: list[str] | str) -> None:
    tree = parse(source.encode(), language)
    assert tree is not None
    found = [f"{each.kind} {each.container}{'.' if each.container else ''}{each.name}" for each in definitions(tree)]
    assert found == (expected.split("|") if isinstance(expected, str) else expected)


def test_a_definition_names_its_lines() -> None:
    tree = parse(b"\n\ndef f():\n    pass\n\n\nclass A:\n    x = 1\n", "python")
    assert tree is not None
    assert [(each.name, each.start_line, each.end_line) for each in definitions(tree)] == [("f", 3, 4), ("A", 7, 8)]
