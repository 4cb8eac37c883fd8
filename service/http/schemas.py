"""Pydantic faces of what the service reads and answers, made from the field table. No tensor passes through a model."""

from types import GenericAlias
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from service.spec import INTEGER_RANGE, PLAN_INPUTS, PLAN_OUTPUTS, Dtype, OutputSpec, ScalarSpec, TensorSpec


def _integer(dtype: Dtype, minimum: int | None = None) -> Any:
    smallest, largest = INTEGER_RANGE[dtype]
    smallest = smallest if minimum is None else minimum
    return Annotated[int, Field(ge=smallest, le=largest, json_schema_extra={"format": dtype})]


def _input_field(spec: TensorSpec | ScalarSpec) -> Any:
    if isinstance(spec, ScalarSpec):
        kind = _integer(spec.dtype, spec.minimum)
        return (kind | None, Field(spec.default, description=f"{spec.dtype}. {spec.sentence}"))
    kind = _integer(spec.dtype)
    for _ in spec.axes:
        kind = GenericAlias(list, kind)
    description = f"{spec.shape_text}. {spec.sentence}"
    if spec.required:
        return (kind, Field(description=description))
    return (kind | None, Field(None, description=description))


def _output_field(spec: OutputSpec) -> Any:
    integer = _integer("int64")
    kinds = {"array": GenericAlias(list, integer), "integer": integer, "boolean": bool, "string": str}
    return (kinds[spec.kind], Field(description=f"{spec.shape_text}. {spec.sentence}"))


PlanRequest: type[BaseModel] = create_model(
    "PlanRequest",
    __config__=ConfigDict(extra="forbid", title="PlanRequest"),
    __doc__="A batch and its tables.",
    **{spec.name: _input_field(spec) for spec in PLAN_INPUTS},
)
PlanResponse: type[BaseModel] = create_model(
    "PlanResponse",
    __doc__="A plan with its verify entries.",
    **{spec.name: _output_field(spec) for spec in PLAN_OUTPUTS},
)
PlanOffsetsResponse: type[BaseModel] = create_model(
    "PlanOffsetsResponse",
    __doc__="A plan without its verify entries.",
    **{spec.name: _output_field(spec) for spec in PLAN_OUTPUTS if not spec.entries},
)


class Problem(BaseModel):
    """An error, as application/problem+json (RFC 9457)."""

    type: str = Field(description="Page of the error: /errors/{code}.")
    title: str = Field(description="What is wrong, in general.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(
        description="What is wrong, in this request. For a refused batch exactly the planner's message."
    )
    error: str = Field(description="The same as detail.")
    code: str = Field(description="Stable code of the error.")
    request_id: str = Field(description="Id of the request, also in the x-request-id header.")


class Alive(BaseModel):
    """The process answers."""

    status: Literal["alive"] = Field(default="alive", description="Always alive.")


class Ready(BaseModel):
    """The service is warmed up and takes plans."""

    status: Literal["ready"] = Field(
        default="ready", description="Always ready; when it is not, the answer is a 503 problem."
    )


class SettingInfo(BaseModel):
    """One setting as it is in force."""

    name: str = Field(description="Name of the setting.")
    variable: str = Field(description="Environment variable that sets it.")
    value: str | int | float = Field(description="Value in force.")
    meaning: str = Field(description="What it does.")


class Info(BaseModel):
    """What is running, where, and within which limits."""

    service: str = Field(description="Name of the service.")
    version: str = Field(description="Version of the service.")
    device: str = Field(description="Device of every tensor, for example cuda:0.")
    device_description: str = Field(description="The hardware behind it.")
    backend: Literal["triton", "host"] = Field(description="Code that computes plans: triton or host.")
    versions: dict[str, str] = Field(description="Versions of Python and of the packages that matter.")
    settings: list[SettingInfo] = Field(description="Every setting in force, the limits among them.")


class ErrorExample(BaseModel):
    """A request that meets the error, and the same request mended."""

    before: str = Field(description="What meets the error.")
    after: str = Field(description="The same, mended.")


class ErrorPage(BaseModel):
    """One error of the catalogue."""

    code: str = Field(description="Stable code, as in a problem.")
    status: int = Field(description="HTTP status it is answered with.")
    title: str = Field(description="What is wrong, in general.")
    template: str = Field(description="The message, with {placeholders}.")
    meaning: str = Field(description="What the rule protects.")
    trigger: str = Field(description="When it happens.")
    situations: list[str] = Field(description="Common situations in which it is met.")
    remedies: list[str] = Field(description="How to get rid of it.")
    example: ErrorExample = Field(description="The error met, and mended.")
    related: list[str] = Field(description="Codes of related errors.")


class ErrorList(BaseModel):
    """The whole catalogue."""

    errors: list[ErrorPage] = Field(description="Every error, in a stable order.")
