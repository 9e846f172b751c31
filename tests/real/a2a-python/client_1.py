"""Calls a server with the client of a2a-sdk 1.x over one binding; writes what came of each step as JSON."""

import asyncio
import json
import sys
from uuid import uuid4

import grpc
import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as pb

url, binding = sys.argv[1:]
steps = {}


async def step(name, work):
    try:
        steps[name] = await work
    except Exception as error:  # pylint: disable=broad-except
        steps[name] = f'{type(error).__name__}: {error}'


def state(task):
    return pb.TaskState.Name(task.status.state).removeprefix('TASK_STATE_').lower()


def request(text, message_id=None, **more):
    parts = [pb.Part(text=text)]
    message_id = message_id or str(uuid4())
    message = pb.Message(message_id=message_id, role=pb.Role.ROLE_USER, parts=parts, **more)
    return pb.SendMessageRequest(message=message)


async def main():
    async with httpx.AsyncClient(timeout=20) as http:
        card = await A2ACardResolver(http, url).get_agent_card()

        def client_of(streaming):
            config = ClientConfig(
                streaming=streaming,
                httpx_client=http,
                grpc_channel_factory=grpc.aio.insecure_channel,
                supported_protocol_bindings=[binding],
            )
            return ClientFactory(config).create(card)

        streaming, client = client_of(True), client_of(False)
        steps['transport'] = type(client._transport).__name__

        async def send(*args, **more):
            async for response in client.send_message(request(*args, **more)):
                return response.task

        async def stream(*args, **more):
            text, last = '', None
            async for response in streaming.send_message(request(*args, **more)):
                if response.HasField('artifact_update'):
                    update = response.artifact_update
                    text = (text if update.append else '') + ''.join(part.text for part in update.artifact.parts)
                if response.HasField('status_update'):
                    last = state(response.status_update)
            return [last, text]

        await step('stream', stream('Hello'))
        await step('refused stream', stream('Hello', task_id='unknown'))
        await step('rejected', send_state(send('Reject')))
        await step('rejected stream', stream('Reject'))

        task = await send('Ask', f'{binding}-first')
        steps['asked'] = state(task)
        await step('repeated', same_id(send('Ask', f'{binding}-first'), task))
        await step('reused', send('Ask again', f'{binding}-first'))
        answer = {'task_id': task.id, 'message_id': f'{binding}-second', 'extensions': ['urn:example']}
        await step('answered', send_state(send('The answer', **answer)))

        async def history(length=None):
            asked = pb.GetTaskRequest(id=task.id)
            if length is not None:
                asked.history_length = length
            found = await client.get_task(asked)
            return [[each.message_id, each.parts[0].text] for each in found.history if each.role == 1]

        await step('history', history())
        await step('no history', history(0))
        await step('history of one', history(1))

        async def subscribe():
            async for _ in streaming.subscribe(pb.SubscribeToTaskRequest(id=task.id)):
                return 'an event'

        await step('subscribed', subscribe())

        async def push():
            config = pb.TaskPushNotificationConfig(task_id=task.id, url='http://127.0.0.1:9/hook', token='t')
            made = await client.create_task_push_notification_config(config)
            named = {'task_id': task.id, 'id': made.id}
            found = await client.get_task_push_notification_config(pb.GetTaskPushNotificationConfigRequest(**named))
            deleted = await client.delete_task_push_notification_config(
                pb.DeleteTaskPushNotificationConfigRequest(**named)
            )
            every = pb.ListTaskPushNotificationConfigsRequest(task_id=task.id)
            left = await client.list_task_push_notification_configs(every)
            return [found.url, deleted, len(left.configs)]

        await step('push', push())
    print(json.dumps(steps))


async def send_state(sent):
    task = await sent
    return [state(task), task.status.message.parts[0].text]


async def same_id(sent, task):
    return (await sent).id == task.id


asyncio.run(main())
