"""Gitea and Forgejo as trackers: their issues, labels and comments."""

from rota.sources.gitea.errors import GiteaAPIError, GiteaAuthError
from rota.sources.gitea.tracker import GiteaTracker

__all__ = ["GiteaAPIError", "GiteaAuthError", "GiteaTracker"]
