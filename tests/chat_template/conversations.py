"""Conversations that exercise what chat templates branch on."""

import itertools

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather at a place.\nTwo lines, \"quotes\", <tags> & 'more'.",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": "City, e.g. Zürich"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
                "days": {"type": "integer", "minimum": 1, "maximum": 14},
            },
            "required": ["place"],
        },
        "return": {"type": "object", "description": "temperature and words"},
    },
}
SEARCH = {
    "type": "function",
    "function": {
        "name": "search_files",
        "description": "Finds files.",
        "parameters": {
            "type": "object",
            "properties": {
                "patterns": {"type": "array", "items": {"type": "string"}, "description": "globs"},
                "options": {
                    "type": "object",
                    "properties": {"depth": {"type": "integer"}, "hidden": {"type": "boolean"}},
                    "description": "how",
                },
                "limit": {"type": ["integer", "null"], "description": "at most", "nullable": True},
                "ratio": {"type": "number", "default": 0.5},
            },
            "required": [],
        },
    },
}
BARE = {
    "type": "function",
    "function": {
        "name": "now",
        "description": "",
        "parameters": {"type": "object", "properties": {}, "required": []},
    },
}


def call(name, arguments, call_id):
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def message(role, content, **more):
    return {"role": role, "content": content, **more}


CITY = {"place": "São Paulo", "unit": "celsius", "days": 3}
ANSWER = '{"temperature": 21.5, "words": "sunny ☀"}'

MESSAGES = {
    "user": [message("user", "Hello!")],
    "system_user": [message("system", "Be brief."), message("user", "What is 2 + 2?")],
    "two_turns": [
        message("user", "First question"),
        message("assistant", "First answer"),
        message("user", "Second question"),
    ],
    "system_two_turns": [
        message("system", "  You are a pirate.\n\n"),
        message("user", " Ahoy "),
        message("assistant", "  Arr.\n"),
        message("user", "\n\nWhere is the gold?\t"),
    ],
    "ends_with_assistant": [message("user", "Say hi"), message("assistant", "Hi")],
    "unicode": [
        message("system", "Antworte höflich. 日本語も可。"),
        message("user", "naïve café — “quoted” 👩‍👩‍👧‍👦 \u200d \u00a0 ﷽ Ω≈ç√"),
        message("assistant", "Ünïcødé: Привет, مرحبا, שלום, 🇨🇭"),
        message("user", "\u2028line\u2029para\x0b\x0c end"),
    ],
    "empty": [message("system", ""), message("user", ""), message("assistant", ""), message("user", "x")],
    "only_system": [message("system", "Nobody speaks.")],
    "markup": [
        message("user", "{{ messages }} {% raw %} <|im_end|> [INST] <s> </s> & < > \" ' \\ \\n"),
        message("assistant", "<think>\nhidden & thought\n</think>\n\nshown"),
        message("user", "more"),
    ],
    "thinking": [
        message("user", "Think."),
        message("assistant", "It is 4.", reasoning_content="2 + 2\nis 4"),
        message("user", "Sure?"),
        message("assistant", "<think>again</think>Yes."),
        message("user", "Done?"),
    ],
    "two_users": [message("user", "one"), message("user", "two")],
    "assistant_first": [message("assistant", "I start."), message("user", "Fine.")],
    "late_system": [message("user", "a"), message("system", "changed"), message("user", "b")],
    "developer": [message("developer", "Rules."), message("user", "Hi")],
    "parts": [
        message("system", [{"type": "text", "text": "Look closely."}]),
        message("user", [{"type": "text", "text": "What is "}, {"type": "text", "text": "this?"}]),
    ],
    "image": [
        message("user", [{"type": "image", "image": "x.png"}, {"type": "text", "text": "What?"}])
    ],
    "no_content": [message("user", "go"), message("assistant", None), message("user", "on")],
    "tool_turn": [
        message("system", "Use tools."),
        message("user", "Weather in São Paulo?"),
        message("assistant", "", tool_calls=[call("get_weather", CITY, "abcdefgh1")]),
        message("tool", ANSWER, name="get_weather", tool_call_id="abcdefgh1"),
    ],
    "tool_turn_answered": [
        message("user", "Weather?"),
        message("assistant", None, tool_calls=[call("get_weather", CITY, "abcdefgh1")]),
        message("tool", ANSWER, name="get_weather", tool_call_id="abcdefgh1"),
        message("assistant", "It is sunny, 21.5 °C."),
        message("user", "Thanks!"),
    ],
    "two_calls": [
        message("user", "Weather and files?"),
        message(
            "assistant",
            "Let me look.",
            tool_calls=[
                call("get_weather", {"place": "Zürich"}, "abcdefgh1"),
                call(
                    "search_files",
                    {
                        "patterns": ["*.cc", "*.h"],
                        "options": {"depth": 2, "hidden": False},
                        "limit": None,
                        "ratio": 1e-7,
                    },
                    "abcdefgh2",
                ),
            ],
        ),
        message("tool", ANSWER, name="get_weather", tool_call_id="abcdefgh1"),
        message("tool", "a.cc\nb.h", name="search_files", tool_call_id="abcdefgh2"),
    ],
    "call_without_arguments": [
        message("user", "Time?"),
        message("assistant", "", tool_calls=[call("now", {}, "abcdefgh3")]),
        message("tool", {"hour": 13, "minute": 5}, name="now", tool_call_id="abcdefgh3"),
        message("user", "And now?"),
    ],
    "arguments_as_text": [
        message("user", "Weather?"),
        message(
            "assistant", "", tool_calls=[call("get_weather", '{"place": "Bern"}', "abcdefgh4")]
        ),
        message("tool", "rain", name="get_weather", tool_call_id="abcdefgh4"),
    ],
    "python_call": [
        message("user", "Compute."),
        message("assistant", "", tool_calls=[call("python", {"code": "print(1)"}, "abcdefgh5")]),
        message("ipython", "1"),
    ],
    "long": [
        message("user" if i % 2 == 0 else "assistant", f"turn {i} " + "word " * i)
        for i in range(21)
    ],
}
TOOLS = {"no_tools": None, "weather": [WEATHER], "three": [SEARCH, BARE, WEATHER], "none": []}
EXTRAS = {
    "plain": {"bos_token": "<s>", "eos_token": "</s>"},
    "dated": {
        "bos_token": "<|begin_of_text|>",
        "eos_token": "<|eot_id|>",
        "date_string": "26 Jul 2024",
        "enable_thinking": False,
        "tools_in_user_message": False,
    },
}


def cases():
    """Every conversation with every set of tools, both prompts and both extras."""
    combined = itertools.product(MESSAGES, TOOLS, (True, False), EXTRAS)
    for name, tools, prompt, extra in combined:
        yield {
            "name": f"{name}/{tools}/{'prompt' if prompt else 'no_prompt'}/{extra}",
            "messages": MESSAGES[name],
            "tools": TOOLS[tools],
            "add_generation_prompt": prompt,
            "extra": EXTRAS[extra],
        }
