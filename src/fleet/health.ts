import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock, TaskStateStore } from '../core/contracts/index.ts';
import type { QueueConnections } from './connection.ts';
import type { DeadTurns } from './dead-turns.ts';
import { knownAgents, type SharedCounts, type WorkerStatus } from './shared-counts.ts';

/** The number of jobs of a queue, by state. */
export interface QueueCounts {
  /** Jobs that a worker can start. */
  readonly waiting: number;
  /** Jobs that a worker runs. */
  readonly active: number;
  /** Jobs that wait for a time: backoff, delays, tenants over their limit. */
  readonly delayed: number;
}

/** The current state of a queue and its workers. */
export interface FleetHealth extends QueueCounts {
  /** The age of the oldest waiting job, in milliseconds; 0 if none waits. In a long queue, the maximum of its first and last fifty. */
  readonly oldestWaitingMs: number;
  /** Turns that failed or that no worker can run; 100 means 100 or more. Only the newest 400 failed turns are read. */
  readonly dead: number;
  /** The same counts, by agent. */
  readonly agents: Readonly<Record<string, QueueCounts>>;
  /** Empty if the queue is in PostgreSQL. */
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

/** Queries the queue and the store, for the agents that this process or a worker knows, and for those of open turns. */
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

/** Counters of a worker since its creation. */
export interface WorkerCounters {
  running: number;
  /** By outcome of their runs here. */
  readonly outcomes: Map<string, number>;
  /** Turns that the sweep found without a job. */
  woken: number;
  locksLost: number;
}

/** In the text format of Prometheus. */
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

/** The interface that a health endpoint calls. */
export interface Probed {
  /** Whether it accepts turns: its queue and its store respond, and it does not drain. */
  ready(): Promise<boolean>;
  /** Metrics in the text format of Prometheus. */
  metrics(): Promise<string>;
}

/**
 * Serves `/healthz` (200 while the process responds), `/readyz` and `/metrics` (Prometheus), for `createServer` of `node:http`. Requires no
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
