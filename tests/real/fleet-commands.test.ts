import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { cursorHeader, toolEventsExtension, turnExtension } from 'millrace/a2a';
import { rpc, wireMessage } from '../a2a/server/test-server.ts';
import { FleetFolder } from '../cli/fleet/agent-folder.ts';
import { CommandProcess } from '../cli/fleet/command-process.ts';
import { type RedisProcess, startRedis } from '../stores/redis/redis-process.ts';
import { describeReal } from './real-part.ts';

const compose = readFileSync(fileURLToPath(new URL('../../docker-compose.yml', import.meta.url)), 'utf8');
const guide = readFileSync(fileURLToPath(new URL('../../docs/fleet.md', import.meta.url)), 'utf8');
const times = ['--lease-ms', '1000', '--stalled-check-ms', '500', '--lock-ms', '2000', '--sweep-every-ms', '2000'];

/** The command of a service in docker-compose.yml, without the program. */
function commandOf(service: string): readonly string[] {
  const own = new RegExp(`^ {2}${service}:\\n((?: {4}.*\\n|\\n)*)`, 'm').exec(compose)?.[1] ?? '';
  const lines = /^ {4}command:\n((?: {6}- .*\n)+)/m.exec(own)?.[1] ?? '';
  return lines
    .trim()
    .split('\n')
    .map((line) => line.replace(/^ *- /, ''))
    .slice(1);
}

/** The command of a container in the guide's Kubernetes manifests, without the program, with what its environment says of the store. */
function containerOf(name: string): readonly string[] {
  const own = new RegExp(`- name: ${name}\\n(.*?)\\n---`, 's').exec(guide)?.[1] ?? '';
  const list = (key: string) => (new RegExp(`${key}: \\[(.*)\\]`).exec(own)?.[1] ?? '').split(', ');
  const store = /name: MILLRACE_STORE, value: "(.*?)"/.exec(own)?.[1] ?? '';
  return [...list('command').slice(1), ...list('args'), `--store=${store}`];
}

interface Asked {
  readonly result: { readonly task?: { readonly id: string }; readonly status?: { readonly state: string } };
}

/** The data of the events of a stream. */
async function* eventsOf(response: Response): AsyncGenerator<string> {
  let rest = '';
  for await (const chunk of response.body ?? []) {
    rest += Buffer.from(chunk).toString();
    const lines = rest.split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) if (line.startsWith('data: ')) yield line.slice(6);
  }
}

