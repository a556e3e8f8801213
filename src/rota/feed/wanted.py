"""Which events a follower wants."""

from dataclasses import dataclass

from rota.model.events import Event


@dataclass(frozen=True, slots=True)
class Wanted:
    types: tuple[str, ...] = ()
    work_item_id: str | None = None
    project_id: str | None = None
    agent: str | None = None

    def holds(self, event: Event) -> bool:
        return (
            (not self.types or event.type in self.types)
            and self.work_item_id in (None, event.work_item_id)
            and self.project_id in (None, event.project_id)
            and self.agent in (None, event.agent)
        )

    @property
    def selects(self) -> bool:
        """Whether the log itself can leave out unwanted events."""
        return bool(self.types) or self.work_item_id is not None


EVERYTHING = Wanted()
