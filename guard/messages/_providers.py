"""What each provider refuses, in one table, with the public source of each row.

A rule is off where nobody has shown that the provider enforces it. A source is an issue or pull request
on GitHub (`owner/repo/issues/n`) that quotes the provider's answer or tells of it, or the provider's own
documentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from ._rules import Rule
from ._words import ErrorClass, MessageFormat

__all__ = ["PROVIDERS", "ProviderRules"]

_R = Rule
_CHAT: tuple[MessageFormat, ...] = ("openai-chat",)


@dataclass(frozen=True, slots=True)
class ProviderRules:
    """The rules of one provider (and, where it speaks several, of one format).

    A rule that is not in `rules` is one that the provider is not known to enforce. Rules in `unsure` depend
    on the model that is served (its chat template): they count where a history is linted for this provider,
    not where it is only asked who else would refuse it.
    """

    name: str
    title: str
    formats: tuple[MessageFormat, ...]
    rules: frozenset[Rule]
    sources: tuple[tuple[Rule, tuple[str, ...]], ...]  # in the order of the table
    family: str = ""  # rows of one provider that differ by format share it
    merges_turns: bool = False  # messages of one role in a row count as one
    unsure: frozenset[Rule] = frozenset()
    note: str = ""

    @property
    def unique_call_ids(self) -> Literal["turn", "history"] | None:
        """Over what ids of calls must be unique; None: not known to matter."""
        if Rule.UNIQUE_IN_HISTORY in self.rules:
            return "history"
        return "turn" if Rule.UNIQUE_IN_TURN in self.rules else None

    def with_unique_call_ids(self, scope: Literal["turn", "history"] | None) -> ProviderRules:
        """The same provider, with another rule for the uniqueness of call ids (a refusal may prove one)."""
        rules = self.rules - {Rule.UNIQUE_IN_TURN, Rule.UNIQUE_IN_HISTORY}
        if scope is not None:
            rules |= {Rule.UNIQUE_IN_TURN}
        if scope == "history":
            rules |= {Rule.UNIQUE_IN_HISTORY}
        return replace(self, rules=rules)

    def with_rules(self, *rules: Rule) -> ProviderRules:
        """The same provider with further rules switched on."""
        return replace(self, rules=self.rules | frozenset(rules))

    def without_rules(self, *rules: Rule) -> ProviderRules:
        """The same provider with rules switched off."""
        return replace(self, rules=self.rules - frozenset(rules), unsure=self.unsure - frozenset(rules))

    def for_format(self, format_name: MessageFormat) -> ProviderRules:
        """The provider's rules for that format: another row of its family if there is one, else this one."""
        if format_name in self.formats:
            return self
        for other in PROVIDERS.values():
            if other.family == self.family and format_name in other.formats:
                return other
        return self

    def reported_as(self, error_class: ErrorClass) -> frozenset[ErrorClass]:
        """The classes of fault that this provider may word as `error_class`.

        A misplaced result, for one, is to the provider a missing one, or one without a call, or both.
        """
        return frozenset({error_class, *_REPORTED.get(error_class, ())})


_E = ErrorClass
_PAIRING = (_E.MISSING_RESULT, _E.ORPHAN_RESULT, _E.MISPLACED_RESULT, _E.DUPLICATE_RESULT, _E.COUNT_MISMATCH)
_REPORTED: Mapping[ErrorClass, tuple[ErrorClass, ...]] = {
    _E.MISSING_RESULT: (*_PAIRING, _E.DUPLICATE_CALL_ID, _E.ID_FORMAT),
    _E.ORPHAN_RESULT: (*_PAIRING, _E.DUPLICATE_CALL_ID, _E.ID_FORMAT, _E.EMPTY_TOOL_CALLS),
    _E.MISPLACED_RESULT: _PAIRING,
    _E.COUNT_MISMATCH: (*_PAIRING, _E.DUPLICATE_CALL_ID),
    _E.DUPLICATE_CALL_ID: (_E.DUPLICATE_RESULT, _E.ID_FORMAT),
    _E.DUPLICATE_RESULT: (_E.DUPLICATE_CALL_ID,),
    _E.ROLE_ORDER: (_E.ORPHAN_RESULT, _E.MISPLACED_RESULT, _E.MISSING_RESULT),
}


