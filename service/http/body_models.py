"""Pydantic faces of the bodies of raw routes, made from the field tables. No tensor passes through a model."""

from collections.abc import Sequence
from types import GenericAlias
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, create_model

from service.bodies import GROUPS_BODY, PLAN_BODY, POOL_BODY, SCATTER_BODY, STEP_BODY
from service.spec import (
    INTEGER_RANGE,
    OBJECT_NAME_PATTERN,
    PLAN_OUTPUTS,
    Dtype,
    FieldSpec,
    FlagSpec,
    ObjectSpec,
    ObjectsSpec,
    OutputSpec,
    ScalarSpec,
    TensorSpec,
    TextSpec,
)


def whole(pattern: str) -> str:
    """``pattern`` as JSON Schema takes it, which looks anywhere in a string."""
    return f"^{pattern}$"


def _integer(dtype: Dtype, minimum: int | None = None) -> Any:
    smallest, largest = INTEGER_RANGE[dtype]
    smallest = smallest if minimum is None else minimum
    return Annotated[int, Field(ge=smallest, le=largest, json_schema_extra={"format": dtype})]


def _field(spec: FieldSpec, model: str) -> Any:
    """The field of a ``model`` that stands for ``spec``."""
    if isinstance(spec, ScalarSpec):
        return (
            _integer(spec.dtype, spec.minimum) | None,
            Field(spec.default, description=f"{spec.dtype}. {spec.sentence}"),
        )
    if isinstance(spec, TextSpec):
        return (
            Annotated[str, StringConstraints(pattern=whole(spec.pattern))] | None,
            Field(None, description=spec.sentence),
        )
    if isinstance(spec, FlagSpec):
        return (bool | None, Field(spec.default, description=spec.sentence))
    if isinstance(spec, TensorSpec):
        return _tensor_field(spec)
    inner = body_model(f"{model}{spec.name.title().replace('_', '')}", spec.fields, spec.sentence)
    if isinstance(spec, ObjectSpec):
        kind: Any = inner if spec.required else inner | None
        return (kind, Field(description=spec.sentence) if spec.required else Field(None, description=spec.sentence))
    return _objects_field(spec, inner)


def _tensor_field(spec: TensorSpec) -> Any:
    kind = _integer(spec.dtype)
    for _ in spec.axes:
        kind = GenericAlias(list, kind)
    description = f"{spec.shape_text}. {spec.sentence}"
    if spec.required_unless:
        return (
            kind | None,
            Field(None, description=f"{description} Required unless `{spec.required_unless}` is given."),
        )
    return (
        (kind, Field(description=description)) if spec.required else (kind | None, Field(None, description=description))
    )


def _objects_field(spec: ObjectsSpec, inner: type[BaseModel]) -> Any:
    named = GenericAlias(dict, (Annotated[str, StringConstraints(pattern=whole(OBJECT_NAME_PATTERN))], inner))
    return (named, Field(description=spec.sentence, min_length=1, max_length=spec.most))


def _output_field(spec: OutputSpec) -> Any:
    integer = _integer("int64")
    kinds = {"array": GenericAlias(list, integer), "integer": integer, "boolean": bool, "string": str}
    return (kinds[spec.kind], Field(description=f"{spec.shape_text}. {spec.sentence}"))


def body_model(name: str, fields: Sequence[FieldSpec], sentence: str) -> type[BaseModel]:
    """The face of a body that holds ``fields`` and nothing else."""
    return create_model(
        name,
        __config__=ConfigDict(extra="forbid", title=name),
        __doc__=sentence,
        **{field.name: _field(field, name) for field in fields},
    )


_SIGNATURE = ("device", "backend")
_POOL_VERSION: Any = (
    _integer("int64") | None,
    Field(None, description="int64. Version of the pool that the plan was made over; only with a pool."),
)
_PLAN = {spec.name: _output_field(spec) for spec in PLAN_OUTPUTS}
_OFFSETS = {spec.name: _output_field(spec) for spec in PLAN_OUTPUTS if not spec.entries}

PlanRequest = body_model("PlanRequest", PLAN_BODY, "A batch and its tables, or the pool that has them.")
PlanGroupsRequest = body_model("PlanGroupsRequest", GROUPS_BODY, "A batch, its tables, and the groups to plan it for.")
PoolRequest = body_model("PoolRequest", POOL_BODY, "The tables of a pool.")
ScatterRequest = body_model("ScatterRequest", SCATTER_BODY, "What changes in a pool, all of it or nothing.")
StepRequest = body_model("StepRequest", STEP_BODY, "What changes in a pool, and the batch to plan then.")

PlanResponse: type[BaseModel] = create_model(
    "PlanResponse", __doc__="A plan with its verify entries.", **_PLAN, pool_version=_POOL_VERSION
)
PlanOffsetsResponse: type[BaseModel] = create_model(
    "PlanOffsetsResponse", __doc__="A plan without its verify entries.", **_OFFSETS, pool_version=_POOL_VERSION
)
GroupPlan: type[BaseModel] = create_model(
    "GroupPlan",
    __doc__="The plan of one group.",
    **{name: field for name, field in _PLAN.items() if name not in _SIGNATURE},
)
_BY_GROUP: Any = GenericAlias(dict, (str, GroupPlan))
PlanGroupsResponse: type[BaseModel] = create_model(
    "PlanGroupsResponse",
    __doc__="A plan for each group, under the names of the request.",
    groups=(_BY_GROUP, Field(description="The plans by group.")),
    **{name: _PLAN[name] for name in _SIGNATURE},
    pool_version=_POOL_VERSION,
)
