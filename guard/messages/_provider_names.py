"""From the names that traces, SDKs and gateways use for a provider to its row in the table."""

from __future__ import annotations

from ._providers import PROVIDERS, ProviderRules
from ._rules import Rule
from ._words import MessageFormat

__all__ = ["known_provider_rules", "provider_rules"]

_ALIASES = {
    "az.ai.openai": "azure-openai",
    "azure": "azure-openai",
    "azure.ai.openai": "azure-openai",
    "azure-ai-openai": "azure-openai",
    "azureopenai": "azure-openai",
    "azure-openai-chat": "azure-openai",
    "amazon-bedrock": "bedrock",
    "aws": "bedrock",
    "aws.bedrock": "bedrock",
    "aws-bedrock": "bedrock",
    "bedrock-converse": "bedrock",
    "bedrock-runtime": "bedrock",
    "gcp": "gemini",
    "gcp.gemini": "gemini",
    "gcp.gen-ai": "gemini",
    "gcp.vertex-ai": "gemini",
    "google": "gemini",
    "google-ai-studio": "gemini",
    "google-genai": "gemini",
    "google-gla": "gemini",
    "google-vertex": "gemini",
    "google-vertexai": "gemini",
    "google.generative-ai": "gemini",
    "google.vertex": "gemini",
    "google-generativeai": "gemini",
    "googleai": "gemini",
    "vertex": "gemini",
    "vertex-ai": "gemini",
    "vertex-ai-beta": "gemini",
    "vertexai": "gemini",
    "anthropic-vertex": "anthropic",
    "google-anthropic-vertex": "anthropic",
    "google.vertex.anthropic": "anthropic",
    "claude": "anthropic",
    "kimi": "moonshot",
    "moonshot-ai": "moonshot",
    "moonshotai": "moonshot",
    "alibaba": "dashscope",
    "aliyun": "dashscope",
    "bailian": "dashscope",
    "qwen": "dashscope",
    "tongyi": "dashscope",
    "mistral-ai": "mistral",
    "mistralai": "mistral",
    "bigmodel": "zhipu",
    "glm": "zhipu",
    "z.ai": "zhipu",
    "z-ai": "zhipu",
    "zai": "zhipu",
    "zhipuai": "zhipu",
    "zai-org": "zhipu",
    "minimaxi": "minimax",
    "llama-cpp": "llama.cpp",
    "llamacpp": "llama.cpp",
    "llama-server": "llama.cpp",
    "llama-cpp-python": "llama.cpp",
    "lmstudio": "lm-studio",
    "ollama-chat": "ollama",
    "hosted-vllm": "vllm",
    "ark": "volcengine",
    "doubao": "volcengine",
    "bytedance": "volcengine",
    "grok": "xai",
    "x-ai": "xai",
    "fireworks-ai": "fireworks",
    "together-ai": "together",
    "togetherai": "together",
}

# Pass requests on: who answers is told by the model's name alone.
_GATEWAYS = frozenset(
    {
        "ai-gateway",
        "azure-ai",
        "azure.ai.inference",
        "cloudflare",
        "copilot",
        "gateway",
        "github-copilot",
        "helicone",
        "huggingface",
        "litellm",
        "litellm-proxy",
        "nebius",
        "new-api",
        "one-api",
        "openai-like",
        "opencode",
        "opencode-go",
        "openrouter",
        "portkey",
        "requesty",
        "siliconflow",
        "vercel",
    }
)

# The beginning of a model's own name: who makes it, and so who most likely serves it.
_MODELS = (
    (("claude",), "anthropic"),
    (("gpt-", "gpt4", "chatgpt", "codex", "o1", "o3", "o4", "text-davinci"), "openai"),
    (("gemini",), "gemini"),
    (("deepseek",), "deepseek"),
    (("kimi", "moonshot"), "moonshot"),
    (("qwen", "qwq", "qvq"), "dashscope"),
    (("mistral", "ministral", "codestral", "devstral", "magistral", "pixtral", "open-mi"), "mistral"),
    (("glm", "chatglm"), "zhipu"),
    (("minimax", "abab"), "minimax"),
    (("doubao",), "volcengine"),
    (("grok",), "xai"),
    (("command-", "c4ai"), "cohere"),
)
_ANYWHERE = ("gpt-oss",)  # open weights under a name that looks like a provider's
# The makers in Bedrock's model ids: `us.anthropic.claude-…`, `amazon.nova-…`.
_BEDROCK_MAKERS = frozenset(
    {"ai21", "amazon", "anthropic", "cohere", "deepseek", "meta", "mistral", "moonshot"}
)
# Open models whose chat template wants user and assistant messages in turns.
_STRICT_TEMPLATES = (
    "mistral",
    "mixtral",
    "ministral",
    "devstral",
    "magistral",
    "codestral",
    "gemma",
    "llama-2",
    "llama2",
    "zephyr",
)


