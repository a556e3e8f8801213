"""Configuration: settings from the environment and the command line, and the state directory."""

from rota.config.settings import Settings
from rota.config.state_dir import RunningServer, StateDir

__all__ = ["RunningServer", "Settings", "StateDir"]
