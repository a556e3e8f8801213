"""How our labels look in a repository where they are created."""

from rota.claims.labels import DO_NOT_PICKUP, LIFECYCLE_LABELS, MANAGED, NEEDS_SCOPE, LabelSet

GREY = "ededed"

_OURS = [
    *LIFECYCLE_LABELS,
    (LabelSet().failed, "b60205", "An agent gave up; see its report"),
    (MANAGED, "c5def5", "Agents have worked here; keeps it in the sweep"),
    (DO_NOT_PICKUP, "d93f0b", "Agents stay away"),
    (NEEDS_SCOPE, "d4c5f9", "A person has to say first what is wanted"),
]
# By name in lower case: colour and description.
LOOKS = {name.lower(): (colour, meaning) for name, colour, meaning in _OURS}
