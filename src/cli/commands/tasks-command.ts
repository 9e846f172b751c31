import { type Command, Option } from 'commander';
import {
  isTerminalState,
  type TaskState,
  type TaskStateStore,
  type TaskSummary,
  taskStates,
  textOf,
} from '../../core/contracts/index.ts';
import { foldRecords, type JournalRecord, taskState } from '../../core/journal/index.ts';
import { idArgument, wholeNumber } from '../arguments.ts';
import { cut, pad } from '../columns.ts';
import { type CommandHost, newId } from '../command-host.ts';
import { localTime, oneLine, terminalJson } from '../format.ts';
import { resumeCommand, watchCommand, withKeptFlags } from '../next-commands.ts';
import type { StoreFlags } from '../store.ts';
import { note, type Terminal } from '../terminal.ts';
import { addStoreFlag, type TurnFlags } from '../turn-flags.ts';
import { withStore } from '../with-store.ts';
import { stateName } from './show-command.ts';

interface TasksFlags extends StoreFlags {
  readonly state?: TaskState | 'resumable';
  readonly limit: number;
  readonly children?: boolean;
  readonly json?: boolean;
}

/** Adds `millrace tasks`: the turns that a store keeps; and `millrace tasks release`, which breaks the lease of one. */
export function addTasksCommand(program: Command, host: CommandHost): void {
  const command = addStoreFlag(program.command('tasks'));
  command
    .summary('list stored turns')
    .description('List stored turns, newest first, without the child turns of sub-agents.')
    .addOption(
      new Option('--state <state>', 'only those; resumable: not ended and without an owner').choices([
        ...taskStates,
        'resumable',
      ]),
    )
    .option('--limit <number>', 'maximum number of turns', wholeNumber(1), 20)
    .option('--children', 'include child turns, each below its parent')
    .option('--json', 'write each task as a line of JSON')
    .action((flags: TasksFlags) => tasks(flags, host));
  command
    .command('release')
    .argument('<task>', 'the id of the task')
    .summary('take a turn from the process that runs it')
    .description(
      'Break the lease of a turn whose process is dead or stuck. That process can record nothing more; another one can resume the turn at once.',
    )
    .action((taskId: string, _: unknown, self: Command) => release(taskId, self.optsWithGlobals<StoreFlags>(), host));
}

async function release(taskId: string, flags: StoreFlags, host: CommandHost): Promise<void> {
  await withStore({ flags, host }, async (store, settings) => {
    const { AgentLoop } = await import('../../tasks/agent-loop.ts');
    const broken = await AgentLoop.breakLease(taskId, { store });
    if (!broken) return note(host.terminal, `no process runs ${taskId}; nothing was changed`);
    const next = resumeCommand({ taskId, store: settings, flags });
    note(host.terminal, `${taskId} is released; resume it with: ${next}`);
  });
}

async function tasks(flags: TasksFlags, host: CommandHost): Promise<void> {
  const { terminal } = host;
  await withStore({ flags, host }, async (store, { place }) => {
    const found = await summaries(store, flags);
    if (flags.json) {
      await terminal.stdout.write(found.map((task) => `${terminalJson(JSON.stringify(task))}\n`).join(''));
    } else if (found.length === 0) {
      note(terminal, `no ${flags.state === undefined ? '' : `${flags.state} `}task in ${place}`);
    } else {
      await terminal.stdout.write(await tableOf(store, found, terminal));
    }
  });
}

async function summaries(store: TaskStateStore, flags: TasksFlags): Promise<readonly TaskSummary[]> {
  const { state, limit, children = false } = flags;
  const roots = !children;
  if (state !== 'resumable') return store.list({ limit, roots, ...(state !== undefined && { state }) });
  const free = await store.list({ runnable: true, roots, limit: Number.MAX_SAFE_INTEGER });
  return [...free].sort((a, b) => b.createdAt.localeCompare(a.createdAt)).slice(0, limit);
}

interface PlacedTask {
  readonly task: TaskSummary;
  /** How many of its ancestors are above it. */
  readonly depth: number;
}

/** The tasks in their order, each child turn below its parent turn where that is among them: the one created first first. */
function placedBelow(found: readonly TaskSummary[]): readonly PlacedTask[] {
  const known = new Set(found.map(({ taskId }) => taskId));
  const isBelow = ({ parentTaskId }: TaskSummary) => parentTaskId !== undefined && known.has(parentTaskId);
  const place = (task: TaskSummary, depth: number): readonly PlacedTask[] => {
    const children = found.filter(({ parentTaskId }) => parentTaskId === task.taskId).reverse();
    return [{ task, depth }, ...children.flatMap((child) => place(child, depth + 1))];
  };
  return found.filter((task) => !isBelow(task)).flatMap((task) => place(task, 0));
}

