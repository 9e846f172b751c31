import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { type Command, InvalidArgumentError } from 'commander';
import { lastValueFrom, tap } from 'rxjs';
import type { BatchItem, BatchProgress, BatchRow } from '../../batch/index.ts';
import { AgentLoopError } from '../../core/contracts/index.ts';
import { shownUrl } from '../../observability/otel-environment.ts';
import { wholeNumber } from '../arguments.ts';
import { cut, LiveRegion } from '../columns.ts';
import type { CommandHost } from '../command-host.ts';
import { count, duration, oneLine } from '../format.ts';
import { quoted, resumeCommand } from '../next-commands.ts';
import { type AgentFlags, checkServeFlags, type Served, withServed } from '../served-agent.ts';
import { type OpenStore, type StoreFlags, shownStore, turnStore } from '../store.ts';
import { note, type Terminal } from '../terminal.ts';
import type { TraceFlags } from '../trace-view.ts';
import { addLeaseFlag, addModelFlags, addOtlpFlag, addServedAgentFlags, addStoreFlag } from '../turn-flags.ts';

interface BatchFlags extends AgentFlags, StoreFlags, Pick<TraceFlags, 'otlp'> {
  readonly out: string;
  readonly id?: string;
  readonly concurrency?: number;
  readonly window?: number;
  readonly budgetCost?: number;
  readonly budgetTokens?: number;
  readonly attempts?: number;
  readonly maxFailures?: number;
  readonly retryFailed?: boolean;
}

const help = `
A line of FILE is JSON, {"key":"a","prompt":"…","metadata":{}} or a string, or plain text: the prompt. The key of an item without one is the number of its line. A file is checked to its end
before anything runs. Started again with the same FILE and --out, the batch continues: no finished prompt runs again.

Examples:
  $ millrace batch prompts.jsonl --agent ./agent.mjs --out results.jsonl
  $ millrace batch prompts.txt --model openai:gpt-5.6-luna --out results.jsonl --concurrency 50 --budget-cost 5
  $ jq -c '{key: .id, prompt: .text}' tickets.json | millrace batch - --out results.jsonl

Exit codes: 0 all completed, 1 some failed, wait for an answer or were not started because of the budget or of --max-failures, 2 usage, 130 interrupted, 143 terminated.`;

/** Adds `millrace batch`: a turn for each line of a file, their results in another one. */
export function addBatchCommand(program: Command, host: CommandHost): void {
  const command = program.command('batch').argument('<file>', 'the prompts, one a line; - reads them from stdin');
  addServedAgentFlags(addOtlpFlag(addLeaseFlag(addStoreFlag(addModelFlags(addBatchFlags(command))))))
    .summary('run many prompts')
    .description('Run a turn for each line of a file, many at once, and write a row for each to another file.')
    .addHelpText('after', help)
    .action((file: string, flags: BatchFlags) => batch(file, flags, host));
}

function addBatchFlags(command: Command): Command {
  return command
    .requiredOption('--out <file>', 'where the rows are written, JSON Lines; an existing file is continued')
    .option('--agent <file>', 'an ES module whose default export is an agent, or the options of one')
    .option('--concurrency <number>', 'turns that run at once (default: 10)', wholeNumber(1))
    .option('--budget-cost <dollars>', 'start no more turns once they have cost this much', dollars)
    .option('--budget-tokens <number>', 'start no more turns once they have used this many tokens', wholeNumber(1))
    .option('--attempts <number>', 'maximum attempts for a prompt that fails (default: 1)', wholeNumber(1))
    .option('--max-failures <number>', 'start no more turns once so many failed for good', wholeNumber(1))
    .option('--retry-failed', 'repeat prompts that failed in an earlier start')
    .option('--id <name>', 'the name of the batch in the store (default: the path of --out)')
    .option('--window <number>', 'lines that are read ahead (default: 1000)', wholeNumber(1));
}

function dollars(text: string): number {
  const amount = Number(text);
  if (/^\d*\.?\d+$/.test(text) && amount > 0) return amount;
  throw new InvalidArgumentError('It must be an amount of US dollars above 0, such as 2.50.');
}

async function batch(file: string, flags: BatchFlags, host: CommandHost): Promise<void> {
  const { terminal } = host;
  checkServeFlags(flags);
  if (file !== '-' && resolve(file) === resolve(flags.out))
    throw new AgentLoopError('INVALID_INPUT', '--out names the file of the prompts; name another one');
  const total = file === '-' ? undefined : await checkedCount(file);
  const settings = turnStore(flags, terminal.env);
  await withServed({ flags, settings, structured: false, host }, (served) =>
    runOn(served, { file, flags, host, total }),
  );
}

