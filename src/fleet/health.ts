import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock, TaskStateStore } from '../core/contracts/index.ts';
import type { QueueConnections } from './connection.ts';
import type { DeadTurns } from './dead-turns.ts';
import { knownAgents, type SharedCounts, type WorkerStatus } from './shared-counts.ts';

/** How many jobs of a queue there are, by what they wait for. */
export interface QueueCounts {
  /** Jobs that a worker may take. */
  readonly waiting: number;
  /** Jobs that a worker has taken. */
  readonly active: number;
  /** Jobs that wait for their time: back-off, delays, tenants over their limit. */
  readonly delayed: number;
}

/** What a queue and its workers do now. */
export interface FleetHealth extends QueueCounts {
  /** Of the job that waits longest, in milliseconds; 0 where none waits. Of a long queue, the longest of its first and last fifty. */
  readonly oldestWaitingMs: number;
  /** Turns that failed or that no worker can run; 100 means 100 or more. Of those that failed, the newest 400 are looked at. */
  readonly dead: number;
  /** The same counts, by agent. */
  readonly agents: Readonly<Record<string, QueueCounts>>;
  /** Empty where the queue is in PostgreSQL. */
  readonly workers: readonly WorkerStatus[];
}

interface HealthDeps {
  readonly store: TaskStateStore;
  readonly connections: QueueConnections;
  readonly counts: SharedCounts;
  readonly deadTurns: DeadTurns;
  readonly clock: Clock;
}

const mostDead = 100;
const atEachEnd = 50;

/** What the queue and the store say now, of the agents that this process or a worker knows, and of those of open turns. */
export async function healthOf({ store, connections, counts, deadTurns, clock }: HealthDeps): Promise<FleetHealth> {
  const { agentIds, workers } = await knownAgents({ store, connections, counts });
  const of = async (agentId: string) => {
    const queue = connections.queueOf(agentId);
    const {
      wait = 0,
      prioritized = 0,
      active = 0,
      delayed = 0,
    } = await connections.ask(() => queue.getJobCounts('wait', 'prioritized', 'active', 'delayed'));
    const ends = [
      () => queue.getJobs(['wait', 'prioritized'], 0, atEachEnd - 1, true),
      () => queue.getJobs(['wait', 'prioritized'], -atEachEnd, -1, true),
    ];
    const jobs = wait + prioritized === 0 ? [] : await Promise.all(ends.map((end) => connections.ask(end)));
    const oldest = Math.min(...jobs.flat().flatMap((job) => (job ? [job.timestamp] : [])));
    return { agentId, oldest, counts: { waiting: wait + prioritized, active, delayed } };
  };
  const all = await Promise.all([...agentIds].map(of));
  const oldest = Math.min(...all.map((each) => each.oldest));
  const sum = (name: keyof QueueCounts) => all.reduce((total, each) => total + each.counts[name], 0);
  return {
    waiting: sum('waiting'),
    active: sum('active'),
    delayed: sum('delayed'),
    oldestWaitingMs: Number.isFinite(oldest) ? Math.max(0, clock.now() - oldest) : 0,
    dead: await deadTurns.count(mostDead),
    agents: Object.fromEntries(all.map((each) => [each.agentId, each.counts])),
    workers,
  };
}

/** What a worker counts since it was made. */
export interface WorkerCounters {
  running: number;
  /** By how their runs here ended. */
  readonly outcomes: Map<string, number>;
  /** Turns that the sweep found without a job. */
  woken: number;
  locksLost: number;
}

/** As Prometheus reads it. */
export function prometheusText(health: FleetHealth, counters: WorkerCounters): string {
  const agents = Object.entries(health.agents);
  const perAgent = (name: keyof QueueCounts) =>
    agents.map(([agentId, counts]) => [`{agent="${escaped(agentId)}"}`, counts[name]] as const);
  const one = (value: number) => [['', value] as const];
  const outcomes = [...counters.outcomes].map(
    ([outcome, count]) => [`{outcome="${escaped(outcome)}"}`, count] as const,
  );
  return [
    metric('waiting', 'gauge', 'Turns that a worker may take.', perAgent('waiting')),
    metric('active', 'gauge', 'Turns that workers have.', perAgent('active')),
    metric('delayed', 'gauge', 'Turns that wait for their time.', perAgent('delayed')),
    metric(
      'oldest_waiting_seconds',
      'gauge',
      'Age of the turn that waits longest.',
      one(health.oldestWaitingMs / 1000),
    ),
    metric('dead', 'gauge', 'Turns that failed or cannot be run, at most 100.', one(health.dead)),
    metric('workers', 'gauge', 'Workers that said something lately.', one(health.workers.length)),
    metric('worker_running', 'gauge', 'Turns that run in this worker.', one(counters.running)),
    metric('worker_runs_total', 'counter', 'Runs of this worker, by their outcome.', outcomes),
    metric('worker_woken_total', 'counter', 'Turns that the sweep of this worker woke.', one(counters.woken)),
    metric('worker_locks_lost_total', 'counter', 'Jobs whose lock was not renewed in time.', one(counters.locksLost)),
  ].join('');
}

function metric(
  name: string,
  type: 'gauge' | 'counter',
  help: string,
  samples: readonly (readonly [labels: string, value: number])[],
): string {
  const full = `millrace_fleet_${name}`;
  const lines = samples.map(([labels, value]) => `${full}${labels} ${value}\n`);
  return `# HELP ${full} ${help}\n# TYPE ${full} ${type}\n${lines.join('')}`;
}

function escaped(label: string): string {
  return label.replace(/[\\"\n]/g, (character) => (character === '\n' ? '\\n' : `\\${character}`));
}

/** What a health endpoint asks. */
export interface Probed {
  /** Whether it takes turns: its queue and its store answer, and it does not drain. */
  ready(): Promise<boolean>;
  /** Figures in the text format of Prometheus. */
  metrics(): Promise<string>;
}

/**
 * Answers `/healthz` (200 while the process responds), `/readyz` and `/metrics` (Prometheus), for `createServer` of `node:http`. Needs no
 * credentials: bind it to an address that only your platform reaches.
 */
export function healthHandler(worker: Probed): (request: IncomingMessage, response: ServerResponse) => void {
  const answers: Readonly<Record<string, () => Promise<readonly [status: number, type: string, body: string]>>> = {
    '/healthz': async () => [200, json, '{"status":"ok"}'],
    '/readyz': async () =>
      (await worker.ready()) ? [200, json, '{"status":"ok"}'] : [503, json, '{"status":"unavailable"}'],
    '/metrics': async () => [200, 'text/plain; version=0.0.4; charset=utf-8', await worker.metrics()],
  };
  return (request, response) => {
    const path = (request.url ?? '').split('?')[0] ?? '';
    const answer = Object.hasOwn(answers, path) ? answers[path] : undefined;
    const given = answer?.() ?? Promise.resolve([404, json, '{"status":"not found"}'] as const);
    given
      .catch(() => [503, json, '{"status":"unavailable"}'] as const)
      .then(([status, type, body]) => {
        response.writeHead(status, { 'content-type': type });
        response.end(body);
      });
  };
}

const json = 'application/json';
