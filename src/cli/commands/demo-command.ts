import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Command } from 'commander';
import { type AgentEvent, AgentLoopError, systemClock } from '../../core/contracts/index.ts';
import { pause } from '../../core/streams/index.ts';
import { otlpSpanPackages, spanPackages } from '../../observability/load-sdk.ts';
import { LocalToolProvider } from '../../tools/local-tools.ts';
import { httpUrl, wholeNumber } from '../arguments.ts';
import { type CommandHost, type Interruption, newId, ownFile, withInterruption } from '../command-host.ts';
import { demoTools, ledgerRows, ledgerVariable, readLedger, slowTools } from '../demo/demo-tools.ts';
import { defaultPrompt, introduction, ledgerTable, linkLine, nextSteps } from '../demo/screens.ts';
import { endingOf, showTally, type Tally } from '../ending.ts';
import { followTurn } from '../play-turn.ts';
import { type Printer, TextPrinter } from '../printer.ts';
import { openSession, type Session } from '../session.ts';
import { canLoad } from '../store.ts';
import { complain, type Environment, onStdout, section, type Terminal } from '../terminal.ts';
import { showWaterfall, wantsExport } from '../trace-view.ts';

interface DemoFlags {
  readonly otlp?: string;
  readonly delayMs: number;
}

/** How long the journal stays with the killed process. */
const leaseMs = 700;

/** Adds `millrace demo`: a turn with the demo model that is killed and resumed, with its events, ledger and trace. */
export function addDemoCommand(program: Command, host: CommandHost): void {
  program
    .command('demo')
    .argument('[prompt]', 'what to ask the demo model (default: several things about the working folder)')
    .summary('a tour, without a key')
    .description('Run a turn against the built-in demo model, kill it with SIGKILL while tools run, and resume it.')
    .option(
      '--otlp <url>',
      'send the spans to an OTLP receiver, e.g. http://localhost:4318',
      httpUrl('http://localhost:4318'),
    )
    .option('--delay-ms <number>', 'milliseconds before each chunk of the answer', wholeNumber(0, 60_000), 20)
    .action((prompt: string | undefined, flags: DemoFlags) => demo(prompt ?? defaultPrompt(), flags, host));
}

/** All that the parts of the demo need. */
interface Show {
  readonly prompt: string;
  readonly flags: DemoFlags;
  readonly taskId: string;
  readonly folder: string;
  readonly ledger: string;
  readonly session: Session;
  readonly terminal: Terminal;
  readonly signal: AbortSignal;
}