async function tableOf(store: TaskStateStore, found: readonly TaskSummary[], terminal: Terminal): Promise<string> {
  const { style, stdout } = terminal;
  const placed = placedBelow(found);
  const idOf = ({ task, depth }: PlacedTask) => `${'  '.repeat(depth)}${task.taskId}`;
  const idColumns = Math.max(4, ...placed.map((each) => idOf(each).length));
  const stateColumns = Math.max(5, ...found.map(({ state, held }) => stateName(state, held).length));
  const line = (id: string, state: string, updated: string, asked: string) =>
    `${pad(id, idColumns)}  ${pad(state, stateColumns)}  ${pad(updated, 19)}  ${asked}`;
  const room = Math.max(10, stdout.columns - 1 - line('', '', '', '').length);
  const lines = [style.dim(line('TASK', 'STATE', 'LAST RECORD', 'ASKED'))];
  for (const each of placed) {
    const { task } = each;
    const { asked, waits } = await noteOf(store, task);
    const shown = cut(asked, room, style.glyphs.ellipsis);
    lines.push(line(idOf(each), stateName(task.state, task.held), localTime(task.updatedAt), shown).trimEnd());
    if (waits !== undefined) lines.push(style.dim(cut(`  waits: ${waits}`, stdout.columns - 1, style.glyphs.ellipsis)));
  }
  return lines.map((each) => `${each}\n`).join('');
}

/** What was asked, and why a turn that no process runs stays open. */
interface TaskNote {
  readonly asked: string;
  readonly waits?: string | undefined;
}

/** A task that is deleted meanwhile, or that cannot be read, is listed all the same. */
async function noteOf(store: TaskStateStore, { taskId, state, held }: TaskSummary): Promise<TaskNote> {
  const read = async () => store.read(taskId);
  const records = await read().catch(() => []);
  const [first] = records;
  if (first?.type !== 'turn.started') return { asked: '' };
  const asked = oneLine(textOf(first.messages.findLast(({ role }) => role === 'user')?.content));
  return state === 'working' && !held ? { asked, waits: waitOf(records) } : { asked };
}

/** A released turn, or one whose process is gone, waits for the next process. */
function waitOf(records: readonly JournalRecord[]): string {
  const last = records.at(-1);
  const error = last?.type === 'turn.suspended' ? last.hold?.error : undefined;
  return error ? oneLine(error.message) : 'no process runs it; its last one shut down or was lost';
}

interface CancelFlags extends TurnFlags {
  readonly reason: string;
}

/** Adds `millrace cancel`: ends a turn, whichever process runs it. */
export function addCancelCommand(program: Command, host: CommandHost): void {
  addStoreFlag(program.command('cancel').argument('<task>', 'the id of the task'))
    .summary('cancel a turn in any process')
    .description('Cancel a turn: the process that runs it stops; a turn without an owner is cancelled here.')
    .option('--reason <text>', 'the reason to record', 'canceled')
    .action((taskId: string, flags: CancelFlags) => cancel(taskId, flags, host));
}

async function cancel(taskId: string, flags: CancelFlags, host: CommandHost): Promise<void> {
  await withStore({ flags, host }, async (store, settings) => {
    const { AgentLoop } = await import('../../tasks/agent-loop.ts');
    const stateNow = async () => taskState(foldRecords(await store.read(taskId)));
    const before = await stateNow();
    await AgentLoop.cancel(taskId, { store, reason: flags.reason });
    const after = await stateNow();
    const isOver = isTerminalState(after);
    if (before === after && isOver) return note(host.terminal, `task ${taskId} had ended before: ${after}`);
    if (isOver) return note(host.terminal, `task ${taskId}: ${after}`);
    note(
      host.terminal,
      `asked the process that runs ${taskId} to stop; watch it with: ${watchCommand({ taskId, store: settings, flags })}`,
    );
  });
}

interface ForkFlags extends TurnFlags {
  readonly at: number;
  readonly task?: string;
}

/** Adds `millrace fork`: a new turn from the first iterations of another. */
export function addForkCommand(program: Command, host: CommandHost): void {
  addStoreFlag(program.command('fork').argument('<task>', 'the id of the task'))
    .summary('branch off a turn after some of its iterations')
    .description(
      'Copy the first iterations of a turn into a new one, which millrace resume runs. The old turn does not change.',
    )
    .requiredOption('--at <number>', 'the last iteration to keep; 0 keeps only the question', wholeNumber(0))
    .option('--task <id>', 'the id of the new turn (default: a new one)', idArgument)
    .action((taskId: string, flags: ForkFlags) => fork(taskId, flags, host));
}

async function fork(taskId: string, flags: ForkFlags, host: CommandHost): Promise<void> {
  await withStore({ flags, host }, async (store, settings) => {
    const { AgentLoop } = await import('../../tasks/agent-loop.ts');
    const forked = await AgentLoop.fork(taskId, { store, at: flags.at, taskId: flags.task ?? newId() });
    void host.terminal.stdout.write(`${forked.taskId}\n`);
    const { turn } = foldRecords(await store.read(forked.taskId));
    const place = withKeptFlags({ taskId: forked.taskId, store: settings, flags }, turn.metadata);
    note(host.terminal, `run it with: ${resumeCommand(place)}`);
  });
}
