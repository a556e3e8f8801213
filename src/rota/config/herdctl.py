"""Files written for herdctl: its keys become ours, and ignored keys are reported.

Each layer is translated separately, before layers are merged, so that `allowed_tools` in the
defaults and `tools` in an agent mean the same setting.
"""

from typing import Any

from rota.config.mistakes import Findings
from rota.config.tree import Place, PlacedList, PlacedMap
from rota.model.work import NAME

NOT_OF_FLEETS = {
    "chat": "a bridge may pass messages on to schedules of type chat",
    "docker": "agents run as processes of this machine, in no container",
    "webhooks": "this server takes them at its own address",
    "working_directory": "each agent names its own, and nothing is cloned",
    "workspace": "each agent names its own, and nothing is cloned",
}
NOT_OF_AGENTS = {
    "chat": NOT_OF_FLEETS["chat"],
    "docker": "the agent runs as a process of this machine, in no container",
    "metadata_file": "hooks are told how the run ended, and no more",
    "self_scheduling": "schedules are changed in this file",
}
NOT_OF_THE_WEB = {
    "session_expiry_hours": "there are no conversations to expire",
    "open_browser": "the address is printed",
    "tool_results": "the log of a run holds all of it",
    "message_grouping": "the log of a run holds all of it",
}
NOT_OF_DIRECTORIES = ("auto_clone", "clone_depth", "default_branch")
NOT_OF_SCHEDULES = {"outputToFile": "the output of every run is kept"}
NOT_OF_SOURCES = {"cleanup_in_progress": "work of runs that have ended is always released"}
NOT_OF_HOOKS = {"method": "webhooks are sent by POST"}
UNSENT_HOOKS = ("discord", "slack")
# herdctl's names for the end of a run.
EVENTS = {
    "completed": ("succeeded", "partial"),
    "failed": ("failed",),
    "timeout": ("timed_out",),
    "cancelled": (),
}


def translated_fleet(given: PlacedMap, findings: Findings) -> PlacedMap:
    fleet = given.copied()
    _secret(fleet)
    _ignore(fleet, NOT_OF_FLEETS, findings)
    if isinstance(identity := fleet.get("fleet"), PlacedMap) and "web" in identity:
        fleet["fleet"] = identity = identity.copied()
        web, place = identity.take("web")
        _fill(fleet, "web", web, place)
    if isinstance(web := fleet.get("web"), PlacedMap):
        fleet["web"] = web = web.copied()
        _ignore(web, NOT_OF_THE_WEB, findings)
    if isinstance(defaults := fleet.get("defaults"), PlacedMap):
        fleet["defaults"] = translated_agent(defaults, findings)
    return fleet


def _secret(fleet: PlacedMap) -> None:
    """herdctl has one secret for all webhooks of the fleet; here it becomes a default of agents."""
    webhooks = fleet.get("webhooks")
    if not isinstance(webhooks, PlacedMap) or "secret_env" not in webhooks:
        return
    fleet["webhooks"] = webhooks = webhooks.copied()
    secret, place = webhooks.take("secret_env")
    defaults = fleet.get("defaults")
    defaults = defaults.copied() if isinstance(defaults, PlacedMap) else PlacedMap(place)
    _fill(defaults, "webhook_secret_env", secret, place)
    fleet.put("defaults", defaults, fleet.places.get("defaults", place))


def translated_agent(given: PlacedMap, findings: Findings) -> PlacedMap:
    agent = given.copied()
    _ignore(agent, NOT_OF_AGENTS, findings)
    if "name" in agent:
        agent["name"] = small(agent["name"], agent.places["name"], findings)
    _directory(agent, findings)
    _permissions(agent)
    _tools(agent)
    _runtime(agent)
    _source(agent, findings)
    if isinstance(schedules := agent.get("schedules"), PlacedMap):
        agent["schedules"] = _schedules(schedules, findings)
    if isinstance(hooks := agent.get("hooks"), PlacedMap):
        agent["hooks"] = _hooks(hooks, findings)
    return agent


def small(name: Any, place: Place, findings: Findings) -> Any:
    if isinstance(name, str) and not NAME.fullmatch(name) and NAME.fullmatch(name.lower()):
        findings.warning(place, f"is called '{name.lower()}' here: names have small letters")
        return name.lower()
    return name


def _ignore(section: PlacedMap, keys: dict[str, str], findings: Findings) -> None:
    for name, instead in keys.items():
        if name in section:
            value, place = section.take(name)
            if not _is_off(value):
                findings.warning(place, f"is understood, and not acted on: {instead}")


def _is_off(value: Any) -> bool:
    """Switched off or empty: no warning is needed."""
    return (
        value is None or value == {} or (isinstance(value, dict) and value.get("enabled") is False)
    )


def _fill(section: PlacedMap, name: str, value: Any, place: Place) -> None:
    """Our own key wins over its translation."""
    if name not in section:
        section.put(name, value, place)


def _directory(agent: PlacedMap, findings: Findings) -> None:
    if "workspace" in agent and agent["workspace"] not in ("shared", "worktree"):
        _fill(agent, "working_directory", *agent.take("workspace"))
    directory = agent.get("working_directory")
    if not isinstance(directory, PlacedMap) or "root" not in directory:
        return
    given = [name for name in NOT_OF_DIRECTORIES if name in directory]
    if given and not (given == ["auto_clone"] and directory["auto_clone"] is False):
        findings.warning(
            agent.places["working_directory"],
            f"{', '.join(given)}: understood, and not acted on: nothing is cloned",
        )
    agent.put("working_directory", directory["root"], directory.places["root"])