def _row(
    name: str,
    title: str,
    formats: tuple[MessageFormat, ...],
    rules: Mapping[tuple[Rule, ...] | Rule, Iterable[str]],
    *,
    family: str = "",
    merges_turns: bool = False,
    unsure: Iterable[Rule] = (),
    note: str = "",
) -> ProviderRules:
    sources: dict[Rule, tuple[str, ...]] = {}
    for key, seen in rules.items():
        for rule in (key,) if isinstance(key, Rule) else key:
            sources[rule] = tuple(seen)
    return ProviderRules(
        name,
        title,
        formats,
        frozenset(sources),
        tuple(sources.items()),
        family or name,
        merges_turns,
        frozenset(unsure),
        note,
    )


_MISSING = (_R.MISSING_RESULT, _R.MISSING_SOME_RESULTS)
_ORPHAN = (_R.ORPHAN_RESULT, _R.UNKNOWN_RESULT_ID)
_PLACE = (_R.MISPLACED_RESULT, _R.SPLIT_TURN)

_OPENAI_CHAT: Mapping[tuple[Rule, ...] | Rule, Iterable[str]] = {
    (*_MISSING, *_PLACE): ("minoism/freecc/issues/2", "aliasrobotics/cai/issues/111"),
    _R.ORPHAN_RESULT: (
        "miurla/morphic/issues/136",
        "smarter-sh/smarter/issues/264",
        "run-llama/llama_index/issues/10493",
    ),
    (_R.UNKNOWN_RESULT_ID, _R.ID_SPELLING): ("dapr/dapr-agents/issues/145",),
    (_R.DUPLICATE_RESULT, _R.UNIQUE_IN_TURN): (
        "agno-agi/agno/issues/5116",
        "fatwang2/search2ai/issues/30",
        "anomalyco/opencode/issues/1211",
    ),
    _R.EMPTY_TOOL_CALLS: ("openai/openai-node/pull/1341", "chatboxai/chatbox/issues/2079"),
    _R.ID_PRESENT: ("langchain-ai/langchain/issues/22600", "vercel/ai/issues/2178"),
    _R.ID_MAX_40: ("vercel/ai/issues/5171", "camel-ai/camel/issues/2215", "BerriAI/litellm/issues/17343"),
    _R.ASSISTANT_NULL: ("run-llama/llama_index/pull/17921", "vercel/ai/pull/13744"),
    _R.RESULT_NULL: ("run-llama/llama_index/issues/17555", "vercel/ai/pull/5526"),
}
_OPENAI_RESPONSES: Mapping[tuple[Rule, ...] | Rule, Iterable[str]] = {
    _MISSING: ("lace-ai/gai/pull/49", "jeffdafoe/llm-memory-api/pull/179"),
    (*_ORPHAN, _R.ID_SPELLING): ("continuedev/continue/issues/10092", "leookun/cursor-byok/issues/307"),
    (_R.UNIQUE_IN_TURN, _R.DUPLICATE_RESULT): ("earendil-works/pi/issues/9057",),
    _R.ITEM_ID_UNIQUE: ("vercel/ai/issues/13307", "vercel/ai/issues/7883", "MacPaw/OpenAI/issues/432"),
    _R.ITEM_ID_PREFIX: ("nodetool-ai/nodetool/pull/4252",),
    _R.ID_PRESENT: ("craft-ai-agents/craft-agents-oss/issues/613",),
    _R.ID_MAX_64: ("experientiallabs/experiential/pull/801",),
    _R.REASONING_FOLLOWED: ("continuedev/continue/issues/8933", "vercel/ai/issues/7099"),
}
_ANTHROPIC: Mapping[tuple[Rule, ...] | Rule, Iterable[str]] = {
    (*_MISSING, _R.MISPLACED_RESULT): (
        "anthropics/claude-code/issues/7929",
        "anthropics/claude-code/issues/1237",
    ),
    _R.RESULTS_FIRST: ("https://docs.claude.com/en/docs/agents-and-tools/tool-use/implement-tool-use",),
    (*_ORPHAN, _R.ID_SPELLING): ("anthropics/claude-code/issues/13460",),
    _R.DUPLICATE_RESULT: ("QwenLM/qwen-code/pull/8163", "Kilo-Org/kilocode/pull/3772"),
    _R.UNIQUE_IN_TURN: ("anthropics/claude-code/issues/28515", "BerriAI/litellm/issues/23510"),
    _R.UNIQUE_IN_HISTORY: (
        "openclaw/openclaw/pull/4700",
        "openclaw/openclaw/pull/43370",
        "NVIDIA-NeMo/Switchyard/issues/502",
    ),
    _R.ID_WORD: (
        "huggingface/tau/issues/385",
        "maximhq/bifrost/issues/5097",
        "langchain-ai/langchain/pull/37756",
    ),
    _R.ARGUMENTS_OBJECT: (
        "anthropics/claude-code/issues/6696",
        "anthropics/anthropic-sdk-typescript/issues/648",
    ),
    _R.EMPTY_MESSAGE: ("anthropics/claude-code/issues/3699", "NousResearch/hermes-agent/pull/74906"),
    _R.BLANK_TEXT: ("anthropics/claude-code/issues/59812", "anthropics/claude-code/issues/23369"),
}
_ALTERNATION_SEEN = (
    "ggml-org/llama.cpp/issues/19851",
    "sipeed/picoclaw/issues/207",
    "idiap/sdialog/issues/122",
)
_TEMPLATE_NOTE = (
    "Calls and results are not paired by the server. Whether user and assistant messages must alternate is "
    "up to the model's chat template: it counts unless a model is named whose template does not ask for it."
)
_NOTHING = "No rule of its own was found in public; its answers are taken as they come."


