"""Answers for conditional reads: kept with their ETag, used only when the tracker answers 304."""

from collections import OrderedDict

from rota.sources.http.answers import Answer

MAX_ANSWERS = 512
MAX_BYTES = 32 * 1024 * 1024


class AnswerCache:
    """By address; the least recently used answer is dropped first."""

    def __init__(self, answers: int = MAX_ANSWERS, size: int = MAX_BYTES) -> None:
        self._most = answers
        self._room = size
        self._used = 0
        self._kept: OrderedDict[str, Answer] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, url: str) -> Answer | None:
        answer = self._kept.get(url)
        if answer is not None:
            self._kept.move_to_end(url)
        return answer

    def keep(self, answer: Answer) -> None:
        self.forget(answer.url)
        if not answer.ok or "etag" not in answer.headers or len(answer.body) > self._room:
            return
        self._kept[answer.url] = answer
        self._used += len(answer.body)
        while len(self._kept) > self._most or self._used > self._room:
            self.forget(next(iter(self._kept)))

    def forget(self, url: str) -> None:
        if (answer := self._kept.pop(url, None)) is not None:
            self._used -= len(answer.body)
