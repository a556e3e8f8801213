"""The tracker's token: named in the configuration, read from the environment when needed."""

import re
from collections.abc import Mapping

from rota.sources.http.calls import Service

_FIT_FOR_A_HEADER = re.compile(r"[\x21-\x7e]+")


class Token:
    """Never stores the token: a replaced token is picked up, and no repr or log can show it."""

    def __init__(self, variable: str, environ: Mapping[str, str], service: Service) -> None:
        self.variable = variable
        self._environ = environ
        self._service = service

    def read(self) -> str:
        value = self._environ.get(self.variable, "").strip()
        if not value:
            raise self._service.no_token(
                f"there is no {self._service.name} token: set the environment variable"
                f" {self.variable}, or name another one in `auth.token_env`"
            )
        if not _FIT_FOR_A_HEADER.fullmatch(value):
            raise self._service.no_token(
                f"the environment variable {self.variable} holds no {self._service.name} token: it"
                " has white space or other characters inside; paste the token again"
            )
        return value

    def hide(self, text: str) -> str:
        """A tracker, or a proxy in front of it, may repeat what it was sent."""
        value = self._environ.get(self.variable, "").strip()
        return text.replace(value, "[hidden]") if value else text
