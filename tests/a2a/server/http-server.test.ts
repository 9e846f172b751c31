import { describe, expect, it } from '@jest/globals';
import { apiKeyAuth } from '../../../src/a2a/index.ts';
import { clientOf, key, message, rpc, serverBench, wireMessage, wires } from './test-server.ts';

const on = serverBench();

describe('a2aServer', () => {
  it.each(wires)('serves an agent over %s in version %s', async (binding, version) => {
    const { url } = await on.serve({ agent: on.echo([{ text: 'Hello.' }, { text: ['Hel', 'lo.'] }]) });
    const client = await clientOf(url, { binding, version });
    const task = await client.sendMessage(message('Hi'));
    expect(task).toMatchObject({ status: { state: 3 }, artifacts: [{ artifactId: 'answer-1' }] });
    const kinds: string[] = [];
    for await (const { payload } of client.sendMessageStream(message('Hi'))) kinds.push(payload?.$case ?? '');
    expect(kinds[0]).toBe('task');
    expect(kinds).toContain('artifactUpdate');
    expect(kinds.at(-1)).toBe('statusUpdate');
  });

  it('asks for a key before anything of a request is read, and says how', async () => {
    const auth = apiKeyAuth({ keys: [{ id: 'alice', key }] });
    const { url } = await on.serve({ agent: on.echo([{ text: 'Hello.' }]), auth });
    const refused = await rpc(url, 'SendMessage', wireMessage('Hi'));
    expect(refused.status).toBe(401);
    expect(refused.headers.get('www-authenticate')).toBe('ApiKey header="x-api-key"');
    expect(await refused.json()).toMatchObject({ error: { code: -32000, message: 'Authentication is required.' } });
    const wrong = await rpc(url, 'SendMessage', wireMessage('Hi'), { 'x-api-key': `${key}x` });
    expect(wrong.status).toBe(401);
    const answered = await rpc(url, 'SendMessage', wireMessage('Hi'), { 'x-api-key': key });
    expect(await answered.json()).toMatchObject({ result: { task: { status: { state: 'TASK_STATE_COMPLETED' } } } });
  });
});
