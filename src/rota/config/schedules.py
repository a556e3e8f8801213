"""The settings of a schedule."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from rota.config.scalars import Cron, Prompt, SecretName, Span, Zone
from rota.config.sources import AnySource, Section
from rota.config.variables import Lax, Switch

# Read as a mapping and checked separately: an agent's `repo` may still have to be filled in.
WorkSource = Annotated[
    dict[str, Any], BeforeValidator(lambda given: given, json_schema_input_type=AnySource)
]


class ScheduleConfig(Section):
    """When an agent wakes, and the prompt that it is given then."""

    type: Literal["interval", "cron", "webhook", "chat"] = Field(
        description="What wakes the agent. `interval` and `cron`: the clock. `webhook` and `chat`:"
        " a request or a message from outside."
    )
    interval: Span | None = Field(
        None,
        description="Of `interval`, required: the time from the end of one run to the next, for"
        " example `5m`.",
    )
    cron: Cron | None = Field(
        None,
        description="Of `cron`, required: five fields, for example `0 9 * * 1-5`, or `@hourly`,"
        " `@daily`, `@weekly`, `@monthly`, `@yearly`.",
    )
    timezone: Zone = Field(
        "UTC", description="The time zone of `cron`, for example `Europe/Berlin`."
    )
    jitter_percent: Annotated[float, Field(ge=0, le=10), Lax] = Field(
        0.0,
        description="0 to 10: wake up to this much later, chosen at random, so that agents do not"
        " all wake at once. Percent of the interval; of `cron`, percent of the time until the"
        " slot.",
    )
    catch_up: Literal["one", "none", "all"] = Field(
        "one",
        description="What happens to slots that passed while no server ran. `one`: the latest is"
        " run. `all`: each is run. `none`: none is run.",
    )
    prompt: Prompt | None = Field(
        None, description="What the agent is asked to do. Default: the agent's `default_prompt`."
    )
    work_source: WorkSource | None = Field(
        None, description="Where the work comes from. Default: the agent's `work_source`."
    )
    enabled: Switch = Field(True, description="`false`: the schedule wakes the agent by hand only.")
    resume_session: Switch | None = Field(
        None,
        description="`true`: continue the conversation of the run before. Default: `session.resume`"
        " of the agent.",
    )
    timeout: Span | None = Field(
        None,
        description="How long a run may take, for example `30m`. Default: the agent's `timeout`.",
    )
    secret_env: SecretName | None = Field(
        None,
        description="Of `webhook`: the environment variable with the secret that signs requests."
        " Default: the agent's `webhook_secret_env`.",
    )

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
        if self.secret_env is not None and self.type != "webhook":
            raise ValueError(f"'secret_env' is for schedules of type webhook, not {self.type}")
        return self
