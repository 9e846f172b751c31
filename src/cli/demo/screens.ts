import { existsSync } from 'node:fs';
import type { FinishedSpan } from '../../observability/finished-spans.ts';
import { pad, wrapLines } from '../columns.ts';
import type { Style, Terminal } from '../terminal.ts';
import { type Fate, type LedgerRow, verdictOf } from './demo-tools.ts';

export interface Scene {
  readonly prompt: string;
  readonly modelUrl: string;
  /** Where the journal and the ledger are. */
  readonly folder: string;
}

/** Whether the working folder is a checkout of this package. */
function inCheckout(): boolean {
  return existsSync('src/core/turn/loop.ts') && existsSync('docker-compose.yml');
}

export function defaultPrompt(): string {
  const last = inCheckout() ? 'which source files mention shareTurn' : 'which files are in this folder';
  return `What is 12 * 7, what time is it in Tokyo, ${last}, and send ann@example.org an invitation.`;
}

/** Says what the demo does, and which parts are real. */
export function introduction({ prompt, modelUrl, folder }: Scene, style: Style): string {
  const lines = [
    `${style.bold('millrace')} ${style.dim(`${style.glyphs.dot} a turn that survives kill -9`)}`,
    '',
    'The model is a stand-in: a small program with fixed rules. Its server, the',
    'journal, the kill -9 and the trace are real. Each tool writes what it does',
    'to a separate ledger. The search and the invitation take a second and a',
    'half, so that the kill hits them; an invitation must not be sent twice.',
    '',
    `  ${style.dim('model  ')} ${modelUrl}`,
    `  ${style.dim('journal')} ${folder}/journal`,
    `  ${style.dim('ledger ')} ${folder}/ledger.jsonl`,
    '',
    ...wrapLines(prompt, 74).map(
      (line, index) => `${index === 0 ? style.cyan(style.glyphs.prompt) : ' '} ${style.bold(line)}`,
    ),
  ];
  return `\n${lines.join('\n')}\n`;
}

/** The entries of the ledger for each call, in the killed process and in the one that resumed. */
export function ledgerTable(rows: readonly LedgerRow[], style: Style): string {
  const line = (tool: string, before: string, after: string, verdict: string) =>
    `  ${pad(tool, 16)}  ${pad(before, 14)}  ${pad(after, 13)}  ${verdict}`.trimEnd();
  const paint = (fate: Fate, columns: number) => {
    const text = pad(fate, columns);
    return fate === 'finished' ? style.green(text) : fate === 'cut off' ? style.red(text) : style.dim(text);
  };
  const lines = rows.map((row) => line(row.tool, paint(row.before, 14), paint(row.after, 13), verdictOf(row)));
  return [style.dim(line('', 'killed process', 'resumed', '')), ...lines].map((each) => `${each}\n`).join('');
}

/** The trace of the killed process, as linked from the root span of the resumed turn. */
export function linkLine(spans: readonly FinishedSpan[], style: Style): string {
  const link = spans.find(({ links = [] }) => links.length > 0)?.links?.[0];
  if (link === undefined) return '';
  return `  ${style.dim(`linked to the trace of the killed process, ${link.traceId}`)}\n`;
}

/** A trace that was sent to an OTLP endpoint. */
export interface SentTrace {
  readonly traceId: string;
  readonly otlp: string;
}

/** What to do next; a trace that was sent can be looked at. */
export function nextSteps(sent: SentTrace | undefined, { style }: Terminal): string {
  const rows = [
    ...(sent === undefined ? jaegerSteps() : [['in Jaeger', jaegerPage(sent)]]),
    ['talk to it', 'npx millrace chat'],
    ['your turns', 'npx millrace run "Hello", then npx millrace tasks'],
    ['real model', 'npx millrace run --base-url URL --model NAME "Hello"'],
  ];
  return rows.map(([title = '', text]) => `  ${style.dim(pad(title, 10))}  ${text}\n`).join('');
}

/** The page of the trace in the UI of a Jaeger that listens on the host of the endpoint. */
function jaegerPage({ traceId, otlp }: SentTrace): string {
  const { hostname } = new URL(otlp);
  return `http://${hostname}:16686/trace/${traceId}`;
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
