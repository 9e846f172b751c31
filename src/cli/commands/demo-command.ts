import { existsSync } from 'node:fs';
import type { Command } from 'commander';
import { httpUrl, wholeNumber } from '../arguments.ts';
import type { CommandHost } from '../command-host.ts';
import { DemoPrinter } from '../demo-printer.ts';
import { endingOf } from '../ending.ts';
import { followTurn } from '../follow-turn.ts';
import { Interruption } from '../interruption.ts';
import { complain } from '../notes.ts';
import { pad } from '../one-line.ts';
import { section } from '../section.ts';
import { openSession, type Session } from '../session.ts';
import type { Style } from '../style.ts';
import { showTally, showWaterfall } from '../summary.ts';
import type { Tally } from '../tally.ts';
import { onStdout, type Terminal } from '../terminal.ts';
import { wrapLines } from '../wrap-lines.ts';

interface DemoFlags {
  readonly otlp?: string;
  readonly delayMs: number;
}

/** Adds `millrace demo`: one turn with the stand-in for a model, watched from all sides. */
export function addDemoCommand(program: Command, host: CommandHost): void {
  program
    .command('demo')
    .argument('[prompt]', 'what to ask the stand-in (default: several things about the working folder)')
    .summary('see it all at work, without a key')
    .description('Run one turn against the built-in stand-in for a model, over real HTTP, and show its trace.')
    .option('--otlp <url>', 'send the spans to an OTLP receiver, e.g. http://localhost:4318', httpUrl)
    .option('--delay-ms <number>', 'milliseconds before each chunk of the answer', wholeNumber(0, 60_000), 25)
    .action((prompt: string | undefined, flags: DemoFlags) => demo(prompt ?? defaultPrompt(), flags, host));
}

/** Whether the working folder is a checkout of this package. */
function inCheckout(): boolean {
  return existsSync('src/core/agent-loop.ts') && existsSync('docker-compose.yml');
}

function defaultPrompt(): string {
  const last = inCheckout() ? 'which source files mention shareTurn' : 'which files are in this folder';
  return `What is 12 * 7, what time is it in Tokyo, and ${last}?`;
}

async function demo(prompt: string, flags: DemoFlags, host: CommandHost): Promise<void> {
  const terminal = onStdout(host.terminal);
  const interruption = new Interruption(host.signals, host.exitAtOnce);
  const session = await openSession({
    flags,
    terminal,
    model: { kind: 'demo', warnings: [] },
    store: { kind: 'memory', place: 'the memory of this process' },
    traced: true,
    standInDelayMs: flags.delayMs,
  });
  try {
    introduce(session, prompt, terminal);
    const signal = AbortSignal.any([interruption.signal, terminal.stdout.closed]);
    const turn = session.loop.startTurn([{ role: 'user', content: prompt }], { signal });
    const tally = await followTurn(turn, new DemoPrinter(terminal), signal);
    const ending = endingOf(tally.final, {
      interrupted: interruption.exitCode,
      readerLeft: terminal.stdout.closed.aborted,
    });
    host.exitCode = ending.exitCode;
    if (ending.sentence !== undefined) complain(host.terminal, ending.sentence);
    else await conclude(session, { tally, terminal, flags });
  } finally {
    await session.close();
    interruption.close();
  }
}

function introduce(session: Session, prompt: string, { stdout, style }: Terminal): void {
  const lines = [
    `${style.bold('millrace')} ${style.dim(`${style.glyphs.dot} one turn, on real HTTP, without a key`)}`,
    '',
    'The model is a stand-in: a small program with fixed rules. The server,',
    'the stream, the tools and the trace are real.',
    '',
    `  ${style.dim('model ')} ${session.modelUrl}`,
    `  ${style.dim('tools ')} ${session.tools.map((tool) => tool.name).join(', ')}`,
    `  ${style.dim('folder')} ${process.cwd()}`,
    '',
    ...wrapLines(prompt, 74).map(
      (line, index) => `${index === 0 ? style.cyan(style.glyphs.prompt) : ' '} ${style.bold(line)}`,
    ),
  ];
  void stdout.write(`\n${lines.join('\n')}\n`);
}

interface Conclusion {
  readonly tally: Tally;
  readonly terminal: Terminal;
  readonly flags: DemoFlags;
}

async function conclude(session: Session, { tally, terminal, flags }: Conclusion): Promise<void> {
  const { stdout } = terminal;
  showTally(tally, terminal);
  const spans = session.trace?.takeSpans() ?? [];
  void stdout.write(`\n${section('trace', terminal)}\n`);
  await showWaterfall(spans, terminal);
  const sent = flags.otlp !== undefined && (await session.trace?.flush()) === true;
  void stdout.write(`\n${section('next', terminal)}\n\n`);
  void stdout.write(nextSteps(sent ? spans[0]?.traceId : undefined, terminal.style));
}

/** What to do next; a trace that was sent can be looked at. */
function nextSteps(traceId: string | undefined, style: Style): string {
  const rows = [
    ...(traceId === undefined ? jaegerSteps() : [['in Jaeger', `http://localhost:16686/trace/${traceId}`]]),
    ['talk to it', 'npx millrace chat'],
    ['real model', 'npx millrace run --base-url URL --model NAME "Hello"'],
  ];
  return rows.map(([title = '', text]) => `  ${style.dim(pad(title, 10))}  ${text}\n`).join('');
}

function jaegerSteps(): readonly (readonly string[])[] {
  const start = inCheckout()
    ? 'docker compose up -d jaeger'
    : 'docker run -d -p 16686:16686 -p 4318:4318 jaegertracing/jaeger:2.20.0';
  return [
    ['in Jaeger', start],
    ['', 'npx millrace demo --otlp http://localhost:4318'],
  ];
}
