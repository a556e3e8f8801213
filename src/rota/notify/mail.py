"""E-mail by SMTP: in a thread, to a checked address, and with a time limit."""

import asyncio
import contextlib
import smtplib
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP

from rota.config.channels import EmailChannel
from rota.model.errors import DeliveryFailed
from rota.notify.messages import Message, one_line
from rota.notify.secrets import Secrets
from rota.notify.web import DELIVERY
from rota.runner.addresses import Allowed, IPAddress, unreached, vetted

_PORTS = {"starttls": 587, "tls": 465, "none": 25}
ROOM = 20_000


async def mail(channel: EmailChannel, message: Message, secrets: Secrets, allowed: Allowed) -> str:
    port = channel.port or _PORTS[channel.security]
    login = _login(channel, secrets)
    seconds = channel.timeout.total_seconds()
    session = Session(channel, await vetted(channel.host, port, allowed), port, seconds)
    try:
        async with asyncio.timeout(seconds):
            return await asyncio.to_thread(session.send, letter(channel, message), login)
    except TimeoutError:
        raise DeliveryFailed(f"no answer within {seconds:g} s") from None
    finally:
        session.cut()  # a server that sends a byte now and then would block the thread for ever


def _login(channel: EmailChannel, secrets: Secrets) -> tuple[str, str] | None:
    if channel.username_env is None or channel.password_env is None:
        return None
    return secrets.value(channel.username_env), secrets.value(channel.password_env)


def letter(channel: EmailChannel, message: Message) -> EmailMessage:
    """Titles are one line; the policy would refuse a line break in a header anyway."""
    mail = EmailMessage(policy=SMTP)
    mail["From"] = Address("Rota", addr_spec=channel.sender)
    mail["To"] = ", ".join(channel.to)
    mail["Subject"] = f"[Rota] {message.title[:200]}"
    # The same at every attempt, so that a mailbox shows a repeated mail once.
    mail["Message-ID"] = f"<{message.id.replace(':', '.')}@{channel.sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail[DELIVERY] = message.id
    mail.set_content(message.text(ROOM))
    return mail


@dataclass
class Session:
    """One SMTP session."""

    channel: EmailChannel
    addresses: Sequence[IPAddress]
    port: int
    seconds: float
    _handle: socket.socket | None = None
    _cut: bool = False

    def send(self, mail: EmailMessage, login: tuple[str, str] | None) -> str:
        try:
            return self._sent(mail, login)
        except smtplib.SMTPRecipientsRefused as error:
            codes = [code for code, _ in error.recipients.values()]
            words = f"all recipients were refused: {codes[0] if codes else 'no reason'}"
            raise DeliveryFailed(words, final=all(code >= 500 for code in codes)) from None
        except smtplib.SMTPResponseException as error:
            said = error.smtp_error
            words = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
            final = 500 <= error.smtp_code < 600
            told = f"it said {error.smtp_code} {one_line(words, 300)}"
            raise DeliveryFailed(told, final=final) from None
        except smtplib.SMTPNotSupportedError as error:
            raise DeliveryFailed(str(error)[:300], final=True) from None
        except (smtplib.SMTPException, OSError) as error:
            raise DeliveryFailed(f"{type(error).__name__}: {error}"[:300]) from None

    def _sent(self, mail: EmailMessage, login: tuple[str, str] | None) -> str:
        channel = self.channel
        kind = _TlsServer if channel.security == "tls" else _Server
        with kind(channel.host, self.port, self.seconds, self._connected) as server:
            if channel.security == "starttls":
                server.starttls(context=ssl.create_default_context())
            if login is not None:
                server.login(*login)
            refused = server.send_message(mail)
        if refused:
            return f"taken, but not for {', '.join(refused)}"
        return f"taken for {', '.join(channel.to)}"

    def _connected(self) -> socket.socket:
        made = self._reached()
        made.settimeout(self.seconds)
        if self._cut:
            made.close()
            raise OSError("it took too long")
        self._handle = made.dup()  # a duplicate, because TLS detaches the original
        return made

    def _reached(self) -> socket.socket:
        """All addresses share the time, so that one that drops packets leaves some for the next."""
        until, failures = time.monotonic() + self.seconds, []
        for number, address in enumerate(self.addresses):
            patience = (until - time.monotonic()) / (len(self.addresses) - number)
            if self._cut or patience <= 0:
                break
            try:
                return socket.create_connection((str(address), self.port), patience)
            except OSError as error:
                failures.append(error)
        raise DeliveryFailed(unreached(failures))

    def cut(self) -> None:
        """Whatever is still going on ends with an error."""
        self._cut = True
        if self._handle is not None:
            with contextlib.suppress(OSError):
                self._handle.shutdown(socket.SHUT_RDWR)
            self._handle.close()


class _Server(smtplib.SMTP):
    """Named by its host name, which its certificate is for, but connected to a checked
    address."""

    def __init__(
        self, host: str, port: int, seconds: float, connected: Callable[[], socket.socket]
    ) -> None:
        self._connected = connected
        super().__init__(host, port, local_hostname="localhost", timeout=seconds)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        return self._connected()


class _TlsServer(_Server):
    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        return ssl.create_default_context().wrap_socket(self._connected(), server_hostname=host)