/** Reads a file of prompts to its end: what is wrong in it is said before anything is paid. Errors: `INVALID_INPUT`. */
async function checkedCount(file: string): Promise<number> {
  const { readPrompts } = await import('../../batch/index.ts');
  const { ItemCheck } = await import('../../batch/batch-item.ts');
  if (!existsSync(file)) throw new AgentLoopError('INVALID_INPUT', `there is no file ${file}`);
  const check = new ItemCheck();
  for await (const item of readPrompts(file)) check.place(item);
  if (check.count > 0) return check.count;
  throw new AgentLoopError('INVALID_INPUT', `${file} has no prompts`);
}

interface BatchRequest {
  readonly file: string;
  readonly flags: BatchFlags;
  readonly host: CommandHost;
  readonly total: number | undefined;
}

async function runOn({ agent, stores, interruption }: Served, request: BatchRequest): Promise<void> {
  const { file, flags, host, total } = request;
  const { readPrompts, runBatch } = await import('../../batch/index.ts');
  const { ModelRegistry } = await import('../../providers/models/model-registry.ts');
  const screen = new BatchScreen(host.terminal);
  try {
    const items: AsyncIterable<BatchItem> =
      file === '-' ? readPrompts(host.stdin, { name: 'stdin' }) : readPrompts(file);
    const { concurrency, window, budgetCost: cost, budgetTokens: tokens, attempts, maxFailures, id } = flags;
    const progress$ = runBatch(items, {
      agent,
      out: flags.out,
      id,
      concurrency,
      window: window ?? (concurrency !== undefined && concurrency > 1_000 ? concurrency : undefined),
      budget: { cost, tokens },
      maxFailures,
      prices: new ModelRegistry(),
      retry: attempts === undefined ? undefined : { attempts },
      retryFailed: flags.retryFailed,
      total,
      signal: interruption.signal,
    });
    const last = await lastValueFrom(progress$.pipe(tap((progress) => screen.show(progress))));
    screen.close();
    tell(last, request, { store: stores.journals, screen });
    host.exitCode = interruption.exitCode ?? (isAllDone(last) ? 0 : 1);
  } finally {
    screen.close();
  }
}

function isAllDone({ state, failed, suspended }: BatchProgress): boolean {
  return state === 'completed' && failed === 0 && suspended === 0;
}

interface Told {
  readonly store: OpenStore;
  readonly screen: BatchScreen;
}

/** What came of it, and the command that goes further. */
function tell(last: BatchProgress, { file, flags, host }: BatchRequest, { store, screen }: Told): void {
  const { terminal } = host;
  const { settings } = store;
  screen.summarize(last, flags.out);
  for (const taskId of screen.suspended.slice(0, 5)) {
    const answer = resumeCommand({ taskId, store: settings, flags });
    note(terminal, `turn ${taskId} waits for an answer; answer it with "${answer}", then start the batch again`);
  }
  const again = (more: readonly string[] = []) => quotedCommand(file, flags, { store, more });
  if (last.state === 'stopped') note(terminal, `stopped; continue with "${again()}"`);
  else if (last.state === 'budget') note(terminal, `the budget is used up; continue with a larger one: "${again()}"`);
  else if (last.state === 'failures')
    note(terminal, `stopped by --max-failures; once the cause is mended, continue with "${again(['--retry-failed'])}"`);
  else if (last.failed > 0) note(terminal, `run the failed ones again with "${again(['--retry-failed'])}"`);
}

/** The command that continues the batch, with the options that it was run with. */
function quotedCommand(
  file: string,
  flags: BatchFlags,
  { store, more }: { readonly store: OpenStore; readonly more: readonly string[] },
): string {
  const { baseUrl, mcp = [] } = flags;
  const options: readonly (readonly [name: string, value: string | number | undefined])[] = [
    ['--out', flags.out],
    ['--agent', flags.agent],
    ['--id', flags.id],
    ['--concurrency', flags.concurrency],
    ['--window', flags.window],
    ['--budget-cost', flags.budgetCost],
    ['--budget-tokens', flags.budgetTokens],
    ['--attempts', flags.attempts],
    ['--max-failures', flags.maxFailures],
    ['--tools', flags.tools],
    ...mcp.map((server) => ['--mcp', server] as const),
    ['--system', flags.system],
    ['--workspace', flags.workspace],
    ['--base-url', baseUrl === undefined ? undefined : shownUrl(baseUrl)],
    ['--model', flags.model],
    ['--api-key-env', flags.apiKeyEnv],
    ['--store', flags.store === undefined ? undefined : shownStore(store.settings)],
  ];
  const given = options.flatMap(([name, value]) => (value === undefined ? [] : [name, quoted(String(value))]));
  return ['millrace batch', quoted(file), ...given, ...more].join(' ');
}

/** So many failures are listed as they come; all are in the results. */
const mostListed = 20;
const redrawMs = 100;
const plainMs = 10_000;
const barColumns = 20;

