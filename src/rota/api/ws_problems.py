"""Errors of a WebSocket or its frames, whatever the ledger would say to them."""

from rota.api.problems import FaceError


class BadFrame(FaceError):
    code = "bad_frame"


class UpgradeRequired(FaceError):
    code = "upgrade_required"
    status = 426


class TooManyRequests(FaceError):
    code = "too_many_requests"
    status = 429


class TooManyConnections(FaceError):
    code = "too_many_connections"
    status = 503
