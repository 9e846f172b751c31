"""The OpenAI Agents SDK for Python as its users have it, in the protocol of client.mjs: one JSON object a line in, one out."""

import asyncio
import json
import sys

from agents import (
    Agent,
    HostedMCPTool,
    Runner,
    set_default_openai_api,
    set_default_openai_client,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

set_tracing_disabled(True)
hosted = HostedMCPTool(
    tool_config={
        "type": "mcp",
        "server_label": "clerk",
        "server_url": "https://localhost/none",
        "require_approval": "always",
    }
)


class Chat:
    def __init__(self, settings: dict) -> None:
        self.settings = settings
        self.is_chat = settings["endpoint"] == "chat"
        self.client = AsyncOpenAI(
            base_url=settings["baseURL"], api_key=settings["apiKey"], default_headers=settings.get("headers")
        )
        self.agent = Agent(name="Shop", model="clerk", tools=[] if self.is_chat else [hosted])
        self.last = None

    async def ask(self, given) -> dict:
        set_default_openai_client(self.client, use_for_tracing=False)
        set_default_openai_api("chat_completions" if self.is_chat else "responses")
        options = {}
        by = self.settings.get("by")
        if by == "previous" and self.last:
            options["previous_response_id"] = self.last.last_response_id
        if by == "conversation":
            options["conversation_id"] = "conv_1"
        if self.settings["stream"]:
            result = Runner.run_streamed(self.agent, given, **options)
            self.last = result
            async for _ in result.stream_events():
                pass
        else:
            self.last = await Runner.run(self.agent, given, **options)
        asks = [
            {"name": each.name, "input": json.loads(each.arguments)} for each in self.last.interruptions
        ]
        return {"text": self.last.final_output or "", "asks": asks}

    async def say(self, content: str) -> dict:
        message = {"role": "user", "content": content}
        sends_all = self.last and (self.settings.get("by") == "history" or self.is_chat)
        return await self.ask([*self.last.to_input_list(), message] if sends_all else [message])

    async def decide(self, approved: bool) -> dict:
        state = self.last.to_state()
        for each in self.last.interruptions:
            state.approve(each) if approved else state.reject(each)
        return await self.ask(state)


async def main() -> None:
    chats: dict[str, Chat] = {}
    print('{"ready":true}', flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        settings = json.loads(line)
        chat = chats.setdefault(settings["name"], Chat(settings))
        try:
            shown = await (chat.say(settings["say"]) if "say" in settings else chat.decide(settings["decide"]))
        except Exception as error:  # What a user would be shown.
            message = str(getattr(error, "message", None) or error).split("\n")[0]
            status, code = getattr(error, "status_code", None), getattr(error, "code", None)
            shown = {"text": "", "asks": [], "error": {"name": type(error).__name__, "status": status, "code": code, "message": message}}
        print(json.dumps(shown), flush=True)


asyncio.run(main())
