import type { Random } from '../../crash/random.ts';
import { type Attacked, attackedServer } from './a2a-server.ts';
import type { Outcome, Target } from './fuzz-run.ts';
import { bodyOf, faultOf } from './http-answer.ts';
import { mangled, mutated, oddHeader } from './mutations.ts';

interface Sent {
  readonly path: string;
  readonly method: string;
  readonly version: string | undefined;
  readonly body?: unknown;
}

type Template = (server: Attacked, random: Random) => Sent;

const words = (random: Random) => random.pick(['Refund', 'Hi', 'Hello', 'Go']);

function currentMessage(server: Attacked, random: Random) {
  const parts = random.pick<readonly unknown[]>([
    [{ text: words(random) }],
    [{ data: { answers: { '1:0': { approved: random.chance(0.5) } } } }],
    [
      { raw: 'aGk=', mediaType: 'text/plain', filename: 'hi.txt' },
      { url: 'https://example.com/x.png', mediaType: 'image/png' },
    ],
  ]);
  const task = random.chance(0.5) ? { taskId: server.taskId(random) } : { contextId: random.pick(['c', 'd e', '']) };
  return {
    message: { messageId: `m${random.int(1, 1_000_000)}`, role: 'ROLE_USER', parts, ...task, metadata: { a: 1 } },
    configuration: {
      acceptedOutputModes: ['text/plain'],
      historyLength: random.int(0, 3),
      returnImmediately: random.chance(0.3),
      ...(random.chance(0.2) && { taskPushNotificationConfig: { url: server.hook, token: 't' } }),
    },
    metadata: {},
  };
}

function legacyMessage(server: Attacked, random: Random) {
  const parts = random.pick<readonly unknown[]>([
    [{ kind: 'text', text: words(random) }],
    [{ kind: 'data', data: { answers: { '1:0': { approved: true } } } }],
    [{ kind: 'file', file: { bytes: 'aGk=', name: 'hi.txt', mimeType: 'text/plain' } }],
  ]);
  const task = random.chance(0.5) ? { taskId: server.taskId(random) } : {};
  return {
    message: { kind: 'message', messageId: `l${random.int(1, 1_000_000)}`, role: 'user', parts, ...task },
    configuration: { blocking: random.chance(0.5), historyLength: 1, acceptedOutputModes: ['text/plain'] },
  };
}

const push = (server: Attacked) => ({
  url: server.hook,
  token: 't',
  authentication: { scheme: 'Bearer', credentials: 'c' },
});

const currentCalls: readonly [string, (server: Attacked, random: Random) => object][] = [
  ['SendMessage', currentMessage],
  ['SendStreamingMessage', currentMessage],
  ['GetTask', (server, random) => ({ id: server.taskId(random), historyLength: 1 })],
  [
    'ListTasks',
    () => ({
      contextId: 'c',
      status: 'TASK_STATE_COMPLETED',
      pageSize: 5,
      pageToken: '',
      historyLength: 1,
      includeArtifacts: true,
    }),
  ],
  ['CancelTask', (server, random) => ({ id: server.taskId(random) })],
  ['SubscribeToTask', (server, random) => ({ id: server.taskId(random) })],
  ['CreateTaskPushNotificationConfig', (server, random) => ({ taskId: server.taskId(random), ...push(server) })],
  ['GetTaskPushNotificationConfig', (server, random) => ({ taskId: server.taskId(random), id: 'x' })],
  ['ListTaskPushNotificationConfigs', (server, random) => ({ taskId: server.taskId(random), pageSize: 3 })],
  ['DeleteTaskPushNotificationConfig', (server, random) => ({ taskId: server.taskId(random), id: 'x' })],
  ['GetExtendedAgentCard', () => ({})],
];

const legacyCalls: typeof currentCalls = [
  ['message/send', legacyMessage],
  ['message/stream', legacyMessage],
  ['tasks/get', (server, random) => ({ id: server.taskId(random), historyLength: 1 })],
  ['tasks/cancel', (server, random) => ({ id: server.taskId(random) })],
  ['tasks/resubscribe', (server, random) => ({ id: server.taskId(random) })],
  [
    'tasks/pushNotificationConfig/set',
    (server, random) => ({
      taskId: server.taskId(random),
      pushNotificationConfig: { url: server.hook, authentication: { schemes: ['Bearer'] } },
    }),
  ],
  [
    'tasks/pushNotificationConfig/get',
    (server, random) => ({ id: server.taskId(random), pushNotificationConfigId: 'x' }),
  ],
  ['tasks/pushNotificationConfig/list', (server, random) => ({ id: server.taskId(random) })],
  [
    'tasks/pushNotificationConfig/delete',
    (server, random) => ({ id: server.taskId(random), pushNotificationConfigId: 'x' }),
  ],
  ['agent/getAuthenticatedExtendedCard', () => ({})],
];

const path = '/a2a/jsonrpc';

function rpc(version: string, calls: typeof currentCalls): Template {
  return (server, random) => {
    const [method, params] = calls[random.int(0, calls.length - 1)] ?? ['GetTask', () => ({})];
    return {
      path,
      method: 'POST',
      version,
      body: { jsonrpc: '2.0', id: random.int(1, 9), method, params: params(server, random) },
    };
  };
}

function at(
  method: string,
  version: string,
  path: (id: string) => string,
  body?: (server: Attacked, random: Random) => unknown,
): Template {
  return (server, random) => ({
    method,
    version,
    path: `/a2a/rest${path(server.taskId(random))}`,
    ...(body && { body: body(server, random) }),
  });
}

