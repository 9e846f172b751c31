"""A client of the official SDK (mcp) or of fastmcp, of the agent in mcp-served.mjs: client.py mcp|fastmcp MODE URL, or COMMAND ARGS… in place of the URL.

Does all that the test looks at, and prints one JSON object of it.
"""

import json
import os
import sys

import anyio
from mcp import Client as SdkClient, StdioServerParameters
from mcp_types import ElicitResult

kind, mode, target, *args = sys.argv[1:]
is_http = target.startswith("http")
asked: list[dict] = []


async def answer_sdk(_context, params):
    asked.append({"message": params.message, "schema": params.requested_schema})
    return ElicitResult(action="accept", content={"approved": True})


async def answer_fast(message, _type, params, _context):
    asked.append({"message": message, "schema": params.requested_schema})
    return {"approved": True}


def connect():
    if kind == "mcp":
        server = target if is_http else StdioServerParameters(command=target, args=args, env=dict(os.environ))
        return SdkClient(server, mode=mode, elicitation_callback=answer_sdk)
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport

    server = target if is_http else StdioTransport(target, args, env=dict(os.environ), keep_alive=False)
    return Client(server, mode=mode, elicitation_handler=answer_fast)


async def main() -> dict:
    seen: dict = {}
    progress: list[str] = []

    async def on_progress(_progress, _total, message):
        progress.append(message)

    async with connect() as client:
        listed = await client.list_tools()
        tools = listed.tools if kind == "mcp" else listed

        async def call(message: str, on=on_progress):
            if kind == "mcp":
                return await client.call_tool("clerk", {"message": message}, progress_callback=on)
            return await client.call_tool_mcp("clerk", {"message": message}, progress_handler=on)

        def shown(result) -> dict:
            return result.model_dump(by_alias=True, mode="json", exclude_none=True)

        seen["tools"] = [{"name": tool.name, "hasOutput": tool.output_schema is not None} for tool in tools]
        session = client.session
        seen["revision"] = session.protocol_version
        seen["greeting"] = shown(await call("Greet."))
        seen["progress"] = list(progress)
        seen["approved"] = shown(await call("File it."))
        seen["asked"] = asked
        seen["failed"] = shown(await call("Fail."))
        began = anyio.Event()

        async def when_begun(_progress, _total, _message):
            began.set()

        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call, "Wait.", when_begun)
                await began.wait()
                tasks.cancel_scope.cancel()
        seen["after"] = shown(await call("Greet."))
    return seen


print(json.dumps(anyio.run(main)))
