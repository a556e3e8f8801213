"""The verbs about projects, agents, idempotency keys and API tokens."""

import json
from collections.abc import Mapping, Sequence

from rota.model.access import ApiToken
from rota.model.agents import Agent, AgentLoad
from rota.model.work import Project
from rota.storage.primitives import Primitives
from rota.storage.rows import agent_of, encode, token_of


class RecordStatements(Primitives):
    # projects

    def insert_project(self, project: Project) -> None:
        self._do(
            "insert_project",
            id=project.id,
            name=project.name,
            external_ref=project.external_ref,
            created_at=project.created_at,
            updated_at=project.updated_at,
        )

    def get_project(self, project_id: str) -> Project | None:
        row = self._one("get_project", id=project_id)
        return Project(*row) if row else None

    def list_projects(self, after: str | None, limit: int) -> list[Project]:
        return [
            Project(*row) for row in self._rows("list_projects", after=after or "", limit=limit)
        ]

    def update_project(
        self, project_id: str, changes: Mapping[str, str | None], now: str
    ) -> Project | None:
        row = self._one(
            "update_project",
            id=project_id,
            name=changes.get("name"),
            external_ref=changes.get("external_ref"),
            keep_ref=int("external_ref" not in changes),
            now=now,
        )
        return Project(*row) if row else None

    # agents

    def get_agent(self, name: str) -> Agent | None:
        row = self._one("get_agent", name=name)
        return agent_of(row) if row else None

    def put_agent(self, agent: Agent) -> None:
        self._do(
            "put_agent",
            name=agent.name,
            max_concurrent=agent.max_concurrent,
            paused=int(agent.paused),
            max_in_review=agent.max_in_review,
            now=agent.updated_at,
        )

    def agent_loads(self) -> list[AgentLoad]:
        return [AgentLoad(agent_of(row[:6]), *row[6:]) for row in self._rows("agent_loads")]

    def busy_slots(self, agent: str) -> set[int]:
        return {row[0] for row in self._rows("busy_slots", agent=agent)}

    def on_hands(self, agent: str) -> tuple[int, int]:
        in_review, in_progress = self._rows("on_hands", agent=agent)[0]
        return in_review, in_progress

    # idempotency keys

    def find_key(self, key: str) -> tuple[str, list[str]] | None:
        row = self._one("find_key", key=key)
        return (row[0], json.loads(row[1])) if row else None

    def keep_key(self, key: str, request_hash: str, item_ids: Sequence[str], now: str) -> bool:
        return bool(
            self._rows(
                "keep_key",
                key=key,
                request_hash=request_hash,
                item_ids=encode(list(item_ids)),
                now=now,
            )
        )

    def forget_keys(self, before: str) -> int:
        return self._changed("forget_keys", before=before)

    # API tokens

    def insert_token(self, token: ApiToken, secret_hash: str) -> None:
        self._do(
            "insert_token",
            id=token.id,
            name=token.name,
            secret_hash=secret_hash,
            scopes=encode(token.scopes),
            created_at=token.created_at,
            expires_at=token.expires_at,
        )

    def find_token(self, secret_hash: str) -> ApiToken | None:
        row = self._one("find_token", secret_hash=secret_hash)
        return token_of(row) if row else None

    def list_tokens(self) -> list[ApiToken]:
        return [token_of(row) for row in self._rows("list_tokens")]

    def revoke_token(self, token_id: str, now: str) -> bool:
        return bool(self._rows("revoke_token", id=token_id, now=now))

    def touch_token(self, token_id: str, now: str) -> None:
        self._do("touch_token", id=token_id, now=now)

    def has_tokens(self) -> bool:
        return bool(self._rows("has_tokens"))
