import assert from 'node:assert/strict';
import { AgentLoopError, agent, InMemoryStateStore } from 'millrace';
import { faultyStore, scriptedLLM } from 'millrace/testing';
import { legacyMessage } from '../legacy-schema.ts';
import { Serving } from '../serving.ts';
import type { Rule } from './rule.ts';

const video = { raw: 'AA==', mediaType: 'video/mp4' };
const hi = { messageId: 'hi', role: 'ROLE_USER', parts: [{ text: 'Hi' }] };

async function withServing(work: (serving: Serving) => Promise<void>): Promise<void> {
  const provider = scriptedLLM([{ text: 'Hi.' }]);
  const serving = await Serving.start({
    agent: agent({ id: 'ada', provider, taskStateStore: new InMemoryStateStore() }),
  });
  try {
    await work(serving);
  } finally {
    await serving.close();
  }
}

/** What is wrong, method, parameters, the code of JSON-RPC, the reason of 1.0. */
const errors: readonly (readonly [string, string, unknown, number, string])[] = [
  ['no such task', 'GetTask', { id: crypto.randomUUID() }, -32001, 'TASK_NOT_FOUND'],
  ['no push', 'CreateTaskPushNotificationConfig', { taskId: 't', url: 'x' }, -32003, 'PUSH_NOTIFICATION_NOT_SUPPORTED'],
  ['no extended card', 'GetExtendedAgentCard', {}, -32004, 'UNSUPPORTED_OPERATION'],
  ['a video', 'SendMessage', { message: { ...hi, parts: [video] } }, -32005, 'CONTENT_TYPE_NOT_SUPPORTED'],
  ['an unknown role', 'SendMessage', { message: { ...hi, role: 'user' } }, -32602, 'INVALID_PARAMS'],
  ['no parts', 'SendMessage', { message: { ...hi, parts: [] } }, -32602, 'INVALID_PARAMS'],
  ['too long a page', 'ListTasks', { pageSize: 1000 }, -32602, 'INVALID_PARAMS'],
];

export const wireRules: readonly Rule[] = [
  ...errors.map(
    ([what, method, params, code, reason]): Rule => ({
      where: '1.0 §9.5',
      must: `an error MUST have its code, a message and its reason: ${what} ${code} ${reason}`,
      check: () =>
        withServing(async (serving) => {
          const { error, result } = await serving.rpc(method, params);
          assert.equal(result, undefined);
          assert.deepEqual([error?.code, error?.data?.[0]?.reason], [code, reason]);
          assert.ok(error && error.message.length > 10);
        }),
    }),
  ),
  {
    where: '1.0 §11.6',
    must: 'an error over HTTP MUST have its status and the same reason',
    check: () =>
      withServing(async ({ url }) => {
        const response = await fetch(`${url}/rest/tasks/${crypto.randomUUID()}`, { headers: { 'A2A-Version': '1.0' } });
        assert.equal(response.status, 404);
        assert.match(await response.text(), /"reason":"TASK_NOT_FOUND"/);
      }),
  },
  {
    where: '1.0 §3.6.2',
    must: 'a version that is not supported MUST be answered with VersionNotSupported',
    check: () =>
      withServing(async (serving) => {
        const { error } = await serving.rpc('SendMessage', { message: hi }, { 'A2A-Version': '7.0' });
        assert.equal(error?.code, -32009);
      }),
  },
  {
    where: '1.0 §3.6.2',
    must: 'each request MUST be answered in the words of the version that it names, also for one task',
    check: () =>
      withServing(async (serving) => {
        const legacy = { 'A2A-Version': '0.3' };
        const sent = await serving.rpc(
          'message/send',
          { message: legacyMessage('Hi'), configuration: { blocking: true } },
          legacy,
        );
        const { kind, id, status } = Object(sent.result);
        assert.deepEqual([kind, status.state], ['task', 'completed']);
        const { result } = await serving.rpc('GetTask', { id });
        assert.equal(Object(result).status.state, 'TASK_STATE_COMPLETED');
        assert.equal(Object(result).kind, undefined);
      }),
  },
  {
    where: '0.3 §7.1',
    must: 'the result of message/send MUST be a task or a message, with its kind',
    check: () =>
      withServing(async (serving) => {
        const answer = await serving.rpc('message/send', { message: legacyMessage('Hi') }, { 'A2A-Version': '0.3' });
        assert.equal(Object(answer.result).kind, 'task');
      }),
  },
  {
    where: '0.3 §8',
    must: 'errors MUST have the codes of A2A',
    check: () =>
      withServing(async (serving) => {
        const legacy = { 'A2A-Version': '0.3' };
        const codes: (number | undefined)[] = [];
        for (const method of ['tasks/get', 'tasks/cancel'])
          codes.push((await serving.rpc(method, { id: crypto.randomUUID() }, legacy)).error?.code);
        assert.deepEqual(codes, [-32001, -32001]);
      }),
  },
  {
    where: '1.0 §3.3.2',
    must: 'a failure inside MUST be an internal error that says nothing of the inside',
    async check() {
      const error = new AgentLoopError('UNAVAILABLE', 'connect ECONNREFUSED redis.internal:6379');
      const plan = { method: 'read', fault: 'fail-before', call: 1, calls: Number.POSITIVE_INFINITY, error } as const;
      const taskStateStore = faultyStore(new InMemoryStateStore(), [plan]);
      const serving = await Serving.start({ agent: agent({ id: 'ada', provider: scriptedLLM([]), taskStateStore }) });
      try {
        const answer = await serving.rpc('SendMessage', { message: hi });
        assert.equal(answer.error?.code, -32603);
        assert.doesNotMatch(JSON.stringify(answer), /redis|ECONNREFUSED/);
      } finally {
        await serving.close();
      }
    },
  },
];