def provider_rules(
    name: str | ProviderRules | None,
    *,
    model: str | None = None,
    format: MessageFormat | None = None,
) -> ProviderRules | None:
    """The rules of the provider of this name; None where it is not known.

    Knows the values of `gen_ai.provider.name` and `gen_ai.system`, names with the API behind them
    (`openai.responses`), and those of LiteLLM and the AI SDK. A gateway passes on what the model's
    provider answers, so there the model's name tells; so it does for a name that is not known.
    `format` chooses between the rows of a provider that speaks several.
    """
    if isinstance(name, ProviderRules):
        return name.for_format(format) if format else name
    key, served, wanted = _canonical(name)
    row = PROVIDERS.get(key) if key else None
    if row is None:
        row = PROVIDERS.get(_of_model(model) or _of_model(served) or "")
    elif _is_claude_in_cloud(row, model, format):
        row = PROVIDERS["anthropic"]
    if row is None:
        return None
    if Rule.TEMPLATE_ALTERNATION in row.unsure and (model or served):
        row = _of_template(row, (model or served or "").lower())
    chosen = format or wanted
    return row.for_format(chosen) if chosen else row


def known_provider_rules(
    name: str | ProviderRules, *, model: str | None = None, format: MessageFormat | None = None
) -> ProviderRules:
    """`provider_rules`, with a ValueError where they are not known."""
    rules = provider_rules(name, model=model, format=format)
    if rules is None:
        if isinstance(name, str) and name.strip().lower().replace("_", "-") in _GATEWAYS:
            raise ValueError(f"{name!r} passes requests on: name the model, or the provider behind it")
        raise ValueError(f"unknown provider {name!r}; known are {', '.join(PROVIDERS)}")
    return rules


def _canonical(name: str | None) -> tuple[str | None, str | None, MessageFormat | None]:
    """(row, model that stood behind the name, format that the name tells)."""
    if not name or not name.strip():
        return None, None, None
    text = name.strip().lower().replace("_", "-").replace(" ", "-")
    if text in PROVIDERS:
        return text, None, None
    if text in _ALIASES:
        return _ALIASES[text], None, None
    if text in _GATEWAYS:
        return None, None, None
    for mark in ("/", ":"):
        head, found, rest = text.partition(mark)
        if found and head in _GATEWAYS:
            return None, rest, None
        if found and (row := _known(head)) is not None:
            return row, rest, None
    head, found, rest = text.rpartition(".")
    while found:
        if (row := _known(head)) is not None:
            tail = text[len(head) + 1 :].split(".")
            wanted: MessageFormat | None = None
            if "responses" in tail:
                wanted = "openai-responses"
            elif "messages" in tail:
                wanted = "anthropic"
            return row, None, wanted
        if head in _GATEWAYS:
            return None, None, None
        head, found, rest = head.rpartition(".")
    return None, text, None


def _known(text: str) -> str | None:
    return text if text in PROVIDERS else _ALIASES.get(text)


def _of_model(model: str | None) -> str | None:
    """The provider that a model's name tells: `openrouter/anthropic/claude-…`, `us.anthropic.claude-…`."""
    if not model:
        return None
    parts = [part for part in model.strip().lower().replace("_", "-").split("/") if part]
    last = parts[-1] if parts else ""
    if last.startswith(_ANYWHERE):
        return None
    for head in parts[:-1]:
        if head not in _GATEWAYS and (row := _known(head)) is not None:
            if row == "gemini" and last.startswith("claude"):
                return "anthropic"
            return row
    if set(last.split(".")[:-1]) & _BEDROCK_MAKERS:
        return "bedrock"
    for start, row in _MODELS:
        if last.startswith(start):
            return row
    return None


def _is_claude_in_cloud(row: ProviderRules, model: str | None, format_name: MessageFormat | None) -> bool:
    """Claude on Vertex AI, or on Bedrock by its own format, is Anthropic's interface."""
    if row.name == "bedrock":
        return format_name == "anthropic"
    return row.name == "gemini" and _of_model(model) == "anthropic"


def _of_template(row: ProviderRules, model: str) -> ProviderRules:
    if any(word in model for word in _STRICT_TEMPLATES):
        return row
    return row.without_rules(Rule.TEMPLATE_ALTERNATION)