_ROWS = (
    _row("openai", "OpenAI, chat completions", _CHAT, _OPENAI_CHAT),
    _row(
        "openai-responses",
        "OpenAI, responses",
        ("openai-responses",),
        _OPENAI_RESPONSES,
        family="openai",
        note="Where results stand is not known to matter, only that they are there.",
    ),
    _row(
        "azure-openai",
        "Azure OpenAI, chat completions",
        _CHAT,
        _OPENAI_CHAT,
        note="Answers in OpenAI's words (agno-agi/agno/issues/5116, fatwang2/search2ai/issues/30).",
    ),
    _row(
        "azure-openai-responses",
        "Azure OpenAI, responses",
        ("openai-responses",),
        _OPENAI_RESPONSES,
        family="azure-openai",
    ),
    _row(
        "anthropic",
        "Anthropic",
        ("anthropic",),
        _ANTHROPIC,
        merges_turns=True,
        note="Also Claude on Vertex AI and on Bedrock's InvokeModel.",
    ),
    _row(
        "bedrock",
        "Amazon Bedrock, Converse",
        ("bedrock-converse",),
        {
            (*_MISSING, _R.MISPLACED_RESULT): (
                "genkit-ai/aws-bedrock-js-plugin/issues/664",
                "NousResearch/hermes-agent/issues/108584",
            ),
            (*_ORPHAN, _R.ID_SPELLING): (
                "strands-agents/harness-sdk/issues/1435",
                "pydantic/pydantic-ai/issues/2327",
            ),
            _R.DUPLICATE_RESULT: ("BerriAI/litellm/issues/20047",),
            _R.UNIQUE_IN_TURN: ("double16/Cyber-AutoAgent-ng/issues/27",),
            _R.ID_BEDROCK: ("run-llama/llama_index/pull/22775", "maximhq/bifrost/pull/6300"),
            _R.FAILED_RESULT_EMPTY: (
                "aws-samples/sample-multi-agent-orchestration-chat-on-agentcore/issues/15",
            ),
            _R.EMPTY_MESSAGE: ("NousResearch/hermes-agent/pull/74906",),
            _R.BLANK_TEXT: ("NousResearch/hermes-agent/pull/64858", "aws-samples/bedrock-engineer/issues/8"),
            _R.ALTERNATE: ("microsoft/semantic-kernel/issues/10281", "Portkey-AI/gateway/issues/748"),
            _R.STARTS_WITH_USER: ("langgenius/dify/issues/12340", "elastic/kibana/pull/246393"),
        },
        merges_turns=True,
    ),
    _row(
        "gemini",
        "Google Gemini and Vertex AI",
        ("gemini",),
        {
            (_R.MISSING_RESULT, _R.RESULT_COUNT): (
                "google-gemini/gemini-cli/issues/5443",
                "google-gemini/gemini-cli/issues/16543",
            ),
            _R.CALL_TURN_ORDER: (
                "google-gemini/gemini-cli/issues/26486",
                "google-gemini/gemini-cli/issues/11814",
            ),
            (_R.ORPHAN_RESULT, _R.MISPLACED_RESULT): (
                "langchain-ai/langchain/issues/27799",
                "lobehub/lobehub/issues/7298",
            ),
            _R.RESULT_NAME: ("NousResearch/hermes-agent/issues/72089",),
            _R.PARTS_PRESENT: ("genkit-ai/genkit/issues/3690", "agno-agi/agno/pull/6644"),
        },
        note="Results are paired by name and number: ids are free and need not be there.",
    ),
    _row(
        "deepseek",
        "DeepSeek, chat completions",
        _CHAT,
        {
            (*_MISSING, *_PLACE): (
                "ThinkInAIXYZ/deepchat/issues/1078",
                "agno-agi/agno/issues/3105",
                "bytedance/deer-flow/issues/2809",
            ),
            (*_ORPHAN, _R.ID_SPELLING): (
                "FoundationAgents/OpenManus/issues/744",
                "qwersyk/Newelle/issues/425",
            ),
            (_R.DUPLICATE_RESULT, _R.UNIQUE_IN_TURN): ("NousResearch/hermes-agent/issues/58327",),
            _R.BLANK_ID_TWICE: (
                "craft-ai-agents/craft-agents-oss/issues/621",
                "craft-ai-agents/craft-agents-oss/issues/630",
            ),
            _R.ID_PRESENT: ("EKKOLearnAI/hermes-studio/issues/323",),
            _R.EMPTY_TOOL_CALLS: (
                "NousResearch/hermes-agent/issues/84365",
                "NousResearch/hermes-agent/issues/74101",
            ),
            _R.ASSISTANT_NULL: ("carlrobertoh/ProxyAI/issues/834", "carlrobertoh/ProxyAI/issues/830"),
            _R.KNOWN_ROLES: ("decolua/9router/issues/773",),
        },
        note=(
            "That ids may not recur in later rounds was shown for blank ids only. Whether "
            "`reasoning_content` is asked back depends on a mode which a history does not tell: not checked."
        ),
    ),
    _row(
        "deepseek-anthropic",
        "DeepSeek, Anthropic format",
        ("anthropic",),
        {(_R.UNIQUE_IN_TURN, _R.UNIQUE_IN_HISTORY): ("vastsa/PI-Desktop/issues/718",)},
        family="deepseek",
        merges_turns=True,
    ),
    _row(
        "deepseek-responses",
        "DeepSeek, responses",
        ("openai-responses",),
        {_ORPHAN: ("deepseek-ai/DeepSeek-V3/issues/1611",)},
        family="deepseek",
    ),
    _row(
        "moonshot",
        "Moonshot AI (Kimi)",
        _CHAT,
        {
            (*_MISSING, *_PLACE): (
                "MoonshotAI/kimi-cli/issues/1977",
                "MoonshotAI/kimi-cli/issues/2405",
                "MoonshotAI/kimi-code/issues/705",
            ),
            _R.ASSISTANT_EMPTY: ("anomalyco/opencode/issues/37887", "MoonshotAI/kimi-code/issues/1985"),
        },
        note="Ids such as `Shell:58` are its own and recur. `reasoning_content`: see DeepSeek.",
    ),
    _row(
        "dashscope",
        "Alibaba DashScope (Qwen)",
        _CHAT,
        {
            (*_MISSING, *_PLACE): ("QwenLM/qwen-code/issues/606", "alibaba/spring-ai-alibaba/issues/914"),
            _ORPHAN: ("QwenLM/qwen-code/issues/2360", "langchain-ai/langgraph-supervisor-py/issues/122"),
            _R.EMPTY_TOOL_CALLS: ("NousResearch/hermes-agent/issues/70126",),
            _R.ARGUMENTS_JSON: ("HKUDS/nanobot/issues/2469", "continuedev/continue/issues/11556"),
            _R.ARGUMENTS_BLANK: ("xinnan-tech/xiaozhi-esp32-server/pull/1958",),
        },
        note="Also refuses histories that repeat one call (class `repeated_calls`), which no repair mends.",
    ),
    _row(
        "mistral",
        "Mistral AI",
        _CHAT,
        {
            (_R.MISSING_RESULT, _R.RESULT_COUNT): (
                "mistralai/client-ts/issues/106",
                "partITech/php-mistral/issues/57",
            ),
            (_R.ORPHAN_RESULT, _R.USER_AFTER_TOOL, _R.MISPLACED_RESULT): (
                "datapizza-ai/datapizza-ai/issues/98",
                "yetone/avante.nvim/issues/2562",
                "charmbracelet/crush/issues/279",
            ),
            _R.ID_MISTRAL: ("editor-code-assistant/eca/issues/233", "nearai/ironclaw/issues/1241"),
            _R.EMPTY_TOOL_CALLS: ("NousResearch/hermes-agent/pull/82447",),
            _R.ASSISTANT_EMPTY: ("OpenHands/OpenHands/issues/8685", "solbrowse/extension/issues/16"),
        },
        note="That it refuses text beside calls was reported for some models and is not checked.",
    ),
    _row(
        "zhipu",
        "Zhipu AI (GLM)",
        _CHAT,
        {_R.NEEDS_USER: ("anomalyco/opencode/issues/2557", "MetaGLM/zhipuai-sdk-python-v4/issues/14")},
        note="Its code 1214 names no cause: what else it refuses is not known.",
    ),
    _row(
        "minimax",
        "MiniMax",
        _CHAT,
        {
            _ORPHAN: ("MiniMax-AI/MiniMax-M2/issues/76",),
            (_R.MISPLACED_RESULT, _R.SPLIT_TURN): (
                "MiniMax-AI/MiniMax-M2/issues/69",
                "anomalyco/opencode/issues/32608",
            ),
            (*_MISSING,): ("can1357/oh-my-pi/issues/2055",),
            _R.ARGUMENTS_JSON: ("earendil-works/pi/issues/5468", "can1357/oh-my-pi/issues/181"),
        },
    ),
    _row(
        "llama.cpp",
        "llama.cpp server",
        _CHAT,
        {
            _R.TEMPLATE_ALTERNATION: _ALTERNATION_SEEN,
            (_R.ARGUMENTS_JSON, _R.ARGUMENTS_BLANK): (
                "ggml-org/llama.cpp/issues/25510",
                "ggml-org/llama.cpp/issues/22948",
            ),
        },
        unsure=(_R.TEMPLATE_ALTERNATION,),
        note=f"Answers with HTTP 500. {_TEMPLATE_NOTE}",
    ),
    _row(
        "lm-studio",
        "LM Studio",
        _CHAT,
        {
            _R.TEMPLATE_ALTERNATION: _ALTERNATION_SEEN,
            _R.CONTENT_PRESENT: ("lmstudio-ai/lmstudio-bug-tracker/issues/261",),
        },
        unsure=(_R.TEMPLATE_ALTERNATION,),
        note=_TEMPLATE_NOTE,
    ),
    _row(
        "ollama",
        "Ollama, OpenAI endpoint",
        _CHAT,
        {
            _R.TEMPLATE_ALTERNATION: _ALTERNATION_SEEN,
            _R.CONTENT_PRESENT: ("github/copilot-cli/issues/4269", "SAIL-Research-Lab/cheetahclaws/pull/72"),
        },
        unsure=(_R.TEMPLATE_ALTERNATION,),
        note=_TEMPLATE_NOTE,
    ),
    _row(
        "vllm",
        "vLLM",
        _CHAT,
        {
            _R.ARGUMENTS_JSON: ("vllm-project/vllm/issues/43995", "vllm-project/vllm/pull/48922"),
            _R.EMPTY_TOOL_CALLS: ("vllm-project/vllm/issues/13978",),
        },
        unsure=(_R.ARGUMENTS_JSON, _R.EMPTY_TOOL_CALLS),
        note="Argument text: releases before the fix of July 2026. Empty `tool_calls`: Llama templates.",
    ),
    _row(
        "volcengine",
        "Volcengine Ark (Doubao)",
        _CHAT,
        {_R.CONTENT_PRESENT: ("AstrBotDevs/AstrBot/issues/6852",)},
    ),
    _row(
        "xai",
        "xAI (Grok)",
        _CHAT,
        {_R.CONTENT_PRESENT: ("langchain-ai/langchain/issues/34140", "n8n-io/n8n/issues/14797")},
        note="No rule about pairing was found in public.",
    ),
    _row("groq", "Groq", _CHAT, {}, note=_NOTHING),
    _row(
        "cerebras",
        "Cerebras",
        _CHAT,
        {_ORPHAN: ("vybestack/llxprt-code/issues/508",)},
        note="Answers without a body. No other rule was found in public.",
    ),
    _row(
        "fireworks",
        "Fireworks AI",
        _CHAT,
        {_R.EMPTY_TOOL_CALLS: ("NousResearch/hermes-agent/pull/82447",)},
        note="No rule about pairing was found in public.",
    ),
    _row("together", "Together AI", _CHAT, {}, note=_NOTHING),
    _row("cohere", "Cohere", _CHAT, {}, note=_NOTHING),
)

PROVIDERS: Mapping[str, ProviderRules] = MappingProxyType({row.name: row for row in _ROWS})
