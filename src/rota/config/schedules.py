"""The settings of a schedule."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from rota.config.scalars import Cron, Lax, Prompt, SecretName, Span, Switch, Zone
from rota.config.sources import AnySource, Section

# Read as a mapping and checked separately: an agent's `repo` may still have to be filled in.
WorkSource = Annotated[
    dict[str, Any], BeforeValidator(lambda given: given, json_schema_input_type=AnySource)
]


class ScheduleConfig(Section):
    """When an agent wakes, and what for."""

    type: Literal["interval", "cron", "webhook", "chat"]
    interval: Span | None = None
    cron: Cron | None = None
    timezone: Zone = "UTC"
    jitter_percent: Annotated[float, Lax] = Field(0.0, ge=0, le=10)
    catch_up: Literal["one", "none", "all"] = "one"
    prompt: Prompt | None = None
    work_source: WorkSource | None = None
    enabled: Switch = True
    resume_session: Switch | None = None
    timeout: Span | None = None
    secret_env: SecretName | None = None

    @model_validator(mode="after")
    def _times_fit_the_type(self) -> Self:
        for kind, said, example in (
            ("interval", self.interval, "5m"),
            ("cron", self.cron, "'0 9 * * 1-5'"),
        ):
            if self.type == kind and said is None:
                raise ValueError(f"'{kind}' is missing; write for example {kind}: {example}")
            if self.type != kind and said is not None:
                raise ValueError(f"'{kind}' belongs to schedules of type {kind}, not {self.type}")
        if self.secret_env is not None and self.type not in ("webhook", "chat"):
            raise ValueError(
                f"'secret_env' is for schedules of type webhook or chat, not {self.type}"
            )
        return self
