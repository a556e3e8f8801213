"""Configuration: settings from the environment and the command line, and the state directory."""

from rota.config.settings import LEDGER, Settings
from rota.config.state_dir import RunningServer, StateDir

__all__ = ["LEDGER", "RunningServer", "Settings", "StateDir"]
