import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { cursorHeader, toolEventsExtension, turnExtension } from 'millrace/a2a';
import { clientOf, message, rpc, wireMessage } from '../a2a/server/test-server.ts';
import { FleetFolder } from '../cli/fleet/agent-folder.ts';
import { CommandProcess } from '../cli/fleet/command-process.ts';
import { type RedisProcess, startRedis } from '../stores/redis/redis-process.ts';
import { describeReal } from './real-part.ts';

const compose = readFileSync(fileURLToPath(new URL('../../docker-compose.yml', import.meta.url)), 'utf8');
const times = ['--lease-ms', '1000', '--stalled-check-ms', '500', '--lock-ms', '2000', '--sweep-every-ms', '2000'];
const completed = 3;

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

  it('100 turns complete, and no tool runs twice, while all workers are replaced', async () => {
    const url = await listening(gateway());
    const old = [await work(), await work()];
    const client = await clientOf(url);
    const configuration = { returnImmediately: true, acceptedOutputModes: [], taskPushNotificationConfig: undefined };
    const ids: string[] = [];
    const all = Array.from({ length: 100 }, async () => {
      const sent = await client.sendMessage({ ...message('quick quick quick'), configuration });
      ids.push('id' in sent ? sent.id : '');
    });
    for (const each of old) {
      await work();
      expect(await each.end('SIGTERM')).toBe(0);
    }
    await Promise.all(all);
    for (const id of ids) {
      while ((await client.getTask({ tenant: '', id })).status?.state !== completed)
        await new Promise((resolve) => setTimeout(resolve, 50));
      const calls = folder.lines(id).map(({ callId }) => callId);
      expect(calls).toEqual(['1:0', '2:0', '3:0']);
    }
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
    const local = (service: string) =>
      commandOf(service).map((part) =>
        part
          .replace('agent.mjs', folder.agent)
          .replace('redis://redis:6379', redis.url)
          .replace(/--health-port=\d+/, '--health-port=0')
          .replace(/--public-url=.*/, '--public-url=http://localhost'),
      );
    const keys = /MILLRACE_CLIENT_KEYS:-([^}]+)\}/.exec(compose)?.[1] ?? '';
    const env = { MILLRACE_CLIENT_KEYS: keys };
    const server = started([...local('gateway'), '--port=0'], env);
    await server.wrote(/listens at/);
    const port = await server.wrote(/"port":(\d+)/);
    const worker = started(local('worker'), env);
    const health = await worker.wrote(/health (http\S+)/);
    await worker.wrote(/Runs turns/);
    expect((await fetch(`${health}/healthz`)).status).toBe(200);
    const authorization = `Bearer ${keys.replace(/^.*=/, '')}`;
    const sent = await rpc(`http://127.0.0.1:${port}`, 'SendMessage', wireMessage('quick'), { authorization });
    expect(await sent.text()).toMatch(/TASK_STATE_COMPLETED/);
    expect(await worker.wrote(/"outcome":"(\w+)"/)).toBe('completed');
  });
});
