"The form of every sentence that `ppe` says, counted over the table of tests/messages.py."

import re

import messages
import pytest

LONGEST = 300  # characters, fields not counted: names may have any length
# Examples, SQL, prompts for a judge, CSS and code.
NOT_SENTENCES = {"api/help", "stages/ledger", "stages/prompts", "paper/own_page", "paper/profile_state"}
BANNED = r"(?i)^(without|of two that)\b|<class|dtype\(|object at 0x|cannot be told whether|log likelihood of"


def broken_rules(message: messages.Message) -> list[str]:
    "The rules of form that a message breaks; an error is one line with no full stop at its end."
    text = message.text
    is_error = message.kind in messages.ERRORS
    rules = {
        "one line": is_error and "\n" in text,
        "no full stop": is_error and text.endswith("."),
        "no space at an end": is_error and text != text.strip(),
        "single spaces": is_error and "  " in text,
        "no repr, no banned words": is_error and re.search(BANNED, text),
        "short": len(text.replace("{…}", "")) > LONGEST,
    }
    return [rule for rule, is_broken in rules.items() if is_broken]


def test_every_message_has_the_form_of_a_message():
    rows = [row for row in messages.messages() if row.kind in messages.ERRORS or row.module not in NOT_SENTENCES]
    assert sum(row.kind in messages.ERRORS for row in rows) > 400
    assert [(row, broken_rules(row)) for row in rows if broken_rules(row)] == []


@pytest.mark.parametrize("text", ["ends.", "two  spaces", "two\nlines", "it is <class 'int'>", "word " * 61])
def test_a_message_of_another_form_is_noticed(text: str):
    assert broken_rules(messages.Message("InputError", "api/options", 1, text))
