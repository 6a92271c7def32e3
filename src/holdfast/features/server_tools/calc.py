"""Owns the tool `xerotier.calc.evaluate`."""

from pydantic import BaseModel, ConfigDict, Field

from holdfast.core.access import RUN
from holdfast.core.tools.tool import Annotations, AnyTool, Tool, ToolCall
from holdfast.engines import calculator


class EvaluateInput(BaseModel):
    model_config = ConfigDict(extra="forbid")

    # The engine checks the length, so that every refusal names a position.
    expression: str = Field(description="For example 10000 * (1 + 0.05)^3; at most 1,000 characters.")


class EvaluateOutput(BaseModel):
    expression: str
    result: int | float
    exact: str | None = Field(None, description="All digits of an integer that a JSON number would round.")


def tools() -> list[AnyTool]:
    """The calculator, which needs nothing."""
    return [
        Tool(
            name="xerotier.calc.evaluate",
            title="Calculate",
            description=(
                "Compute a formula of plain numbers instead of guessing. Knows + - * / ^ ( ), "
                "sqrt, log (base 10), ln, sin, cos, tan (radians), abs, floor, ceil, round, min, max, pi and e. "
                "Example: sqrt(144) + 2^3."
            ),
            input=EvaluateInput,
            output=EvaluateOutput,
            handler=_evaluate,
            annotations=Annotations(read_only=True, idempotent=True),
            access=RUN,
            text=_text,
        )
    ]


async def _evaluate(call: ToolCall, given: EvaluateInput) -> EvaluateOutput:
    answer = calculator.evaluate(given.expression)
    return EvaluateOutput(expression=answer.expression, result=answer.result, exact=answer.exact)


def _text(output: EvaluateOutput) -> str:
    answer = calculator.Calculated(output.expression, output.result, output.exact)
    return f"{output.expression.strip()} = {answer.digits}"