describeReal(['a2a', 'redis'], 'gateways and workers', () => {
  const folder = new FleetFolder();
  const processes: CommandProcess[] = [];
  let redis: RedisProcess;
  const started = (args: readonly string[], env: Readonly<Record<string, string>> = {}) => {
    const made = new CommandProcess(args, env);
    processes.push(made);
    return made;
  };
  const gateway = () =>
    started([
      'serve',
      '--agent',
      folder.agent,
      '--store',
      redis.url,
      '--queue',
      redis.url,
      '--port',
      '0',
      '--rate-limit',
      '0',
    ]);
  const work = async () => {
    const made = started(['worker', '--agent', folder.agent, '--store', redis.url, ...times]);
    await made.wrote(/Runs turns of ada/);
    return made;
  };
  /** A command with the addresses of this test. */
  const local = (command: readonly string[]) =>
    command.map((part) =>
      part
        .replace('agent.mjs', folder.agent)
        .replace('redis://redis:6379', redis.url)
        .replace(/--host=.*/, '--host=127.0.0.1')
        .replace(/--health-port=\d+/, '--health-port=0')
        .replace(/--public-url=.*/, '--public-url=http://localhost'),
    );
  const listening = (server: CommandProcess) => server.wrote(/listens at (http\S+)/);

  beforeAll(async () => {
    redis = await startRedis({ config: ['appendonly yes', 'maxmemory-policy noeviction'] });
  });
  afterEach(async () => {
    await Promise.all(processes.splice(0).map((each) => each.end('SIGKILL')));
  });
  afterAll(async () => {
    await redis.remove();
    folder.remove();
  });

  it('a stream whose gateway is killed continues at another one, from its cursor, without a gap', async () => {
    const first = gateway();
    const url = await listening(first);
    const other = await listening(gateway());
    await work();
    const extensions = { 'a2a-extensions': `${turnExtension},${toolEventsExtension}` };
    const response = await rpc(url, 'SendStreamingMessage', wireMessage('quick held quick'), extensions);
    const seen: string[] = [];
    let cursor = '';
    let taskId = '';
    for await (const event of eventsOf(response)) {
      seen.push(event);
      cursor = /"cursor":"([^"]+)"/.exec(event)?.[1] ?? cursor;
      taskId ||= /"id":"([\w-]{36})"/.exec(event)?.[1] ?? '';
      if (/"toolName":"held"/.test(event)) break;
    }
    await first.end('SIGKILL');
    const again = await rpc(other, 'SubscribeToTask', { id: taskId }, { ...extensions, [cursorHeader]: cursor });
    folder.go(taskId);
    const rest: string[] = [];
    for await (const event of eventsOf(again)) rest.push(event);
    expect(rest.at(-1)).toMatch(/TASK_STATE_COMPLETED/);
    const cursors = [...seen, ...rest.slice(1)].flatMap((event) => /"cursor":"([^"]+)"/.exec(event)?.[1] ?? []);
    expect(new Set(cursors).size).toBe(cursors.length);
    const calls = (events: readonly string[]) =>
      events.flatMap((event) => {
        const [, phase, name] = /"phase":"(\w+)".*"toolName":"(\w+)"/.exec(event) ?? [];
        return phase === undefined ? [] : [`${phase} ${name}`];
      });
    expect(calls(seen)).toEqual(['start quick', 'complete quick', 'start held']);
    // The start of a call that is still open then comes again.
    const after = calls(rest).filter((each) => each !== 'start held');
    expect(after).toEqual(['complete held', 'start quick', 'complete quick']);
    expect(folder.lines(taskId).map(({ what }) => what)).toEqual(['quick', 'held', 'quick']);
  });

  it('the commands of docker-compose.yml are ones that millrace takes, and together they answer', async () => {
    const keys = /MILLRACE_CLIENT_KEYS:-([^}]+)\}/.exec(compose)?.[1] ?? '';
    const env = { MILLRACE_CLIENT_KEYS: keys };
    const server = started([...local(commandOf('gateway')), '--port=0'], env);
    await server.wrote(/listens at/);
    const port = await server.wrote(/"port":(\d+)/);
    const worker = started(local(commandOf('worker')), env);
    const health = await worker.wrote(/health (http\S+)/);
    await worker.wrote(/Runs turns/);
    expect((await fetch(`${health}/healthz`)).status).toBe(200);
    const authorization = `Bearer ${keys.replace(/^.*=/, '')}`;
    const sent = await rpc(`http://127.0.0.1:${port}`, 'SendMessage', wireMessage('quick'), { authorization });
    expect(await sent.text()).toMatch(/TASK_STATE_COMPLETED/);
    expect(await worker.wrote(/"outcome":"(\w+)"/)).toBe('completed');
  });

  it.each([
    ['docker-compose.yml', commandOf],
    ['the Kubernetes manifests of the guide', containerOf],
  ])('F-23 100 turns complete while each gateway and each worker of %s is replaced', async (_, commandIn) => {
    const env = { MILLRACE_CLIENT_KEYS: 'alice=a-long-key-of-alice' };
    /** What a probe does. */
    const ready = async (url: string) => {
      while ((await fetch(`${url}/readyz`)).status !== 200) await new Promise((resolve) => setTimeout(resolve, 50));
    };
    const open = async () => {
      const server = started([...local(commandIn('gateway')), '--port=0'], env);
      const url = `http://127.0.0.1:${await server.wrote(/"port":(\d+)/)}`;
      await ready(url);
      return { server, url };
    };
    const work = async () => {
      const made = started([...local(commandIn('worker')), ...times], env);
      const health = await made.wrote(/health (http[^\s"]+)/);
      await made.wrote(/Runs turns/);
      await ready(health);
      return made;
    };
    const service = [await open(), await open()];
    const workers = [await work(), await work()];
    let next = 0;
    const ask = async (method: string, params: object): Promise<Asked> => {
      const url = service[next++ % service.length]?.url ?? '';
      return (await rpc(url, method, params, { authorization: 'Bearer a-long-key-of-alice' })).json() as Promise<Asked>;
    };
    const turn = async () => {
      const configuration = { returnImmediately: true };
      const id = (await ask('SendMessage', { ...wireMessage('quick quick'), configuration })).result.task?.id;
      if (id === undefined) throw new Error('no task');
      for (;;) {
        const { state = '' } = (await ask('GetTask', { id })).result.status ?? {};
        if (/COMPLETED|FAILED|CANCELED|REJECTED/.test(state)) return { id, state };
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    };
    const lanes = Array.from({ length: 10 }, async () => {
      const ended: Awaited<ReturnType<typeof turn>>[] = [];
      while (ended.length < 10) ended.push(await turn());
      return ended;
    });
    for (const old of workers) {
      await work();
      expect(await old.end('SIGTERM')).toBe(0);
    }
    for (const old of [...service]) {
      service.push(await open());
      service.splice(service.indexOf(old), 1);
      expect(await old.server.end('SIGTERM')).toBe(0);
    }
    const ended = (await Promise.all(lanes)).flat();
    expect(ended.map(({ state }) => state)).toEqual(ended.map(() => 'TASK_STATE_COMPLETED'));
    for (const { id } of ended) expect(folder.lines(id).map(({ callId }) => callId)).toEqual(['1:0', '2:0']);
  });
});