const restTemplates: readonly Template[] = [
  ...(['', '/v1'] as const).flatMap((prefix) => {
    const version = prefix === '' ? '1.0' : '0.3';
    const message = prefix === '' ? currentMessage : (server: Attacked, random: Random) => legacyRest(server, random);
    const configs = (id: string) => `${prefix}/tasks/${id}/pushNotificationConfigs`;
    const config = (server: Attacked) =>
      prefix === '' ? push(server) : { config: { pushNotificationConfig: push(server) } };
    return [
      at('POST', version, () => `${prefix}/message:send`, message),
      at('POST', version, () => `${prefix}/message:stream`, message),
      at('GET', version, (id) => `${prefix}/tasks/${id}?historyLength=1`),
      at(
        'POST',
        version,
        (id) => `${prefix}/tasks/${id}:cancel`,
        () => ({}),
      ),
      at(
        'POST',
        version,
        (id) => `${prefix}/tasks/${id}:subscribe`,
        () => ({}),
      ),
      at('GET', version, (id) => `${prefix}/tasks/${id}:subscribe`),
      at('POST', version, configs, config),
      at('GET', version, configs),
      at('GET', version, (id) => `${configs(id)}/x`),
      at('DELETE', version, (id) => `${configs(id)}/x`),
    ];
  }),
  at(
    'GET',
    '1.0',
    () =>
      '/tasks?contextId=c&status=TASK_STATE_COMPLETED&pageSize=5&pageToken=&historyLength=1&includeArtifacts=true&statusTimestampAfter=2026-01-01T00:00:00Z',
  ),
  at('GET', '1.0', () => '/extendedAgentCard'),
  at('GET', '0.3', () => '/v1/card'),
];

function legacyRest(server: Attacked, random: Random) {
  const content = [{ text: words(random) }];
  const task = random.chance(0.5) ? { taskId: server.taskId(random) } : {};
  return {
    request: { messageId: `l${random.int(1, 1_000_000)}`, role: 'ROLE_USER', content, ...task },
    configuration: { blocking: true },
  };
}

export const jsonRpcTarget = () =>
  httpTarget('A2A over JSON-RPC', (server, random) =>
    (random.chance(0.6) ? rpc('1.0', currentCalls) : rpc('0.3', legacyCalls))(server, random),
  );

export const restTarget = () =>
  httpTarget('A2A over HTTP+JSON', (server, random) => {
    const template = restTemplates[random.int(0, restTemplates.length - 1)] ?? at('GET', '1.0', () => '/tasks');
    return template(server, random);
  });

async function httpTarget(name: string, draw: Template): Promise<Target> {
  const server = await attackedServer();
  return {
    name,
    close: () => server.close(),
    send: (random) => send(server, random, draw(server, random)),
  };
}

async function send(server: Attacked, random: Random, { path, method, version, body }: Sent): Promise<Outcome> {
  const headers: Record<string, string> = { 'content-type': 'application/json' };
  if (version !== undefined) headers['a2a-version'] = version;
  let target = path;
  let text = body === undefined ? undefined : JSON.stringify(body);
  // One in eight stays as it should be: the server has to have something to be attacked about.
  switch (random.int(0, 7)) {
    case 0:
      break;
    case 1:
      headers[
        random.pick([
          'content-type',
          'a2a-version',
          'a2a-extensions',
          'accept',
          'last-event-id',
          'content-encoding',
          'x-forwarded-for',
          'traceparent',
        ])
      ] = oddHeader(random);
      break;
    case 2:
      target = `/${mangled(path.slice(1), random).replace(/[^\x21-\x7e]/g, encodeURIComponent0)}`;
      break;
    case 3:
      text = text === undefined ? undefined : mangled(text, random);
      break;
    default:
      if (body === undefined) target = mangledQuery(path, random);
      else text = JSON.stringify(mutated(body, random));
  }
  const request = `${method} ${target} ${JSON.stringify(headers)} ${text?.slice(0, 500) ?? ''}`;
  if (!URL.canParse(server.url + target)) return { sent: request };
  const response = await fetch(server.url + target, {
    method,
    headers,
    ...(text !== undefined && { body: text }),
  }).catch((error: unknown) => error);
  // Headers that no client may send are refused by ours.
  if (!(response instanceof Response)) return isOurs(response) ? { sent: request } : Promise.reject(response);
  const answer = await bodyOf(response);
  server.saw(answer);
  const fault = faultOf(response.status, answer);
  return { sent: request, ...(fault !== undefined && { fault }) };
}

function isOurs(error: unknown): boolean {
  return error instanceof TypeError && !('cause' in error && error.cause);
}

function encodeURIComponent0(character: string): string {
  try {
    return encodeURIComponent(character);
  } catch {
    return '%ED%A0%80';
  }
}

function mangledQuery(path: string, random: Random): string {
  const [before = '', query = ''] = path.split('?');
  const odd = random.pick([
    '-1',
    '1e9',
    'x',
    '',
    '%00',
    '%F0',
    '0',
    'TASK_STATE_NONE',
    '2026-99-99',
    'true&true',
    'a'.repeat(300),
    '[]',
    '1.5',
  ]);
  const names = [
    ...new URLSearchParams(query).keys(),
    'historyLength',
    'pageSize',
    'pageToken',
    'A2A-Version',
    'tenant',
  ];
  return `${before}?${query}${query && '&'}${names[random.int(0, names.length - 1)] ?? 'x'}=${odd}`;
}
