"""Owns what counts as an answer to a model's question, and how the model reads it."""

from typing import Any

from holdfast.core.errors import FieldError, Invalid
from holdfast.core.text import jsontext
from holdfast.engines.llm.model import Json

_YES = frozenset({"yes", "true", "y"})
_NO = frozenset({"no", "false", "n"})
MAX_CHARACTERS = 100_000


def checked_answer(question: Json, answer: Any) -> Any:
    """The answer as the question's style wants it; Invalid with what would be right."""
    if answer is None or len(jsontext.dumps(answer)) > MAX_CHARACTERS:
        raise _wrong(f"write an answer of at most {MAX_CHARACTERS:,} characters")
    style = question.get("style")
    if style == "confirm":
        return _confirmed(answer)
    if style == "rating":
        return _rated(answer)
    if style == "form":
        return _filled(question, answer)
    return _chosen(question, answer)


def answer_text(answer: Any) -> str:
    """The answer as people read it in the chat."""
    if isinstance(answer, str):
        return answer
    if isinstance(answer, bool):
        return "Yes" if answer else "No"
    if isinstance(answer, list):
        return ", ".join(answer_text(each) for each in answer)
    if isinstance(answer, dict):
        return "\n".join(f"{key}: {answer_text(value)}" for key, value in answer.items())
    return jsontext.dumps(answer).decode()


def tool_message(call_id: str, answer: Any) -> Json:
    """The answer as the model's call gave it."""
    return {"role": "tool", "tool_call_id": call_id, "content": jsontext.dumps({"answer": answer}).decode()}


def _confirmed(answer: Any) -> bool:
    word = answer.strip().lower() if isinstance(answer, str) else ""
    if answer is True or word in _YES:
        return True
    if answer is False or word in _NO:
        return False
    raise _wrong("answer yes or no")


def _rated(answer: Any) -> int:
    word = answer.strip() if isinstance(answer, str) else str(answer)
    if word in ("1", "2", "3", "4", "5"):
        return int(word)
    raise _wrong("answer with a number from 1 to 5")


def _filled(question: Json, answer: Any) -> Json:
    if not isinstance(answer, dict):
        raise _wrong("answer with an object of the fields' keys and values")
    fields = {field["key"]: field for field in question.get("fields") or ()}
    unknown = [key for key in answer if key not in fields]
    if unknown:
        raise _wrong(f"there is no field {unknown[0][:80]!r}")
    for key, field in fields.items():
        if field.get("required") and answer.get(key) in (None, ""):
            raise _wrong(f"the field {key!r} must be filled")
    return answer


def _chosen(question: Json, answer: Any) -> Any:
    options = question.get("options") or []
    chosen = answer if isinstance(answer, list) else [answer]
    if not chosen or (len(chosen) > 1 and not question.get("multi_select")):
        raise _wrong("choose one answer")
    if not all(isinstance(each, (str, int, float)) for each in chosen):
        raise _wrong("write words, or a list of options")
    others = [each for each in chosen if each not in options]
    if options and others and not question.get("allow_free_text", True):
        raise _wrong(f"choose from {', '.join(map(str, options))}"[:500])
    return answer


def _wrong(problem: str) -> Invalid:
    return Invalid(f"The question cannot be answered so: {problem}.", fields=[FieldError("answer", problem)])
