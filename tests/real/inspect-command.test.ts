import { expect, it } from '@jest/globals';
import { LmdbStateStore } from 'millrace/lmdb';
import { AgentFolder, ServeProcess } from '../a2a/server/serve-process.ts';
import { serverBench } from '../a2a/server/test-server.ts';
import { eventually } from '../eventually.ts';
import { describeReal } from './real-part.ts';

const on = serverBench();

describeReal(['a2a'], 'millrace inspect --agent', () => {
  it('runs a turn that a POST resumes, gives it back at Ctrl-C, and the next one completes it', async () => {
    const folder = new AgentFolder();
    on.after(() => folder.remove());
    const path = folder.store.replace('lmdb:', '');
    const stored = async <T>(look: (store: LmdbStateStore) => T): Promise<T> => {
      const store = new LmdbStateStore({ path });
      try {
        return look(store);
      } finally {
        await store.close();
      }
    };
    await stored((store) =>
      store.create('t', {
        type: 'turn.started',
        schema: 3,
        taskId: 't',
        contextId: 'c',
        agentId: 'worker',
        messages: [{ role: 'user', content: 'Do both.' }],
        settings: {},
        seq: 1,
        epoch: 0,
        at: Date.now(),
      }),
    );
    const inspect = () => {
      const started = new ServeProcess(['--agent', folder.agent, '--store', folder.store, '--write'], {}, 'inspect');
      on.after(() => started.end('SIGKILL'));
      return started;
    };
    const post = async (server: ServeProcess, action: string) => {
      const [url = '', token = ''] = (await server.url()).split('#token=');
      const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
      const response = await fetch(new URL(`api/tasks/t/${action}`, url), { method: 'POST', body: '{}', headers });
      return [response.status, await response.json()];
    };
    const first = inspect();
    expect(await post(first, 'resume')).toEqual([200, { taskId: 't', runs: true }]);
    await eventually(() => folder.ledger().length === 2);
    const ended = first.end('SIGINT');
    folder.go();
    expect(await ended).toBe(130);
    expect(first.output).toContain('the inspector is closed');
    expect(await stored((store) => store.describe('t'))).toMatchObject({ state: 'working', held: false });
    const second = inspect();
    expect((await post(second, 'resume'))[0]).toBe(200);
    await eventually(async () => (await stored((store) => store.describe('t')))?.state === 'completed');
    expect(folder.ledger().filter((line) => line === 'quick')).toHaveLength(1);
    expect(await second.end('SIGINT')).toBe(130);
  });
});
