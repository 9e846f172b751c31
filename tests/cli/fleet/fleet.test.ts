import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { toolEventsExtension, turnExtension } from 'millrace/a2a';
import { answerOf, clientOf, message, rpc, wireMessage } from '../../a2a/server/test-server.ts';
import { eventually as until } from '../../eventually.ts';
import { describeRedis } from '../../stores/redis/describe-redis.ts';
import { type RedisProcess, startRedis } from '../../stores/redis/redis-process.ts';
import { runInProcess } from '../run-in-process.ts';
import { FleetFolder } from './agent-folder.ts';
import { CommandProcess } from './command-process.ts';

const times = ['--lease-ms', '500', '--stalled-check-ms', '300', '--lock-ms', '1000', '--sweep-every-ms', '1000'];

/** What is read of the updates of a stream. */
interface Update {
  readonly task?: { readonly id: string };
  readonly statusUpdate?: {
    readonly status?: { readonly state: string };
    readonly metadata?: {
      readonly [turnExtension]?: { readonly cursor?: string };
      readonly [toolEventsExtension]?: { readonly phase: string; readonly toolName: string };
    };
  };
}

/** The updates of a stream, as they come. */
async function* resultsOf(response: Response): AsyncGenerator<Update> {
  let rest = '';
  for await (const chunk of response.body ?? []) {
    rest += Buffer.from(chunk).toString();
    const lines = rest.split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) if (line.startsWith('data: ')) yield JSON.parse(line.slice(6)).result;
  }
}

