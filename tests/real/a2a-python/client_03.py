"""Calls a server with the client of a2a-sdk 0.3 over one binding; writes what came of each step as JSON."""

import asyncio
import json
import sys
from uuid import uuid4

import grpc
import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import (
    GetTaskPushNotificationConfigParams,
    Message,
    Part,
    PushNotificationConfig,
    Role,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
    TextPart,
)

url, binding = sys.argv[1:]
steps = {}


async def step(name, work):
    try:
        steps[name] = await work
    except Exception as error:  # pylint: disable=broad-except
        steps[name] = f'{type(error).__name__}: {error}'


def message(text, message_id=None, **more):
    parts = [Part(root=TextPart(text=text))]
    return Message(message_id=message_id or str(uuid4()), role=Role.user, parts=parts, **more)


async def main():
    async with httpx.AsyncClient(timeout=20) as http:
        card = await A2ACardResolver(http, url).get_agent_card()

        def client_of(streaming):
            config = ClientConfig(
                streaming=streaming,
                httpx_client=http,
                grpc_channel_factory=grpc.aio.insecure_channel,
                supported_transports=[binding],
                use_client_preference=True,
            )
            return ClientFactory(config).create(card)

        streaming, client = client_of(True), client_of(False)
        steps['transport'] = type(client._transport).__name__

        async def send(*args, **more):
            async for task, _ in client.send_message(message(*args, **more)):
                return task

        async def stream(*args, **more):
            text, last = '', None
            async for _, update in streaming.send_message(message(*args, **more)):
                if update is not None and update.kind == 'artifact-update':
                    text += ''.join(part.root.text for part in update.artifact.parts)
                if update is not None and update.kind == 'status-update':
                    last = update.status.state.value
            return [last, text]

        await step('stream', stream('Hello'))
        await step('refused stream', stream('Hello', task_id='unknown'))
        await step('rejected', send_state(send('Reject')))
        await step('rejected stream', stream('Reject'))

        task = await send('Ask', f'{binding}-first')
        steps['asked'] = task.status.state.value
        await step('repeated', same_id(send('Ask', f'{binding}-first'), task))
        await step('reused', send('Ask again', f'{binding}-first'))
        answer = {'task_id': task.id, 'message_id': f'{binding}-second', 'extensions': ['urn:example']}
        await step('answered', send_state(send('The answer', **answer)))

        async def history(length=None):
            found = await client.get_task(TaskQueryParams(id=task.id, history_length=length))
            return [[each.message_id, each.parts[0].root.text] for each in found.history or [] if each.role == Role.user]

        await step('history', history())
        await step('no history', history(0))
        await step('history of one', history(1))

        async def subscribe():
            async for _ in streaming.resubscribe(TaskIdParams(id=task.id)):
                return 'an event'

        await step('subscribed', subscribe())

        async def push(config_id, hook):
            config = PushNotificationConfig(id=config_id, url=f'http://127.0.0.1:9/{hook}', token='t')
            given = TaskPushNotificationConfig(task_id=task.id, push_notification_config=config)
            made = (await client.set_task_callback(given)).push_notification_config
            return [made.id == config_id, made.url]

        async def found(config_id=None):
            params = GetTaskPushNotificationConfigParams(id=task.id, push_notification_config_id=config_id)
            return (await client.get_task_callback(params)).push_notification_config.url

        await step('push', push('zzz', 'first'))
        await step('push without an id', push(None, 'second'))
        await step('push found', found('zzz'))
        await step('newest push', found())
        if binding == 'HTTP+JSON':
            path = f'{client._transport.url}/v1/tasks/{task.id}/pushNotificationConfigs'

            async def other_form():
                config = {'url': 'http://127.0.0.1:9/third'}
                body = {'name': f'tasks/{task.id}/pushNotificationConfigs/third', 'pushNotificationConfig': config}
                return (await http.post(path, json=body)).status_code

            async def other_task():
                body = {'parent': 'tasks/another', 'config': {'pushNotificationConfig': {'url': 'http://127.0.0.1:9'}}}
                return (await http.post(path, json=body)).status_code

            async def deletion():
                response = await http.delete(f'{path}/zzz')
                return [response.status_code, response.json()]

            await step('push in the other form', other_form())
            await step('push of another task', other_task())
            await step('newest push then', found())
            await step('push deleted', deletion())
    print(json.dumps(steps))


async def send_state(sent):
    task = await sent
    return [task.status.state.value, task.status.message.parts[0].root.text]


async def same_id(sent, task):
    return (await sent).id == task.id


asyncio.run(main())
