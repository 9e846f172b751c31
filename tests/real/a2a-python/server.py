"""Serves an agent of the official Python SDK, version 1.x or 0.3.x, whichever is installed:
`server.py JSONRPC|HTTP+JSON|GRPC port port-of-the-card [plain]`. With `plain` its card has no streaming. gRPC listens on the port of the card.

What a message says is what the agent does: `words <count> <seed>` writes words with varying delays,
`steady <count>` one every 10 ms, `hang` never ends,
`forget` returns without an end, `raise` raises after it began, `reject` rejects, `say` answers with a message,
`late` with a message once `/release` is requested, `ask` asks and then repeats the answer.
"""

import asyncio
import json
import random
import sys

import grpc
import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a import types

transport, port, card_port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
streaming = sys.argv[4:] != ['plain']
is_v1 = not hasattr(types, 'TextPart')
# The REST application of 0.3 has its card below its own address.
path = '' if transport == 'HTTP+JSON' and not is_v1 else '/a2a'
url = f'127.0.0.1:{card_port}' if transport == 'GRPC' else f'http://127.0.0.1:{card_port}{path}'

if is_v1:
    from a2a.helpers import new_task_from_user_message as new_task
    from a2a.helpers import new_text_message as new_message

    def text_part(text):
        return types.Part(text=text)

    def parts_text(message):
        return ''.join(part.text for part in message.parts)
else:
    from a2a.utils import new_agent_text_message as new_message
    from a2a.utils import new_task

    def text_part(text):
        return types.Part(root=types.TextPart(text=text))

    def parts_text(message):
        return ''.join(part.root.text for part in message.parts)


received = []
canceled = []
released = asyncio.Event()


class Scripted(AgentExecutor):
    async def execute(self, context, event_queue):
        received.append(context.message.message_id)
        said = parts_text(context.message)
        command, *arguments = said.split(' ')
        if command == 'late':
            await released.wait()
        if command in ('say', 'late') and not context.current_task:
            await event_queue.enqueue_event(new_message(' '.join(arguments)))
            return
        task = context.current_task
        if not task:
            task = new_task(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        if command == 'words':
            await write(updater, int(arguments[0]), random.Random(arguments[1]))
            await updater.complete()
        elif command == 'steady':
            for index in range(int(arguments[0])):
                await updater.add_artifact([text_part(f'w{index} ')], artifact_id='a', append=index > 0)
                await asyncio.sleep(0.01)
            await updater.complete()
        elif command == 'hang':
            await updater.add_artifact([text_part('Half')], artifact_id='a')
            await asyncio.sleep(3600)
        elif command == 'raise':
            await updater.add_artifact([text_part('Half')], artifact_id='a')
            raise RuntimeError('out of order')
        elif command == 'reject':
            await updater.reject(updater.new_agent_message([text_part('Not today.')]))
        elif command == 'ask':
            await updater.add_artifact([text_part('Before. ')], artifact_id='a')
            await updater.requires_input(updater.new_agent_message([text_part('Which one?')]))
        elif command != 'forget':
            await updater.add_artifact([text_part(f'You said {said}.')], artifact_id='b')
            await updater.complete()

    async def cancel(self, context, event_queue):
        canceled.append(context.task_id)
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


async def write(updater, count, chance):
    for index in range(count):
        text = f'w{index} '
        await updater.add_artifact([text_part(text)], artifact_id='a', append=index > 0)
        wait = chance.choice([0, 0, 0.001, 0.005, 0.02])
        if wait or chance.random() < 0.5:
            await asyncio.sleep(wait)


skills = [types.AgentSkill(id='s', name='Writing', description='Writes', tags=['words'])]
common = dict(
    name='Python',
    description='Is made of the Python SDK.',
    version='1',
    default_input_modes=['text'],
    default_output_modes=['text'],
    capabilities=types.AgentCapabilities(streaming=streaming),
    skills=skills,
)

if is_v1:
    from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
    from starlette.applications import Starlette

    interface = types.AgentInterface(url=url, protocol_binding=transport, protocol_version='1.0')
    card = types.AgentCard(supported_interfaces=[interface], **common)
    handler = DefaultRequestHandler(Scripted(), InMemoryTaskStore(), card)
    routes = {
        'JSONRPC': lambda: create_jsonrpc_routes(handler, path),
        'HTTP+JSON': lambda: create_rest_routes(handler, path_prefix=path),
        'GRPC': lambda: [],
    }[transport]()
    app = Starlette(routes=[*create_agent_card_routes(card), *routes])
else:
    from a2a.server.apps import A2ARESTFastAPIApplication, A2AStarletteApplication

    card = types.AgentCard(url=url, preferred_transport=transport, **common)
    handler = DefaultRequestHandler(Scripted(), InMemoryTaskStore())
    # The card of one over gRPC is that of the other application.
    if transport != 'HTTP+JSON':
        app = A2AStarletteApplication(card, handler).build(rpc_url=path)
    else:
        app = A2ARESTFastAPIApplication(card, handler).build(rpc_url=path)


class Seen:
    """Tells, at /seen, which messages came and which tasks were cancelled; /release too, and answers those that are late."""

    def __init__(self, inner):
        self.inner = inner

    async def __call__(self, scope, receive, send):
        if scope['type'] != 'http' or scope['path'] not in ('/seen', '/release'):
            await self.inner(scope, receive, send)
            return
        if scope['path'] == '/release':
            released.set()
        body = json.dumps({'received': received, 'canceled': canceled}).encode()
        headers = [(b'content-type', b'application/json')]
        await send({'type': 'http.response.start', 'status': 200, 'headers': headers})
        await send({'type': 'http.response.body', 'body': body})


async def serve_grpc():
    from a2a.server.request_handlers import GrpcHandler

    if is_v1:
        from a2a.types import a2a_pb2_grpc

        service = GrpcHandler(handler)
    else:
        from a2a.grpc import a2a_pb2_grpc

        service = GrpcHandler(card, handler)
    server = grpc.aio.server()
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(service, server)
    server.add_insecure_port(f'127.0.0.1:{card_port}')
    await server.start()
    return server


async def main():
    # Kept: a server that nobody refers to stops.
    listening = await serve_grpc() if transport == 'GRPC' else None
    await uvicorn.Server(uvicorn.Config(Seen(app), host='127.0.0.1', port=port, log_level='warning')).serve()
    del listening


asyncio.run(main())