describeRedis('millrace serve --queue, millrace worker and millrace fleet', () => {
  const folder = new FleetFolder();
  const processes: CommandProcess[] = [];
  let redis: RedisProcess;
  let url = '';
  let grpcAddress = '';
  const started = (...args: readonly string[]) => {
    const made = new CommandProcess(args);
    processes.push(made);
    return made;
  };
  const at = () => ['--store', redis.url];
  const work = (...more: readonly string[]) => started('worker', '--agent', folder.agent, ...at(), ...times, ...more);
  const running = (worker: CommandProcess) => worker.wrote(/Runs turns of ada/);

  beforeAll(async () => {
    redis = await startRedis({ config: ['appendonly yes', 'maxmemory-policy noeviction'] });
    const gateway = started(
      'serve',
      '--agent',
      folder.agent,
      ...at(),
      '--queue',
      redis.url,
      '--port',
      '0',
      '--grpc-port',
      '0',
    );
    url = await gateway.wrote(/listens at (http\S+)/);
    grpcAddress = await gateway.wrote(/gRPC +(\S+)/);
  });
  afterAll(async () => {
    await Promise.all(processes.map((each) => each.end('SIGKILL')));
    await redis.remove();
    folder.remove();
  });

  /** Sends a message and does not wait for its turn. */
  async function begin(text: string): Promise<string> {
    const configuration = { returnImmediately: true, acceptedOutputModes: [], taskPushNotificationConfig: undefined };
    const sent = await (await clientOf(url)).sendMessage({ ...message(text), configuration });
    return 'id' in sent ? sent.id : '';
  }

  async function stateOf(taskId: string): Promise<number | undefined> {
    return (await (await clientOf(url)).getTask({ tenant: '', id: taskId })).status?.state;
  }

  const completed = 3;
  const failed = 4;
  const canceled = 5;
  const inputRequired = 6;

  it('a stream of the gateway has every update once while the worker of its turn is killed and another continues', async () => {
    const workers = [work(), work()];
    await Promise.all(workers.map(running));
    const response = await rpc(url, 'SendStreamingMessage', wireMessage('quick think'), {
      'a2a-extensions': `${turnExtension},${toolEventsExtension}`,
    });
    const cursors: string[] = [];
    const calls: string[] = [];
    const states: string[] = [];
    let taskId = '';
    let killed = 0;
    for await (const { task, statusUpdate } of resultsOf(response)) {
      const { id = taskId } = task ?? {};
      taskId = id;
      const { [turnExtension]: turn, [toolEventsExtension]: call } = statusUpdate?.metadata ?? {};
      if (turn?.cursor !== undefined) cursors.push(turn.cursor);
      if (call !== undefined) calls.push(`${call.phase} ${call.toolName}`);
      if (statusUpdate?.status) states.push(statusUpdate.status.state);
      if (killed > 0 || call?.phase !== 'complete') continue;
      await until(() => folder.lines('thoughts').length > 0);
      killed = folder.lines(taskId)[0]?.pid ?? 0;
      await workers.find(({ pid }) => pid === killed)?.end('SIGKILL');
      folder.go('thoughts');
    }
    expect(states.at(-1)).toBe('TASK_STATE_COMPLETED');
    expect(calls).toEqual(['start quick', 'complete quick']);
    expect(new Set(cursors).size).toBe(cursors.length);
    const positions = cursors.map((cursor) => Number.parseInt(cursor, 10));
    expect(positions).toEqual([...positions].sort((a, b) => a - b));
    expect(folder.lines(taskId)).toMatchObject([{ what: 'quick', pid: killed }]);
    const others = workers.map(({ pid }) => pid).filter((pid) => pid !== killed);
    expect(folder.lines('thoughts').map(({ pid }) => pid)).toEqual([killed, ...others]);
    await Promise.all(workers.map((each) => each.end('SIGTERM')));
  });

  it('an answer through the gateway wakes the turn, and a worker that drains leaves its turn to the next', async () => {
    const [first, second] = [work('--health-port', '0', '--drain-ms', '5000', '--sweep-every-ms', '600000'), work()];
    const health = await first.wrote(/health (http\S+)/);
    await running(first);
    expect((await fetch(`${health}/healthz`)).status).toBe(200);
    await until(async () => (await fetch(`${health}/readyz`)).status === 200);
    expect(await (await fetch(`${health}/metrics`)).text()).toMatch(/^millrace_fleet_worker_running 0$/m);

    const paid = await begin('pay');
    await until(async () => (await stateOf(paid)) === inputRequired);
    const answer = {
      messageId: 'yes',
      taskId: paid,
      role: 'ROLE_USER',
      parts: [{ data: { answers: { '1:0': { approved: true } } } }],
    };
    const { result } = JSON.parse(await (await rpc(url, 'SendMessage', { message: answer })).text());
    expect(result.task.status.state).toBe('TASK_STATE_COMPLETED');
    expect(folder.lines(paid).map(({ what }) => what)).toEqual(['pay']);

    const overRest = await (await clientOf(url, { binding: 'HTTP+JSON' })).sendMessage(message('quick'));
    expect(overRest).toMatchObject({ status: { state: completed } });
    const card = await answerOf(fetch(`${url}/.well-known/agent-card.json`, { headers: { 'a2a-version': '1.0' } }));
    const overGrpc = await new GrpcTransportFactory().create(grpcAddress, card);
    const updates: (string | undefined)[] = [];
    for await (const { payload } of overGrpc.sendMessageStream(message('quick'))) updates.push(payload?.$case);
    expect(updates.at(0)).toBe('task');
    expect(updates.at(-1)).toBe('statusUpdate');

    const unwanted = await begin('held');
    await until(() => folder.lines(unwanted).length === 1);
    const cancelled = await (await clientOf(url)).cancelTask({ tenant: '', id: unwanted, metadata: undefined });
    expect(cancelled).toMatchObject({ status: { state: canceled } });

    await second.end('SIGTERM');
    const held = await begin('held quick');
    await until(() => folder.lines(held).length === 1);
    const next = work();
    await running(next);
    const gone = first.end('SIGTERM');
    await first.wrote(/(draining)/);
    expect((await fetch(`${health}/readyz`)).status).toBe(503);
    folder.go(held);
    expect(await gone).toBe(0);
    await until(async () => (await stateOf(held)) === completed);
    const lines = folder.lines(held);
    expect(lines.map(({ what }) => what)).toEqual(['held', 'quick']);
    expect(lines.map(({ pid }) => pid)).toEqual([first.pid, next.pid]);

    const stuck = await begin('held');
    await until(() => folder.lines(stuck).length === 1);
    next.child.kill('SIGTERM');
    await next.wrote(/(draining)/);
    expect(await next.end('SIGINT')).toBe(130);
  });

  it('fleet shows turns and workers, and revives a turn that failed', async () => {
    const fleet = (...args: readonly string[]) => runInProcess(['fleet', ...args, ...at()]);
    const waiting = await begin('fail');
    const idle = await fleet('status', '--json');
    expect(JSON.parse(idle.stdout)).toMatchObject({ agents: { ada: { waiting: expect.any(Number) } } });
    const worker = work();
    await running(worker);
    await until(async () => (await stateOf(waiting)) === failed);
    const { stdout } = await fleet('status');
    expect(stdout).toMatch(/1 dead\n/);
    expect(stdout).toMatch(/ada +\d+ +takes turns/);
    const dead = await fleet('dead', '--json');
    expect(JSON.parse(dead.stdout)).toMatchObject({ taskId: waiting, agentId: 'ada', state: 'failed' });
    folder.mend();
    const revived = JSON.parse((await fleet('revive', waiting, '--json')).stdout).revivedAs;
    await until(async () => (await stateOf(revived)) === completed);
    expect((await fleet('dead')).stderr).toContain('no turn is dead');
    expect((await fleet('wake', revived)).exitCode).toBe(0);
    expect((await fleet('break', revived, '--json')).stdout).toBe(`{"taskId":"${revived}","broken":false}\n`);
    expect(await fleet('wake', 'nowhere')).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('nowhere') });
  });

  it.each([
    [['worker'], "required option '--agent <file>'"],
    [['worker', '--agent', 'a.mjs', '--store', 'memory'], 'a queue needs a store that other processes read'],
    [['worker', '--agent', 'a.mjs', '--store', 'lmdb'], '--queue is missing'],
    [['fleet', 'status', '--store', 'lmdb:no-such-folder'], '--queue is missing'],
    [['worker', '--agent', 'a.mjs', '--store', 'redis://h', '--queue', 'http://h'], '--queue must be redis://'],
    [['worker', '--agent', 'a.mjs', '--store', 'redis://h', '--host', '0.0.0.0'], '--host needs --health-port'],
    [['serve', '--queue', 'redis://h'], '--queue needs --agent'],
    [['serve', '--name', 'q'], '--name needs --queue'],
    [['serve', '--max-outstanding', '5'], '--max-outstanding needs --queue'],
  ])('refuses %j', async (args, sentence) => {
    const { exitCode, stderr } = await runInProcess(args);
    expect(stderr.replace(/\s+/g, ' ')).toContain(sentence);
    expect(exitCode).toBe(2);
  });

  it.each(['worker', 'serve'])(
    'refuses, by millrace %s, an agent whose id is another one in each process',
    async (command) => {
      const file = join(folder.path, 'nameless.mjs');
      writeFileSync(file, 'export default { provider: { call: async () => {} } };');
      const { exitCode, stderr } = await runInProcess([command, '--agent', file, ...at(), '--queue', redis.url]);
      expect(stderr.replace(/\s+/g, ' ')).toContain('has no id, by which workers find its turns');
      expect(exitCode).toBe(2);
    },
  );

  it('ends a worker at its start where the model of an agent lacks its package', async () => {
    const file = join(folder.path, 'incomplete.mjs');
    const prepare = 'prepare: async () => { throw new Error(\'The package "openai" cannot be loaded\'); }';
    writeFileSync(file, `export default { id: 'eve', provider: { call: async () => {}, ${prepare} } };`);
    const { exitCode, stdout, stderr } = await runInProcess(['worker', '--agent', file, ...at()]);
    expect(stderr.replace(/\s+/g, ' ')).toContain('The package "openai" cannot be loaded');
    expect([exitCode, stdout]).toEqual([1, '']);
  });

  it('refuses a lock that is shorter than the lease and the check, naming what to do', async () => {
    const args = ['worker', '--agent', folder.agent, ...at(), '--lock-ms', '1000'];
    const refused = started(...args);
    await refused.wrote(/set lockMs\s+above/);
    expect(await refused.end()).toBe(2);
  });
});
