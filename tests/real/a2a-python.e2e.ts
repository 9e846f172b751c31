import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { type Agent, agent, agentTools, InMemoryStateStore, systemClock } from 'millrace';
import { type RemoteAgentOptions, remoteAgent } from 'millrace/a2a';
import { fakeClock, scriptedLLM } from 'millrace/testing';
import { textsOf, watch } from '../core/watch-events.ts';
import { eventually } from '../eventually.ts';
import { ChildPrograms, kill, nextMessage } from '../stores/lmdb/child-programs.ts';
import { TemporaryStores } from '../stores/lmdb/temporary-stores.ts';
import { freePort } from '../stores/redis/free-port.ts';
import { type PythonServer, startPythonServer } from './a2a-python-server.ts';
import { CuttingProxy } from './cutting-proxy.ts';
import { describeReal } from './real-part.ts';

const servers = [
  ['a2a-python-1', 'JSONRPC'],
  ['a2a-python-1', 'HTTP+JSON'],
  ['a2a-python-0.3', 'JSONRPC'],
  ['a2a-python-0.3', 'HTTP+JSON'],
] as const;

const turns = 16;
const wordsOf = (count: number) => Array.from({ length: count }, (_, index) => `w${index} `).join('');

for (const [part, transport] of servers) {
  // The SDK's client of 0.3 loses `append` over HTTP+JSON, so the task is polled there.
  const isLegacy = part === 'a2a-python-0.3';
  const streams = !isLegacy || transport === 'JSONRPC';

  describeReal([part], `remoteAgent of the official Python server over ${transport}`, () => {
    let server: PythonServer;
    let proxy: CuttingProxy;
    const programs = new ChildPrograms('tests/a2a/client/children');
    const stores = new TemporaryStores();
    const connect = (options: Partial<RemoteAgentOptions> = {}): Promise<Agent> =>
      remoteAgent({ url: `http://127.0.0.1:${proxy.port}`, taskStateStore: new InMemoryStateStore(), ...options });

    beforeAll(async () => {
      const port = await freePort();
      proxy = await CuttingProxy.start(port);
      server = await startPythonServer(part, transport, { port, at: proxy.port });
    });
    afterAll(async () => {
      await Promise.all([programs.clear(), stores.clear()]);
      await proxy.close();
      await server.close();
    });

    it(`shows every word once in each of ${turns} turns that are written at varying speeds`, async () => {
      const far = await connect();
      const before = (await server.seen()).received.length;
      for (let turn = 0; turn < turns; turn++) {
        const count = 10 + 7 * turn;
        const running = far.startTurn(`words ${count} ${part}-${transport}-${turn}`);
        const reader = watch(running);
        const { text } = await running.result();
        expect(text).toBe(wordsOf(count));
        expect(Object.values(textsOf(reader.events))).toEqual([wordsOf(count)]);
        const chunks = reader.of('artifact-update').filter(({ append }) => append === true);
        if (streams) expect(chunks.length).toBeGreaterThanOrEqual(count / 2);
      }
      expect((await server.seen()).received).toHaveLength(before + turns);
    });

    it('P-12 shows every word of 15 turns of 200 words that are written 10 ms apart', async () => {
      const far = await connect();
      const all = Array.from({ length: 15 }, async (_, turn) => {
        const running = far.startTurn('steady 200', { contextId: `steady-${turn}` });
        const reader = watch(running);
        const { text } = await running.result();
        return [text, ...Object.values(textsOf(reader.events))];
      });
      for (const texts of await Promise.all(all)) expect(texts).toEqual([wordsOf(200), wordsOf(200)]);
    });

    it('shows every word once where the stream breaks in the middle, and the next one too', async () => {
      const far = await connect();
      const before = (await server.seen()).received.length;
      for (let turn = 0; turn < 4; turn++) {
        const cuts = proxy.cuts;
        const running = far.startTurn(`words 200 cut-${turn}`);
        const reader = watch(running);
        await reader.until('artifact-update');
        proxy.cut({ after: 1_500 + 1_000 * turn, times: 1 });
        expect((await running.result()).text).toBe(wordsOf(200));
        expect(Object.values(textsOf(reader.events))).toEqual([wordsOf(200)]);
        if (streams) expect(proxy.cuts).toBe(cuts + 1);
      }
      expect((await server.seen()).received).toHaveLength(before + 4);
    });

    it.each(['hang', 'forget'])('H-13 ends a task that its server does not (%s), and cancels it', async (command) => {
      const far = await connect({ taskTimeoutMs: 1_500, silenceMs: 400 });
      const before = (await server.seen()).canceled.length;
      await expect(far.run(command)).rejects.toMatchObject({
        code: 'PROVIDER_TIMEOUT',
        message: expect.stringMatching(/did not end its task within 1500 ms: raise taskTimeoutMs/),
      });
      expect((await server.seen()).canceled).toHaveLength(before + 1);
    });

    it('P-13 ends a task that its server keeps as it is, and cancels it', async () => {
      const far = await connect({ maxSilenceMs: 1_000, silenceMs: 300 });
      const before = (await server.seen()).canceled.length;
      await expect(far.run('hang')).rejects.toMatchObject({
        code: 'PROVIDER_TIMEOUT',
        reason: 'remote_task_silent',
        message: expect.stringMatching(/has not changed for 1000 ms: raise maxSilenceMs/),
      });
      expect((await server.seen()).canceled).toHaveLength(before + 1);
    });

    it('P-13 ends a task whose executor raised: as its server does, else after maxSilenceMs, with a cancel', async () => {
      const far = await connect({ maxSilenceMs: 1_000, silenceMs: 300 });
      const before = (await server.seen()).canceled.length;
      const error = isLegacy ? { code: 'PROVIDER_TIMEOUT', reason: 'remote_task_silent' } : { code: 'PROVIDER_FAILED' };
      await expect(far.run('raise')).rejects.toMatchObject(error);
      expect((await server.seen()).canceled).toHaveLength(isLegacy ? before + 1 : before);
    });

    it('P-13 ends the task of a sub-agent, whose parent reads why and continues', async () => {
      const far = await connect({ name: 'far', description: 'Far.', maxSilenceMs: 1_000, silenceMs: 300 });
      const before = (await server.seen()).canceled.length;
      const provider = scriptedLLM([
        { toolCalls: [{ name: 'far', arguments: { message: 'hang' } }] },
        { text: 'Late.' },
      ]);
      const near = agent({ name: 'near', provider, toolProviders: [agentTools([far])] });
      const { text, messages } = await near.run('Ask far.');
      expect(text).toBe('Late.');
      expect(messages[1]).toMatchObject({
        role: 'tool',
        status: 'error',
        content: expect.stringMatching(/maxSilenceMs/),
      });
      expect((await server.seen()).canceled).toHaveLength(before + 1);
      provider.assertDone();
    });

    it('P-13 ends the task of a process that was killed, from the next one', async () => {
      const before = (await server.seen()).canceled.length;
      const path = stores.path();
      const child = programs.start('turn', `http://127.0.0.1:${proxy.port}`, path, 'hang');
      await nextMessage(child);
      await kill(child);
      const taskStateStore = stores.open({ path });
      await eventually(() => !taskStateStore.list().some(({ held }) => held));
      const times = { leaseMs: 1_000, maxSilenceMs: 1_000, silenceMs: 300 };
      const far = await connect({ id: 'far', contextId: 'c', taskStateStore, ...times });
      await expect(far.resume('t').result()).rejects.toMatchObject({
        code: 'PROVIDER_TIMEOUT',
        reason: 'remote_task_silent',
      });
      expect((await server.seen()).canceled).toHaveLength(before + 1);
    });

    it('P-13 does not count the time in which it waits for an answer', async () => {
      let passedMs = 0;
      const clock = { ...systemClock, now: () => Date.now() + passedMs };
      const far = await connect({ clock, taskTimeoutMs: 60_000, maxSilenceMs: 30_000 });
      const { questions } = await far.run('ask', { taskId: 'asking' });
      passedMs = 3_600_000;
      const answers = { [questions[0]?.id ?? '']: 'Later' };
      expect((await far.resume('asking', { answers }).result()).text).toBe('Before. \n\nYou said Later.');
    });

    it('cancels the remote task with the turn', async () => {
      const far = await connect();
      const before = (await server.seen()).canceled.length;
      const running = far.startTurn('hang');
      await watch(running).until('artifact-update');
      await running.cancel();
      expect((await server.seen()).canceled).toHaveLength(before + 1);
    });

    it('leaves the remote task where the process shuts down, and the next process continues it', async () => {
      const taskStateStore = new InMemoryStateStore();
      const leaving = new AbortController();
      const before = await server.seen();
      const running = (
        await connect({ id: 'far', contextId: 'c', taskStateStore, shutdown: leaving.signal })
      ).startTurn('words 150 left', { taskId: 'left' });
      await watch(running).until('artifact-update');
      leaving.abort();
      await expect(running.result()).rejects.toMatchObject({ code: 'SHUTDOWN' });
      const next = await connect({ id: 'far', contextId: 'c', taskStateStore });
      expect((await next.resume('left').result()).text).toBe(wordsOf(150));
      const after = await server.seen();
      expect(after.received).toHaveLength(before.received.length + 1);
      expect(after.canceled).toEqual(before.canceled);
    });

    it('is answered by a message without a task', async () => {
      const running = (await connect()).startTurn('say Just so.');
      const reader = watch(running);
      expect((await running.result()).text).toBe('Just so.');
      const pieces = reader.of('artifact-update').flatMap(({ artifact }) => artifact.parts);
      expect(pieces.filter((part) => part.kind === 'text' && part.text !== '')).toEqual([
        { kind: 'text', text: 'Just so.' },
      ]);
    });

    it('fails with a reason of its own where the server rejects', async () => {
      await expect((await connect()).run('reject')).rejects.toMatchObject({
        code: 'PROVIDER_FAILED',
        reason: 'remote_rejected',
        message: expect.stringMatching(/has rejected its task, saying "Not today\."/),
      });
    });

    it('asks what the server asks, and continues the same task with the answer', async () => {
      const far = await connect();
      const asked = await far.run('ask', { taskId: 'asking' });
      expect(asked).toMatchObject({ status: 'input-required', questions: [{ kind: 'input', prompt: 'Which one?' }] });
      const answers = { [asked.questions[0]?.id ?? '']: 'The red one' };
      const { text } = await far.resume('asking', { answers }).result();
      expect(text).toBe('Before. \n\nYou said The red one.');
    });
  });

  describeReal([part], `remoteAgent of the official Python server over ${transport}, which does not stream`, () => {
    let server: PythonServer;
    beforeAll(async () => {
      server = await startPythonServer(part, transport, { port: await freePort(), streaming: false });
    });
    afterAll(() => server.close());

    it('P-16 waits for an answer that takes a minute and comes without a task', async () => {
      const clock = fakeClock();
      const far = await remoteAgent({ url: `http://127.0.0.1:${server.port}`, clock });
      const running = far.startTurn('late So late.');
      watch(running);
      await server.hasReceived(1);
      clock.advance(60_000);
      await server.release();
      expect((await running.result()).text).toBe('So late.');
      expect((await server.seen()).received).toHaveLength(1);
    });
  });
}