def _permissions(agent: PlacedMap) -> None:
    """The old form, before `permission_mode` and `allowed_tools` were separate keys."""
    if not isinstance(agent.get("permissions"), PlacedMap):
        return
    given, place = agent.take("permissions")
    for theirs, ours in (
        ("mode", "permission_mode"),
        ("allowed_tools", "allowed_tools"),
        ("denied_tools", "denied_tools"),
    ):
        if theirs in given:
            _fill(agent, ours, given[theirs], given.places[theirs])
    bash = given.get("bash")
    if isinstance(bash, PlacedMap):
        _commands(agent, "allowed_tools", bash.get("allowed_commands"), "Bash({} *)", place)
        _commands(agent, "denied_tools", bash.get("denied_patterns"), "Bash({})", place)


def _commands(agent: PlacedMap, name: str, words: Any, pattern: str, place: Place) -> None:
    known = agent.get(name) or []
    if isinstance(words, list) and isinstance(known, list):
        tools = PlacedList(place)
        for one in [*known, *(pattern.format(word) for word in words)]:
            tools.add(one, place)
        agent.put(name, tools, place)


def _tools(agent: PlacedMap) -> None:
    only = isinstance(agent.get("tools"), PlacedList)
    for theirs, ours in (("tools", "only"), ("allowed_tools", "allow"), ("denied_tools", "deny")):
        if theirs not in agent or (theirs == "tools" and not only):
            continue
        value, place = agent.take(theirs)
        tools = agent.get("tools")
        tools = tools.copied() if isinstance(tools, PlacedMap) else PlacedMap(place)
        _fill(tools, ours, value, place)
        agent.put("tools", tools, agent.places.get("tools", place))


def _runtime(agent: PlacedMap) -> None:
    """As a mapping, so that layers can be merged."""
    runtime = agent.get("runtime")
    if isinstance(runtime, str):
        place = agent.places["runtime"]
        section = PlacedMap(place)
        section.put("type", "claude" if runtime in ("sdk", "cli") else runtime, place)
        agent["runtime"] = section


def _source(section: PlacedMap, findings: Findings) -> None:
    if isinstance(source := section.get("work_source"), PlacedMap):
        section["work_source"] = source = source.copied()
        _ignore(source, NOT_OF_SOURCES, findings)


def _schedules(given: PlacedMap, findings: Findings) -> PlacedMap:
    schedules = PlacedMap(given.place)
    for name, one in given.items():
        place = given.places[name]
        called = small(name, place, findings)
        if called in schedules:
            findings.mistake(place, f"there is a schedule '{called}' already")
        schedules.put(called, _schedule(one, findings), place)
    return schedules


def _schedule(given: Any, findings: Findings) -> Any:
    if not isinstance(given, PlacedMap):
        return given
    schedule = given.copied()
    _ignore(schedule, NOT_OF_SCHEDULES, findings)
    _source(schedule, findings)
    if "expression" in schedule:
        said, place = schedule.take("expression")
        if "cron" in schedule:
            findings.mistake(
                place, "'expression' is another word for 'cron', which is here, too; keep one"
            )
        _fill(schedule, "cron", said, place)
    return schedule


def _hooks(given: PlacedMap, findings: Findings) -> PlacedMap:
    hooks = given.copied()
    for name in ("after_run", "on_error"):
        if isinstance(hooks.get(name), PlacedList):
            kept = PlacedList(hooks[name].place)
            for one, place in hooks[name].placed():
                hook = _hook(one, place, findings)
                if hook is not None:
                    kept.add(hook, place)
            hooks[name] = kept
    return hooks


def _hook(given: Any, place: Place, findings: Findings) -> Any:
    if not isinstance(given, PlacedMap):
        return given
    if given.get("type") in UNSENT_HOOKS:
        findings.warning(
            place, f"the hook is left out: {given['type']} is not spoken here; write a webhook"
        )
        return None
    if isinstance(given.get("when"), str):
        findings.warning(
            given.places["when"], "the hook is left out: conditions on metadata are not evaluated"
        )
        return None
    hook = given.copied()
    if hook.get("method") == "POST":
        hook.take("method")
    _ignore(hook, NOT_OF_HOOKS, findings)
    if not _events(hook, findings):
        return None
    if isinstance(timeout := hook.get("timeout"), int) and not isinstance(timeout, bool):
        hook["timeout"] = f"{-(-timeout // 1000)}s"  # herdctl's timeouts are in milliseconds
    return hook


def _events(hook: PlacedMap, findings: Findings) -> bool:
    """False: it names only events that hooks are never told of, so the hook is left out. An empty
    list of statuses would mean all of them."""
    if not isinstance(hook.get("on_events"), PlacedList):
        return True
    events, place = hook.take("on_events")
    statuses = PlacedList(place)
    for event, spot in events.placed():
        known = EVENTS.get(event) if isinstance(event, str) else None
        if known == ():
            findings.warning(
                spot, f"is understood, and not acted on: no hook hears of a {event} run"
            )
        for status in (event,) if known is None else known:
            statuses.add(status, spot)
    _fill(hook, "when", statuses, place)
    return bool(statuses) or not events