/** How a batch looks on stderr: a bar that is redrawn in place, or a line now and then. */
export class BatchScreen {
  readonly #terminal: Terminal;
  readonly #region: LiveRegion;
  readonly #startedAt = Date.now();
  #drawnAt = 0;
  #listed = 0;
  readonly #codes = new Map<string, number>();
  readonly #suspended: string[] = [];

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
    this.#region = new LiveRegion((text) => void terminal.stderr.writeRaw(text));
    this.#drawnAt = terminal.live ? 0 : this.#startedAt;
  }

  /** Tasks that wait for an answer, in the order in which they came. */
  get suspended(): readonly string[] {
    return this.#suspended;
  }

  show(progress: BatchProgress): void {
    const { live } = this.#terminal;
    const failure = progress.row && this.#failureOf(progress.row);
    const isDue = Date.now() - this.#drawnAt >= (live ? redrawMs : plainMs);
    if (!isDue && failure === undefined) return;
    if (isDue) this.#drawnAt = Date.now();
    const columns = this.#terminal.stderr.columns - 1;
    if (live)
      this.#region.draw([cut(this.#line(progress), columns)], failure === undefined ? [] : [cut(failure, columns)]);
    else if (failure !== undefined) void this.#terminal.stderr.write(`${failure}\n`);
    else note(this.#terminal, this.#numbers(progress).join(', '));
  }

  /** Takes the bar away. */
  close(): void {
    if (this.#terminal.live) this.#region.clear();
  }

  summarize(last: BatchProgress, out: string): void {
    const { completed, failed, suspended, earlier, usage, cost } = last;
    const parts = [
      `${completed.toLocaleString('en-US')} completed`,
      ...(failed > 0 ? [`${failed.toLocaleString('en-US')} failed${this.#causes()}`] : []),
      ...(suspended > 0 ? [`${suspended.toLocaleString('en-US')} waiting for an answer`] : []),
      ...(earlier > 0 ? [`${earlier.toLocaleString('en-US')} of them in earlier starts`] : []),
    ];
    const took = [count(usage.totalTokens, 'token'), ...costOf(cost), duration(Date.now() - this.#startedAt)];
    note(this.#terminal, `${parts.join(', ')}; ${took.join(', ')}; rows in ${out}`);
  }

  #causes(): string {
    const causes = [...this.#codes].map(([code, times]) => `${code} ${times.toLocaleString('en-US')}`);
    return causes.length === 0 ? '' : ` (${causes.join(', ')})`;
  }

  #failureOf(row: BatchRow): string | undefined {
    if (row.status === 'suspended') this.#suspended.push(row.taskId);
    if (row.status !== 'failed' && row.status !== 'canceled') return undefined;
    const { code, message } = row.error;
    this.#codes.set(code, (this.#codes.get(code) ?? 0) + 1);
    this.#listed += 1;
    const { errorStyle: style } = this.#terminal;
    if (this.#listed > mostListed + 1) return undefined;
    if (this.#listed > mostListed) return style.dim('more failures are in the results');
    return `${style.red(style.glyphs.failed)} ${oneLine(row.key)}: ${code} ${oneLine(message)}`;
  }

  #line(progress: BatchProgress): string {
    const { errorStyle: style } = this.#terminal;
    return [this.#bar(progress), ...this.#numbers(progress)].join(style.unicode ? ' · ' : ', ');
  }

  #bar({ total, completed, failed, suspended }: BatchProgress): string {
    const done = completed + failed + suspended;
    const part = total === undefined || total === 0 ? 0 : Math.min(1, done / total);
    const [full, empty] = this.#terminal.errorStyle.unicode ? ['█', '░'] : ['#', '-'];
    const filled = Math.round(part * barColumns);
    return `${full?.repeat(filled)}${empty?.repeat(barColumns - filled)} ${Math.floor(part * 100)} %`;
  }

  #numbers({ total, completed, failed, suspended, running, waiting, perSecond, cost, etaMs }: BatchProgress): string[] {
    const of = total === undefined ? '' : ` of ${total.toLocaleString('en-US')}`;
    return [
      `${(completed + failed + suspended).toLocaleString('en-US')}${of} done`,
      ...(failed > 0 ? [`${failed.toLocaleString('en-US')} failed`] : []),
      `${running} running`,
      `${waiting.toLocaleString('en-US')} waiting`,
      `${perSecond.toFixed(1)}/s`,
      ...costOf(cost),
      ...(etaMs === undefined ? [] : [`${duration(etaMs)} left`]),
    ];
  }
}

function costOf(cost: number | undefined): readonly string[] {
  return cost === undefined || cost === 0 ? [] : [`$${cost.toFixed(cost < 1 ? 4 : 2)}`];
}
