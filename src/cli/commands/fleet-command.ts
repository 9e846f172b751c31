import type { Command } from 'commander';
import type { TaskStateStore } from '../../core/contracts/index.ts';
import type { DeadTurn, FleetHealth, TurnQueue } from '../../fleet/index.ts';
import { idArgument, wholeNumber } from '../arguments.ts';
import { cut, pad } from '../columns.ts';
import type { CommandHost } from '../command-host.ts';
import { localTime, oneLine, terminalJson } from '../format.ts';
import { addQueueFlags, checkedQueue, openQueue, type QueueFlags } from '../queue.ts';
import { type StoreFlags, storeSettings } from '../store.ts';
import { note, type Terminal } from '../terminal.ts';
import { addStoreFlag } from '../turn-flags.ts';
import { withStore } from '../with-store.ts';

interface FleetFlags extends StoreFlags, QueueFlags {
  readonly json?: boolean;
}

interface DeadFlags extends FleetFlags {
  readonly limit: number;
  readonly after?: string;
}

const help = `
Examples:
  $ millrace fleet status --store redis://localhost:6379
  $ millrace fleet dead --store redis://localhost:6379 --json
  $ millrace fleet revive TASK --store redis://localhost:6379`;

/** Adds `millrace fleet`: what operators see of a queue and its workers, and do about turns that do not run. */
export function addFleetCommand(program: Command, host: CommandHost): void {
  const fleet = program
    .command('fleet')
    .summary('look at a queue and its workers')
    .description('Show the turns and workers of a queue, and run dead turns again.')
    .addHelpText('after', help);
  const add = (name: string) =>
    addStoreFlag(addQueueFlags(fleet.command(name), 'the queue (default: in the Redis of the store)')).option(
      '--json',
      'write JSON, one object a line',
    );
  add('status')
    .summary('show waiting turns and workers')
    .description('Show how many turns wait, run and are dead, and which workers there are.')
    .action((flags: FleetFlags) => withFleet(flags, host, ({ queue }) => status(queue, flags, host.terminal)));
  add('dead')
    .summary('list turns that nothing runs')
    .description('List turns that failed, and open ones that no worker could run, newest first.')
    .option('--limit <number>', 'maximum number of turns', wholeNumber(1), 20)
    .option('--after <task>', 'list tasks after this one, in the order of the list', idArgument)
    .action((flags: DeadFlags) => withFleet(flags, host, ({ queue }) => dead(queue, flags, host.terminal)));
  const addForTask = (name: string) => add(name).argument('<task>', 'the id of the task', idArgument);
  addForTask('revive')
    .summary('try a dead turn again')
    .description('Try a dead turn again: a failed one as a new task that continues it, any other under its own id.')
    .action((taskId: string, flags: FleetFlags) =>
      withFleet(flags, host, async ({ queue }) => {
        const revived = await queue.revive(taskId);
        const is = revived.taskId === taskId ? 'is tried again' : `continues as ${revived.taskId}`;
        await say(host.terminal, { flags, json: { taskId, revivedAs: revived.taskId }, text: `${taskId} ${is}` });
      }),
    );
  addForTask('break')
    .summary('take a turn from the worker that runs it')
    .description(
      'Break the lease of a turn whose worker is stuck, and wake the turn. That worker can record nothing more; the next free one continues once the stuck worker releases the job, or once the lock of the job expires.',
    )
    .action((taskId: string, flags: FleetFlags) =>
      withFleet(flags, host, async ({ queue, store }) => {
        const { AgentLoop } = await import('../../tasks/agent-loop.ts');
        const broken = await AgentLoop.breakLease(taskId, { store });
        await queue.wake(taskId);
        const text = broken ? `${taskId} is released and woken` : `no process ran ${taskId}; it is woken`;
        await say(host.terminal, { flags, json: { taskId, broken }, text });
      }),
    );
  addForTask('wake')
    .summary('have a worker look at a turn')
    .description('Make a worker check a turn, at once if it is delayed. A turn with nothing to do does not change.')
    .action((taskId: string, flags: FleetFlags) =>
      withFleet(flags, host, async ({ queue }) => {
        await queue.wake(taskId);
        await say(host.terminal, { flags, json: { taskId }, text: `${taskId} is woken` });
      }),
    );
}

