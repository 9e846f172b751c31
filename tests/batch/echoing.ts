import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from '@jest/globals';
import type { LLMCallParams, LLMProvider, LLMResponse } from 'millrace';
import { type BatchItem, type BatchOptions, type BatchProgress, type BatchRow, runBatch } from 'millrace/batch';
import { lastValueFrom, tap, toArray } from 'rxjs';

export interface EchoingOptions {
  /** Passed before the answer of each call. */
  readonly wait?: (prompt: string) => Promise<unknown>;
  /** Thrown in place of the answer, where it gives one. */
  readonly fail?: (prompt: string, call: number) => Error | undefined;
  /** US dollars of a call. Default: the model does not tell. */
  readonly cost?: number;
}

/** A model that answers each prompt with itself, 10 tokens a call, and counts. */
export class Echoing implements LLMProvider {
  /** The last user message of each call. */
  readonly prompts: string[] = [];
  active = 0;
  maxActive = 0;
  readonly #options: EchoingOptions;

  constructor(options: EchoingOptions = {}) {
    this.#options = options;
  }

  async call({ messages, signal }: LLMCallParams): Promise<LLMResponse> {
    const prompt = String(messages.findLast(({ role }) => role === 'user')?.content);
    this.prompts.push(prompt);
    this.active += 1;
    this.maxActive = Math.max(this.maxActive, this.active);
    try {
      await Promise.race([this.#options.wait?.(prompt), aborted(signal)]);
      const error = this.#options.fail?.(prompt, this.prompts.length);
      if (error) throw error;
    } finally {
      this.active -= 1;
    }
    const { cost } = this.#options;
    const usage = { promptTokens: 6, completionTokens: 4, totalTokens: 10, ...(cost !== undefined && { cost }) };
    return { message: { role: 'assistant', content: `echo: ${prompt}` }, model: 'm', finishReason: 'stop', usage };
  }
}

function aborted(signal: AbortSignal | undefined): Promise<never> | undefined {
  if (!signal) return undefined;
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}

export interface Ran<T> {
  readonly rows: readonly BatchRow<T>[];
  readonly all: readonly BatchProgress<T>[];
  readonly last: BatchProgress<T>;
}

/** The whole of a batch that completes. */
export async function ran<T, C>(
  items: Parameters<typeof runBatch>[0],
  options: BatchOptions<T, C>,
  look?: (progress: BatchProgress<T>) => void,
): Promise<Ran<T>> {
  const all = await lastValueFrom(runBatch(items, options).pipe(tap(look), toArray()));
  const last = all.at(-1);
  if (!last) throw new Error('A batch completed without a progress.');
  return { all, last, rows: all.flatMap(({ row }) => (row ? [row] : [])) };
}

export function prompts(count: number): readonly BatchItem[] {
  return Array.from({ length: count }, (_, index) => ({ key: `k${index + 1}`, prompt: `prompt ${index + 1}` }));
}

const folders: string[] = [];

export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-batch-'));
  folders.push(folder);
  return folder;
}

afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** The lines of a results file, parsed; a torn or an empty line throws. */
export function linesIn(path: string): readonly Readonly<Record<string, unknown>>[] {
  const text = readFileSync(path, 'utf8');
  if (text !== '' && !text.endsWith('\n')) throw new Error('The last line is torn.');
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line));
}

export function keysIn(path: string): readonly string[] {
  return linesIn(path)
    .map(({ key }) => String(key))
    .sort();
}
