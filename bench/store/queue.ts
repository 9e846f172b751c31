import { Redis } from 'ioredis';
import { agent } from 'millrace';
import { turnQueue, worker } from 'millrace/fleet';
import { RedisStateStore } from 'millrace/redis';
import { sharedFakeModel } from '../fake-model.ts';
import { medianOf } from '../measure.ts';
import { type Figure, ratioFigure } from './figure.ts';
import { provider, toolProviders, work } from './stored-turn.ts';

const iterations = 3;
const turns = 300;
const atOnce = 50;
const rounds = 7;

/** What a turn costs here and in the server. */
interface Cost {
  readonly cpuMs: number;
  readonly redisMs: number;
  readonly commands: number;
  readonly keptBytes: number;
}

/** A turn of three iterations in this process, against the same over a queue, with its producer and one worker in this process. */
export async function measureQueue(port: number): Promise<readonly Figure[]> {
  const connection = `redis://127.0.0.1:${port}`;
  const server = new Redis(port, '127.0.0.1');
  const store = new RedisStateStore({ redis: connection });
  const queue = turnQueue({ connection, store });
  const llmProvider = provider(sharedFakeModel({ ...work, iterations }));
  const bench = agent({ id: 'bench', provider: llmProvider, toolProviders, retry: null });
  const alone = agent({ id: 'bench', provider: llmProvider, toolProviders, retry: null, taskStateStore: store });
  const working = worker({ queue, agents: [bench], concurrency: atOnce });
  const over = working.run();
  let started = 0;
  const overQueue = async () => {
    const ids = Array.from({ length: turns }, () => `queued-${started++}`);
    await inLanes(ids, (taskId) => queue.start([{ role: 'user', content: 'Hello' }], { agentId: 'bench', taskId }));
    for (let open = ids; open.length > 0; await new Promise((resolve) => setTimeout(resolve, 50))) {
      const last = open.at(-1) ?? '';
      if ((await store.describe(last))?.state === 'completed') open = open.slice(0, -1);
    }
  };
  const direct = () =>
    inLanes(Array.from({ length: turns }), async () => {
      const turn = alone.startTurn('Hello', { contextId: `direct-${started++}` });
      turn.subscribe();
      await turn.settled;
    });
  try {
    const costs: Readonly<Record<'direct' | 'queued', Cost[]>> = { direct: [], queued: [] };
    for (let round = -2; round < rounds; round++) {
      const [one, other] = [await costOf(server, direct), await costOf(server, overQueue)];
      // The first rounds compile.
      if (round < 0) continue;
      costs.direct.push(one);
      costs.queued.push(other);
    }
    const median = (of: readonly Cost[], key: keyof Cost) => medianOf(of.map((cost) => cost[key]));
    return (
      [
        ['CPU of Node', 'cpuMs', 'ms', 1.5],
        ['CPU of Redis', 'redisMs', 'ms', 1.8],
        ['commands of Redis', 'commands', '', 1.5],
        ['memory of Redis', 'keptBytes', 'bytes', 1.2],
      ] as const
    ).map(([name, key, unit, most]) => {
      const [of, to] = [median(costs.queued, key), median(costs.direct, key)];
      const figure = `${name} for a turn of three iterations over a queue, to one without`;
      const digits = unit === 'ms' ? 2 : 0;
      return ratioFigure(figure, {
        of,
        to,
        most,
        detail: `${of.toFixed(digits)} and ${to.toFixed(digits)} ${unit}`.trim(),
      });
    });
  } finally {
    await working.drain();
    await over;
    await queue.close();
    await store.close();
    server.disconnect();
  }
}

async function inLanes<T>(items: readonly T[], run: (item: T) => Promise<unknown>): Promise<void> {
  const left = items.values();
  const lane = async () => {
    for (const item of left) await run(item);
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
}

async function costOf(server: Redis, run: () => Promise<void>): Promise<Cost> {
  const [before, cpu] = [await redisFigures(server), process.cpuUsage()];
  await run();
  const { user, system } = process.cpuUsage(cpu);
  const after = await redisFigures(server);
  return {
    cpuMs: (user + system) / 1_000 / turns,
    redisMs: (after.seconds - before.seconds) * (1_000 / turns),
    commands: (after.commands - before.commands) / turns,
    keptBytes: (after.bytes - before.bytes) / turns,
  };
}

async function redisFigures(server: Redis) {
  const info = await server.info('all');
  const of = (name: string) => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(info)?.[1] ?? Number.NaN);
  return {
    seconds: of('used_cpu_user') + of('used_cpu_sys'),
    commands: of('total_commands_processed'),
    bytes: of('used_memory_dataset'),
  };
}
