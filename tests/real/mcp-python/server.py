"""An MCP server made with the official SDK (mcp) or with fastmcp: server.py mcp|fastmcp stdio|PORT.

What happens is noted in the file that LEDGER names, a line each. Questions go to clients of both eras: those of 2026-07-28 get them as the result.
"""

import base64
import os
import sys

import anyio
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ImageContent,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel

kind, way = sys.argv[1:]
os.environ.setdefault("FASTMCP_CHECK_FOR_UPDATES", "off")
if kind == "mcp":
    from mcp.server.mcpserver import Context, MCPServer as Server
else:
    from fastmcp import Context, FastMCP as Server

# Another process with the same key takes the state of a question.
options = {}
if "STATE_KEY" in os.environ:
    from mcp.server.mcpserver import RequestStateSecurity

    options["request_state_security"] = RequestStateSecurity(keys=[os.environ["STATE_KEY"].encode()])
server = Server("python", **options)


def note(line: str) -> None:
    with open(os.environ["LEDGER"], "a") as ledger:
        ledger.write(line + "\n")


def is_modern(ctx: Context) -> bool:
    return ctx.request_context.protocol_version >= "2026"


class Sum(BaseModel):
    sum: int


@server.tool()
def add(a: int, b: int) -> Sum:
    return Sum(sum=a + b)


@server.tool(structured_output=False) if kind == "mcp" else server.tool(output_schema=None)
def picture():
    data = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
    return [TextContent(type="text", text="A dot"), ImageContent(type="image", data=data, mime_type="image/png")]


@server.tool()
async def steps(ctx: Context) -> str:
    for step in range(1, 4):
        await ctx.report_progress(step, 3, f"step {step}")
    return "all steps"


@server.tool()
def fail() -> str:
    raise ValueError("the disk is full")


@server.tool()
async def wait(ctx: Context) -> str:
    note(f"wait begins {os.getpid()}")
    await ctx.report_progress(1, 3)
    try:
        await anyio.sleep(60)
    except anyio.get_cancelled_exc_class():
        note("wait cancelled")
        raise
    return "never read"


form = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@server.tool(structured_output=False) if kind == "mcp" else server.tool(output_schema=None)
async def ask(ctx: Context):
    note(f"ask {'begins' if not ctx.input_responses else 'is answered'}")
    if is_modern(ctx):
        if not ctx.input_responses:
            params = ElicitRequestFormParams(message="Who are you?", requested_schema=form)
            return InputRequiredResult(input_requests={"name": ElicitRequest(params=params)}, request_state="round one")
        answer = ctx.input_responses["name"]
    else:
        answer = await ctx.session.elicit_form("Who are you?", form, ctx.request_id)
    return f"{answer.action}: {(answer.content or {}).get('name')}"


@server.tool(structured_output=False) if kind == "mcp" else server.tool(output_schema=None)
async def sample(ctx: Context):
    messages = [SamplingMessage(role="user", content=TextContent(type="text", text="Which animal?"))]
    if is_modern(ctx):
        if not ctx.input_responses:
            params = CreateMessageRequestParams(messages=messages, max_tokens=10)
            return InputRequiredResult(input_requests={"model": CreateMessageRequest(params=params)})
        answer = ctx.input_responses["model"]
    else:
        answer = await ctx.session.create_message(messages, max_tokens=10, related_request_id=ctx.request_id)
    return f"The model says {answer.content.text}"


@server.resource("note://plants")
def plants() -> str:
    return "Water the plants."


note(f"started {os.getpid()}")
quiet = {} if kind == "mcp" else {"show_banner": False}
if way == "stdio":
    server.run("stdio", **quiet)
elif kind == "mcp":
    server.run("streamable-http", host="127.0.0.1", port=int(way))
else:
    server.run("http", host="127.0.0.1", port=int(way), **quiet)
