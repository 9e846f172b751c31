import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { type Command, InvalidArgumentError } from 'commander';
import { lastValueFrom, tap } from 'rxjs';
import type { BatchItem, BatchProgress } from '../../batch/index.ts';
import { AgentLoopError } from '../../core/contracts/index.ts';
import { shownUrl } from '../../observability/otel-environment.ts';
import { wholeNumber } from '../arguments.ts';
import type { CommandHost } from '../command-host.ts';
import { quoted, resumeCommand } from '../next-commands.ts';
import { type AgentFlags, checkServeFlags, type Served, withServed } from '../served-agent.ts';
import { type OpenStore, type StoreFlags, shownStore, turnStore } from '../store.ts';
import { note } from '../terminal.ts';
import type { TraceFlags } from '../trace-view.ts';
import { addLeaseFlag, addModelFlags, addOtlpFlag, addServedAgentFlags, addStoreFlag } from '../turn-flags.ts';
import { BatchScreen } from './batch-screen.ts';

interface BatchFlags extends AgentFlags, StoreFlags, Pick<TraceFlags, 'otlp'> {
  readonly out: string;
  readonly id?: string;
  readonly concurrency?: number;
  readonly window?: number;
  readonly budgetCost?: number;
  readonly budgetTokens?: number;
  readonly attempts?: number;
  readonly retryFailed?: boolean;
}

const help = `
A line of FILE is JSON, {"key":"a","prompt":"…","metadata":{}} or a string, or plain text: the prompt. The key of an item without one is the number of its line. A file is checked to its end
before anything runs. Started again with the same FILE and --out, the batch continues: no finished prompt runs again.

Examples:
  $ millrace batch prompts.jsonl --agent ./agent.mjs --out results.jsonl
  $ millrace batch prompts.txt --model gpt-4o-mini --out results.jsonl --concurrency 50 --budget-cost 5
  $ jq -c '{key: .id, prompt: .text}' tickets.json | millrace batch - --out results.jsonl

Exit codes: 0 all completed, 1 some failed, wait for an answer or were not started because of the budget, 2 usage, 130 interrupted, 143 terminated.`;

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
    .option('--attempts <number>', 'how often a prompt runs at most that fails (default: 1)', wholeNumber(1))
    .option('--retry-failed', 'run the prompts again that failed in an earlier start')
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
    const { concurrency, window, budgetCost: cost, budgetTokens: tokens, attempts, id } = flags;
    const progress$ = runBatch(items, {
      agent,
      out: flags.out,
      id,
      concurrency,
      window: window ?? (concurrency !== undefined && concurrency > 1_000 ? concurrency : undefined),
      budget: { cost, tokens },
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
    const cure =
      flags.agent === undefined
        ? `answer it with "${resumeCommand({ taskId, store: settings, flags })}"`
        : 'answer it with AgentLoop.answer';
    note(terminal, `turn ${taskId} waits for an answer; ${cure}, then start the batch again`);
  }
  const again = (more: readonly string[] = []) => quotedCommand(file, flags, { store, more });
  if (last.state === 'stopped') note(terminal, `stopped; continue with "${again()}"`);
  else if (last.state === 'budget') note(terminal, `the budget is used up; continue with a larger one: "${again()}"`);
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