for (const part of ['a2a-python-1', 'a2a-python-0.3'] as const) {
  describeReal([part], 'remoteAgent of the official Python server over GRPC', () => {
    let server: PythonServer;
    let options: RemoteAgentOptions;
    beforeAll(async () => {
      const [port, at] = [await freePort(), await freePort()];
      server = await startPythonServer(part, 'GRPC', { port, at });
      options = { url: `http://127.0.0.1:${port}`, origins: [`http://127.0.0.1:${at}`] };
    });
    afterAll(() => server.close());

    it('shows every word of 5 turns of 200 words that are written 10 ms apart', async () => {
      const far = await remoteAgent(options);
      const all = Array.from({ length: 5 }, async (_, turn) => {
        const running = far.startTurn('steady 200', { contextId: `steady-${turn}` });
        const reader = watch(running);
        const { text } = await running.result();
        return [text, ...Object.values(textsOf(reader.events))];
      });
      for (const texts of await Promise.all(all)) expect(texts).toEqual([wordsOf(200), wordsOf(200)]);
    });

    it('asks, is answered by a message, and says that it rejects', async () => {
      const far = await remoteAgent({ ...options, taskStateStore: new InMemoryStateStore() });
      const { questions } = await far.run('ask', { taskId: 'asking' });
      expect(questions).toMatchObject([{ kind: 'input', prompt: 'Which one?' }]);
      const answers = { [questions[0]?.id ?? '']: 'The red one' };
      expect((await far.resume('asking', { answers }).result()).text).toBe('Before. \n\nYou said The red one.');
      expect((await far.run('say Just so.')).text).toBe('Just so.');
      await expect(far.run('reject')).rejects.toMatchObject({ code: 'PROVIDER_FAILED', reason: 'remote_rejected' });
    });

    it('P-13 ends a task that its server keeps as it is, and cancels it', async () => {
      const far = await remoteAgent({ ...options, maxSilenceMs: 1_000, silenceMs: 300 });
      const before = (await server.seen()).canceled.length;
      await expect(far.run('hang')).rejects.toMatchObject({ code: 'PROVIDER_TIMEOUT', reason: 'remote_task_silent' });
      expect((await server.seen()).canceled).toHaveLength(before + 1);
    });

    it('cancels the remote task with the turn', async () => {
      const before = (await server.seen()).canceled.length;
      const running = (await remoteAgent(options)).startTurn('hang');
      await watch(running).until('artifact-update');
      await running.cancel();
      expect((await server.seen()).canceled).toHaveLength(before + 1);
    });
  });
}
