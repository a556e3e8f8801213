"""Errors of the YAML parser, in words for the author of the file."""

import re

# {0} is the matched group, {line} the line where the unfinished element begins.
_WORDS = {
    r"found character '\\t' that": "a tab stands here; YAML is indented by spaces alone",
    r"found character '(.+)' that": "a text cannot begin with {0}; put it in quotes",
    r"expected ',' or ']', but": "the [ of {line} is not closed, or a comma is missing here",
    r"expected ',' or '}', but": "the {{ of {line} is not closed, or a comma is missing here",
    r"expected the node content, but found '<stream end>'": (
        "the file ends where a value is expected; is a [ or {{ not closed?"
    ),
    r"expected the node content, but found '(.)'": (
        "a value is expected here, and not {0}; put a text in quotes that begins so"
    ),
    r"found unexpected end of stream": "the quote of {line} is not closed",
    r"mapping values are not allowed": (
        "no ':' can stand here; put a text that has one in quotes, or indent the line as those"
        " around it"
    ),
    r"could not find expected ':'": "a ':' is missing in {line}; write `key: value`",
    r"expected <block end>": "this line is not indented as those that it follows, from {line} on",
    r"found duplicate key (\S+)": "the key {0} is there twice; keep one",
    r"but found another document": "a second document begins here (---); a file has one",
    r"found undefined alias '(.*)'": (
        "nothing is marked &{0}, so *{0} means nothing; put a text in quotes that begins with *"
    ),
}


def in_words(problem: str, line: int | None) -> str:
    for form, words in _WORDS.items():
        if found := re.match(form, problem):
            begun = f"line {line}" if line else "a line above"
            return words.format(*found.groups(), line=begun)
    return problem