async function demo(prompt: string, flags: DemoFlags, host: CommandHost): Promise<void> {
  const terminal = onStdout(host.terminal);
  assertInstalled(['lmdb', ...(wantsExport(flags, terminal.env) ? otlpSpanPackages : spanPackages)]);
  await withInterruption(host, async (interruption) => {
    const folder = realpathSync(mkdtempSync(join(tmpdir(), 'millrace-demo-')));
    const ledger = join(folder, 'ledger.jsonl');
    try {
      const path = join(folder, 'journal');
      const session = await openSession({
        flags: { ...flags, leaseMs },
        terminal,
        model: { kind: 'demo', warnings: [] },
        store: { kind: 'lmdb', path, place: path },
        tools: new LocalToolProvider(demoTools(process.cwd(), ledger)),
        traced: true,
        standInDelayMs: flags.delayMs,
      });
      const signal = AbortSignal.any([interruption.signal, terminal.stdout.closed]);
      const show: Show = { prompt, flags, taskId: newId(), folder, ledger, session, terminal, signal };
      try {
        await play(show, { host, interruption });
      } finally {
        await session.close();
      }
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
}

/** The demo kills a process and draws spans, so it needs what other commands do without. Errors: `MISSING_PACKAGE`. */
function assertInstalled(names: readonly string[]): void {
  const missing = names.filter((name) => !canLoad(name));
  if (missing.length === 0) return;
  const packages = missing.map((name) => `"${name}"`).join(', ');
  const cure = `run \`npm install ${missing.join(' ')}\``;
  throw new AgentLoopError('MISSING_PACKAGE', `the demo needs packages that cannot be loaded: ${packages}; ${cure}`);
}

async function play(
  show: Show,
  { host, interruption }: { readonly host: CommandHost; readonly interruption: Interruption },
): Promise<void> {
  const { terminal, signal, session, prompt, folder } = show;
  void terminal.stdout.write(introduction({ prompt, folder, modelUrl: session.modelUrl }, terminal.style));
  const doomed = await runToDeath(show);
  const tally = signal.aborted ? undefined : await resumeHere(show, doomed);
  const ending = endingOf(tally?.final, {
    interrupted: interruption.exitCode,
    readerLeft: terminal.stdout.closed.aborted,
  });
  if (tally === undefined) {
    host.exitCode = interruption.exitCode ?? 141;
    return;
  }
  host.exitCode = ending.exitCode;
  if (ending.sentence !== undefined) complain(host.terminal, ending.sentence);
  else await conclude(show, doomed, tally);
}

/** The turn in a process of its own, as `millrace run` runs it, until it is killed. */
async function runToDeath({
  prompt,
  flags,
  taskId,
  folder,
  ledger,
  session,
  terminal,
  signal,
}: Show): Promise<DoomedRun> {
  const printer = new DemoPrinter(terminal);
  const tools = ownFile('dist/cli/demo/tools-module.js');
  const model = ['--base-url', session.modelUrl, '--model', 'demo', '--tools', tools];
  const place = ['--store', `lmdb:${join(folder, 'journal')}`, '--task', taskId, '--lease-ms', String(leaseMs)];
  const traced = flags.otlp === undefined ? ['--trace'] : ['--otlp', flags.otlp];
  const doomed = await doomedRun({
    args: ['run', prompt, ...model, ...place, ...traced, '--json'],
    env: { ...terminal.env, OPENAI_API_KEY: undefined, [ledgerVariable]: ledger },
    signal,
    show: (event) => printer.print(event),
  });
  printer.cutOff();
  printer.close();
  return doomed;
}

/** Resumes the turn in this process. */
async function resumeHere({ session, taskId, terminal, signal }: Show, { killed, pid }: DoomedRun): Promise<Tally> {
  const { style, stdout } = terminal;
  if (killed) {
    const what = `kill -9 ${pid}`;
    void stdout.write(`\n${section(what, terminal)}\n`);
    const [gone, heir] = [style.red('The process is gone.'), `this one (${process.pid})`];
    void stdout.write(
      `${gone} When its lease on the journal has run out,\n${heir} resumes the turn, as "millrace resume" does.\n`,
    );
  }
  const printer = new DemoPrinter(terminal);
  const turn = session.agent.resume(taskId, { signal, onBusy: 'wait' });
  return followTurn(turn, killed ? fromResumption(printer) : silent, signal);
}

/** What the other process did has been shown; of it only the summary counts. */
function fromResumption(printer: DemoPrinter): Printer {
  let resumed = false;
  return {
    print(event) {
      if (event.kind === 'internal:resumed') {
        resumed = true;
        printer.section('resumed');
      } else if (resumed) return printer.print(event);
    },
    cancelling: () => printer.cancelling(),
    close: () => printer.close(),
  };
}

const silent: Printer = { print() {}, cancelling() {}, close() {} };

async function conclude({ session, terminal, flags, ledger }: Show, doomed: DoomedRun, tally: Tally): Promise<void> {
  const { stdout, style } = terminal;
  showTally(tally, terminal);
  if (doomed.killed) {
    void stdout.write(`\n${section('what the ledger says', terminal)}\n\n`);
    void stdout.write(ledgerTable(ledgerRows(readLedger(ledger), doomed.pid), style));
  }
  const spans = session.trace?.takeSpans() ?? [];
  if (spans.length > 0) {
    void stdout.write(`\n${section('trace of the resumed turn', terminal)}\n`);
    await showWaterfall(spans, terminal);
    void stdout.write(linkLine(spans, style));
  }
  const { otlp } = flags;
  const traceId = spans[0]?.traceId;
  const sent = otlp !== undefined && traceId !== undefined && (await session.trace?.flush()) === true;
  void stdout.write(`\n${section('next', terminal)}\n\n`);
  void stdout.write(nextSteps(sent ? { traceId, otlp } : undefined, terminal));
}

/** Shows a turn with a heading for each iteration. */
class DemoPrinter extends TextPrinter {
  readonly #terminal: Terminal;

  constructor(terminal: Terminal) {
    super(terminal);
    this.#terminal = terminal;
  }

  override print(event: AgentEvent): void | Promise<void> {
    if (event.kind === 'internal:iteration-start') this.section(`iteration ${event.iteration}`);
    return super.print(event);
  }

  section(title: string): void {
    this.heading(section(title, this.#terminal));
  }
}

interface DoomedRunOptions {
  /** The arguments of `millrace run`; with `--json`. */
  readonly args: readonly string[];
  readonly env: Environment;
  readonly signal: AbortSignal;
  /** Shows an event. */
  readonly show: (event: AgentEvent) => void | Promise<void>;
}

interface DoomedRun {
  readonly pid: number;
  /** False where the turn was over before any of its tools could be interrupted. */
  readonly killed: boolean;
}

/** So that it can be seen that they run. */
const beforeKillMs = 400;

const main = ownFile('dist/cli/main.js');

/**
 * Runs a turn as a process of its own and kills it with SIGKILL while slow tools run and no other does. Resolves when the process is
 * gone. Rejects where it cannot be started, or ends on its own with an error: with what it said.
 */
async function doomedRun({ args, env, signal, show }: DoomedRunOptions): Promise<DoomedRun> {
  const child = spawn(process.execPath, [main, ...args], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const gone = once(child, 'close');
  const leave = () => child.kill('SIGKILL');
  signal.addEventListener('abort', leave, { once: true });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    said += text;
  });
  try {
    const running = new Map<string, string>();
    let kill: Promise<void> | undefined;
    for await (const line of createInterface({ input: child.stdout })) {
      const event = eventIn(line);
      if (event === undefined) break;
      await show(event);
      if (event.kind === 'internal:tool-start') running.set(event.callId, event.toolName);
      if (event.kind === 'internal:tool-complete') running.delete(event.callId);
      const onlySlow = running.size > 0 && [...running.values()].every((name) => slowTools.has(name));
      if (onlySlow) kill ??= pause(beforeKillMs, systemClock).then(() => void child.kill('SIGKILL'));
    }
    await gone;
    await kill;
    return ended(child, said);
  } finally {
    signal.removeEventListener('abort', leave);
  }
}

/** The last line of a process that was killed may be a part of one. */
function eventIn(line: string): AgentEvent | undefined {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

function ended({ pid = 0, signalCode, exitCode }: ChildProcess, said: string): DoomedRun {
  if (signalCode === null && exitCode !== 0) throw new Error(said.trim());
  return { pid, killed: signalCode === 'SIGKILL' };
}