interface Fleet {
  readonly queue: TurnQueue;
  readonly store: TaskStateStore;
}

async function withFleet(flags: FleetFlags, host: CommandHost, action: (fleet: Fleet) => Promise<void>): Promise<void> {
  // Before the store is opened: its package and its folder are not what is missing.
  const jobs = checkedQueue(flags, storeSettings(flags, host.terminal.env));
  return withStore({ flags, host }, async (store) => {
    const queue = await openQueue(jobs, { store });
    try {
      await action({ queue, store });
    } finally {
      await queue.close();
    }
  });
}

interface Said {
  readonly flags: FleetFlags;
  readonly json: object;
  readonly text: string;
}

async function say(terminal: Terminal, { flags, json, text }: Said): Promise<void> {
  if (flags.json) await terminal.stdout.write(jsonLine(json));
  else note(terminal, text);
}

async function status(queue: TurnQueue, { json }: FleetFlags, terminal: Terminal): Promise<void> {
  const health = await queue.health();
  await terminal.stdout.write(json ? jsonLine(health) : statusText(health, terminal));
}

function statusText(health: FleetHealth, terminal: Terminal): string {
  const { waiting, active, delayed, oldestWaitingMs, dead, agents, workers } = health;
  const oldest = waiting === 0 ? '' : `, the oldest for ${(oldestWaitingMs / 1000).toFixed(1)} s`;
  const counts = Object.entries(agents).map(([id, each]) => [id, each.waiting, each.active, each.delayed]);
  const status = workers.map(({ id, agents: of, running, draining }) => [
    id,
    of.join(', '),
    running,
    draining ? 'draining' : 'takes turns',
  ]);
  return [
    `${waiting} waiting${oldest}; ${active} active; ${delayed} delayed; ${dead} dead`,
    ...table(['AGENT', 'WAITING', 'ACTIVE', 'DELAYED'], counts, terminal),
    ...table(['WORKER', 'AGENTS', 'RUNNING', 'STATE'], status, terminal),
    '',
  ].join('\n');
}

async function dead(queue: TurnQueue, { json, limit, after }: DeadFlags, terminal: Terminal): Promise<void> {
  // Has the queue know the agents, whose failed jobs say why a turn is stuck.
  await queue.health();
  const found = await queue.dead({ limit, ...(after !== undefined && { after }) });
  if (json) return void (await terminal.stdout.write(found.map(jsonLine).join('')));
  if (found.length === 0) return note(terminal, 'no turn is dead');
  const rowOf = ({ taskId, agentId, state, at, code, message }: DeadTurn) => [
    taskId,
    agentId,
    state,
    localTime(at),
    oneLine(code === undefined ? message : `${code}: ${message}`),
  ];
  const rows = table(['TASK', 'AGENT', 'STATE', 'LAST RECORD', 'WHY'], found.map(rowOf), terminal);
  await terminal.stdout.write([...rows, ''].join('\n'));
}

/** Each column as wide as it has to be, the last one cut at the edge of the terminal. Nothing without rows. */
function table(
  head: readonly string[],
  rows: readonly (readonly (string | number)[])[],
  { style, stdout }: Terminal,
): readonly string[] {
  if (rows.length === 0) return [];
  const cells = rows.map((row) => row.map((cell) => oneLine(String(cell))));
  const widths = head.map((name, column) => Math.max(name.length, ...cells.map((row) => (row[column] ?? '').length)));
  const line = (row: readonly string[]) =>
    row.map((cell, column) => (column === row.length - 1 ? cell : pad(cell, widths[column] ?? 0))).join('  ');
  const width = Math.max(40, stdout.columns - 1);
  return [style.dim(line(head)), ...cells.map((row) => cut(line(row), width, style.glyphs.ellipsis).trimEnd())];
}

function jsonLine(value: object): string {
  return `${terminalJson(JSON.stringify(value))}\n`;
}
