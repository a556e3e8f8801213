"""Turns an agent's configuration into its specification: complete, and with absolute paths."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any

from rota.config.agents import AgentConfig
from rota.config.hooks import HookConfig
from rota.config.limits import BudgetConfig, RunLimits
from rota.config.schedules import ScheduleConfig
from rota.model.fleet import (
    AgentSpec,
    Breaker,
    Budget,
    Hook,
    Keep,
    Limits,
    PromptBy,
    Retry,
    RunSettings,
    RuntimeKind,
    Workspace,
)
from rota.model.schedules import CatchUp, Schedule, ScheduleType

# How long a hook may take, unless it sets its own timeout.
_PATIENCE = {"shell": timedelta(seconds=30), "webhook": timedelta(seconds=10)}


def agent_spec(config: AgentConfig, name: str, directory: Path) -> AgentSpec:
    return AgentSpec(
        name=name,
        description=config.description,
        default_prompt=config.default_prompt,
        work_source=plain(config.work_source),
        schedules=tuple(
            _schedule(name, called, one, config.webhook_secret_env)
            for called, one in config.schedules.items()
        ),
        max_concurrent=config.instances.max_concurrent,
        run=_run_settings(config, directory),
        retry=Retry(config.retry.max_attempts, config.retry.backoff, config.retry.max_backoff),
        budget=budget(config.budget),
        breaker=Breaker(config.breaker.failures, config.breaker.cooldown),
        pause_on_usage_limit=config.pause_on_usage_limit,
        trusted=config.trusted,
        max_in_review=config.max_in_review,
        review_gate=config.review_gate,
    )


def _run_settings(config: AgentConfig, directory: Path) -> RunSettings:
    runtime, session = config.runtime, config.session
    return RunSettings(
        runtime=RuntimeKind(runtime.type),
        command=runtime.command,
        prompt_by=PromptBy(runtime.prompt),
        callable=runtime.callable,
        arguments=(*_own_arguments(config), *runtime.arguments),
        working_directory=directory,
        workspace=Workspace(config.workspace),
        keep_worktree=Keep(config.keep_worktree),
        base_branch=config.base_branch,
        system_prompt=_system_prompt(config),
        model=config.model or session.model,
        max_turns=config.max_turns or session.max_turns,
        permission_mode=config.permission_mode,
        allowed_tools=config.tools.allow,
        denied_tools=config.tools.deny,
        mcp_servers={
            one: server.model_dump(mode="json", exclude_defaults=True)
            for one, server in config.mcp_servers.items()
        },
        resume_session=session.resume,
        timeout=config.timeout or session.timeout or RunSettings().timeout,
        env=dict(config.env),
        env_pass=config.env_pass,
        output_limit=config.output_limit,
        after_run=_hooks("after_run", config.hooks.after_run),
        on_error=_hooks("on_error", config.hooks.on_error),
    )


def _own_arguments(config: AgentConfig) -> tuple[str, ...]:
    """Arguments for settings that only Claude's program has."""
    if config.runtime.type != "claude":
        return ()
    found: list[str] = []
    if config.tools.only is not None:
        found += ["--tools", ",".join(config.tools.only)]
    if config.setting_sources is not None:
        found += ["--setting-sources", ",".join(config.setting_sources)]
    return tuple(found)


def _system_prompt(config: AgentConfig) -> str | None:
    who = config.identity
    said = [
        f"You are {who.name}." if who.name else None,
        f"Your role: {who.role}." if who.role else None,
        f"Your manner: {who.personality}." if who.personality else None,
    ]
    identity = " ".join(one for one in said if one)
    return "\n\n".join(one for one in (identity, config.system_prompt) if one) or None


def _schedule(agent: str, name: str, config: ScheduleConfig, secret: str | None) -> Schedule:
    return Schedule(
        agent=agent,
        name=name,
        type=ScheduleType(config.type),
        interval=config.interval,
        cron=config.cron,
        timezone=config.timezone,
        jitter_percent=config.jitter_percent,
        catch_up=CatchUp(config.catch_up),
        enabled=config.enabled,
        prompt=config.prompt,
        work_source=plain(config.work_source),
        resume_session=config.resume_session,
        timeout=config.timeout,
        secret_env=config.secret_env or (secret if config.type == "webhook" else None),
    )


def _hooks(kind: str, configs: tuple[HookConfig, ...]) -> tuple[Hook, ...]:
    return tuple(_hook(f"{kind}-{number}", one) for number, one in enumerate(configs, 1))


def _hook(name: str, config: HookConfig) -> Hook:
    return Hook(
        name=config.name or name,
        command=config.command,
        url=config.url,
        headers=dict(config.headers),
        secret_env=config.secret_env,
        timeout=config.timeout or _PATIENCE[config.type],
        continue_on_error=config.continue_on_error,
        when=config.when,
    )


def budget(config: BudgetConfig) -> Budget:
    per_day = config.per_day
    return Budget(_limits(config.per_run), _limits(per_day, per_day.runs), config.timezone)


def _limits(config: RunLimits, runs: int | None = None) -> Limits:
    return Limits(runs, config.wall_time, config.tokens, config.usd)


def plain(value: Any) -> Any:
    """As JSON values."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str | Path | date):
        return str(value)
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value
