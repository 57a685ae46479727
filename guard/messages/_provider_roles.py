"""The order of roles that a provider asks for: messages merged, or a short one put between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ._formats import Format
from ._model import Block, Message, Other, Result
from ._providers import ProviderRules
from ._repairs import Log
from ._rules import Rule
from ._words import RepairKind

__all__ = ["ASSISTANT_BRIDGE", "ROLE_RULES", "USER_BRIDGE", "mend_roles"]

ASSISTANT_BRIDGE = "(results received)"
USER_BRIDGE = "(continue)"

ROLE_RULES = frozenset(
    {
        Rule.USER_AFTER_TOOL,
        Rule.ALTERNATE,
        Rule.STARTS_WITH_USER,
        Rule.CALL_TURN_ORDER,
        Rule.TEMPLATE_ALTERNATION,
        Rule.NEEDS_USER,
        Rule.KNOWN_ROLES,
    }
)


def mend_roles(messages: list[Message], rules: ProviderRules, form: Format, log: Log) -> list[Message]:
    """The messages in an order of roles that the provider takes. Nothing that was said is lost."""
    order = _Order(form, log)
    if Rule.KNOWN_ROLES in rules.rules:
        messages = [order.known(message) for message in messages]
    if Rule.ALTERNATE in rules.rules:
        messages = order.alternating(messages)
    if Rule.CALL_TURN_ORDER in rules.rules:
        messages = order.calls_behind_user(messages)
    if Rule.STARTS_WITH_USER in rules.rules:
        messages = order.user_first(messages, lambda message: message.role == "assistant")
    if Rule.CALL_TURN_ORDER in rules.rules:
        messages = order.user_first(messages, lambda message: bool(message.calls))
    if Rule.NEEDS_USER in rules.rules and not any(message.role == "user" for message in messages):
        messages = order.with_user(messages)
    if Rule.TEMPLATE_ALTERNATION in rules.rules:
        messages = order.as_templates_ask(messages)
    if Rule.USER_AFTER_TOOL in rules.rules:
        messages = order.assistant_behind_results(messages)
    return messages


class _Order:
    def __init__(self, form: Format, log: Log) -> None:
        self.form, self.log = form, log

    def known(self, message: Message) -> Message:
        if message.wire_role != "developer" or self.form.name != "openai-chat":
            return message
        self.log.add(RepairKind.FIXED_ROLE, message, None, 'made the role "developer" into "system"')
        return replace(message, wire_role="system", changed=True)

    def alternating(self, messages: list[Message]) -> list[Message]:
        """No two messages of one role in a row."""
        out: list[Message] = []
        for message in messages:
            if out and out[-1].role == message.role and message.role in ("user", "assistant"):
                out[-1] = self.merged(out[-1], message)
            else:
                out.append(message)
        return out

    def calls_behind_user(self, messages: list[Message]) -> list[Message]:
        """An assistant message before one that calls tools becomes part of it."""
        out: list[Message] = []
        for message in messages:
            out.append(message)
            while len(out) > 1 and out[-1].calls and out[-1].role == out[-2].role == "assistant":
                last = out.pop()
                out[-1] = self.merged(out[-1], last)
        return out

    def user_first(self, messages: list[Message], asks: Callable[[Message], bool]) -> list[Message]:
        """A user message before the first message (system messages aside) if that asks for one."""
        for at, message in enumerate(messages):
            if message.role == "system":
                continue
            if not asks(message) or message.role == "user":
                return messages
            return [*messages[:at], self.bridge("user", message), *messages[at:]]
        return messages

    def with_user(self, messages: list[Message]) -> list[Message]:
        """A user message behind the system messages that the history begins with."""
        at = 0
        while at < len(messages) and messages[at].role == "system":
            at += 1
        before = messages[min(at, len(messages) - 1)]
        return [*messages[:at], self.bridge("user", before), *messages[at:]]

    def as_templates_ask(self, messages: list[Message]) -> list[Message]:
        """User and assistant messages in turns, calls and results left aside."""
        out: list[Message] = []
        expected = "user"
        for message in messages:
            side = _side(message)
            if side and side != expected:
                if out and _side(out[-1]) == side:
                    out[-1] = self.merged(out[-1], message)
                    continue
                out.append(self.bridge("assistant" if side == "user" else "user", message))
                expected = side
            if side:
                expected = "assistant" if side == "user" else "user"
            out.append(message)
        return out

    def assistant_behind_results(self, messages: list[Message]) -> list[Message]:
        """An assistant message between results and a user message."""
        out: list[Message] = []
        previous = ""
        for message in messages:
            if previous == "tool" and message.role == "user" and not message.results:
                out.append(self.bridge("assistant", message))
            if message.role in ("user", "assistant", "tool"):
                previous = message.role
            out.append(message)
        return out

    def bridge(self, role: str, before: Message) -> Message:
        text = USER_BRIDGE if role == "user" else ASSISTANT_BRIDGE
        article = "a user" if role == "user" else "an assistant"
        why = f'put {article} message "{text}" here, as the order of roles asks for it'
        self.log.add(RepairKind.FIXED_ROLE, before, None, why)
        wire = "model" if self.form.name == "gemini" and role == "assistant" else role
        return Message(role, (self.form.text_block(text),), None, None, wire, changed=True, near=before.place)

    def merged(self, first: Message, second: Message) -> Message:
        why = f"merged this {first.role} message with the one before it"
        self.log.add(RepairKind.MERGED_MESSAGES, second, None, why)
        blocks = _joined(first, second)
        return replace(first, blocks=blocks, changed=True)


def _side(message: Message) -> str:
    """What a template takes the message for; "" for what it leaves aside."""
    if message.role == "user":
        return "user"
    if message.role != "assistant" or message.calls:
        return ""
    says = any(
        type(block) is Other and (not block.key or block.kind != "reasoning") for block in message.blocks
    )
    return "assistant" if says or not message.blocks else ""


def _joined(first: Message, second: Message) -> tuple[Block, ...]:
    """The blocks of both; two plain texts become one, with a blank line between."""
    texts = [_plain_text(first), _plain_text(second)]
    if texts[0] is None or texts[1] is None:
        return (*first.blocks, *second.blocks)
    text = "\n\n".join(one.text for one in texts if one is not None and one.text and not one.empty)
    made = Other("text", not text.strip(), text, text)
    rest = [block for message in (first, second) for block in message.blocks if block not in texts]
    results = [block for block in rest if type(block) is Result]  # they come before other content
    return (*results, made, *[block for block in rest if type(block) is not Result])


def _plain_text(message: Message) -> Other | None:
    """The content of a message where that is one plain text."""
    content = [block for block in message.blocks if type(block) is Other and not block.key]
    return content[0] if len(content) == 1 and type(content[0].raw) is str else None
