import { statSync } from 'node:fs';
import { type FileHandle, open, rename, rm } from 'node:fs/promises';
import { AgentLoopError, messageOf, type Usage } from '../core/contracts/index.ts';
import { privateFileMode } from '../private-files.ts';
import { addSpent, type BatchRow, lineOf, nothingSpent, type Spent } from './batch-row.ts';
import { ResultsLock } from './results-lock.ts';
import { textLines } from './text-lines.ts';

/** What is kept in memory of a row of an earlier start. */
export interface KnownRow {
  readonly status: BatchRow['status'];
  readonly taskId: string;
  readonly attempts: number;
  readonly input: string;
  readonly spent: Spent;
}

interface OpenedFile {
  readonly path?: string;
  readonly file?: FileHandle;
  readonly known: ReadonlyMap<string, KnownRow>;
  readonly lock?: ResultsLock | undefined;
}

const noRows: ReadonlyMap<string, KnownRow> = new Map();

/**
 * The results of a batch, a row a line. A process that is killed leaves at most a torn last line, which the next `open` removes, and rows that a
 * later one of the same key replaces, which `open` and `close` remove. Memory: for each row what `KnownRow` has.
 */
export class ResultsFile {
  /** The rows of earlier starts by key. */
  readonly known: ReadonlyMap<string, KnownRow>;
  readonly #path: string | undefined;
  readonly #file: FileHandle | undefined;
  readonly #lock: ResultsLock | undefined;
  #unwritten = '';
  #writing: Promise<void> | undefined;
  #replaced = false;

  private constructor({ path, file, known, lock }: OpenedFile) {
    this.#path = path;
    this.#file = file;
    this.#lock = lock;
    this.known = known;
  }

  /**
   * Errors: `INVALID_INPUT` for a file that has something else than rows in it, which is left as it is; `CONFLICT` for one that another run
   * writes; `UNAVAILABLE`.
   */
  static async open(path: string | undefined): Promise<ResultsFile> {
    if (path === undefined) return new ResultsFile({ known: noRows });
    return ofFile(path, async () => {
      const found = statSync(path, { throwIfNoEntry: false });
      // A device, such as /dev/null, keeps nothing that two runs could write twice.
      const lock = found === undefined || found.isFile() ? await ResultsLock.take(path) : undefined;
      try {
        const known = found ? await repaired(path, lock?.isTakenOver) : noRows;
        return new ResultsFile({ path, file: await open(path, 'a', privateFileMode), known, lock });
      } catch (error) {
        await lock?.release();
        throw error;
      }
    });
  }

  /** Resolves once the row is written. Rows that come while others are written are written together. */
  append<T>(row: BatchRow<T>): Promise<void> {
    const [path, file] = [this.#path, this.#file];
    if (!file || path === undefined) return Promise.resolve();
    this.#replaced ||= this.known.has(row.key);
    this.#unwritten += lineOf(row);
    this.#writing ??= ofFile(path, () => this.#write(file));
    return this.#writing;
  }

  async #write(file: FileHandle): Promise<void> {
    // Those that end in the same moment go together.
    await Promise.resolve();
    while (this.#unwritten !== '') {
      const lines = this.#unwritten;
      this.#unwritten = '';
      await this.#lock?.check();
      await file.appendFile(lines);
    }
    this.#writing = undefined;
  }

  /** Errors: `UNAVAILABLE`. */
  async close(): Promise<void> {
    const [path, file] = [this.#path, this.#file];
    if (!file || path === undefined) return;
    await ofFile(path, async () => {
      try {
        try {
          await file.sync();
        } finally {
          await file.close();
        }
        if (this.#replaced && (await this.#lock?.isHeld())) await repaired(path);
      } finally {
        await this.#lock?.release();
      }
    });
  }
}

/** Errors: `UNAVAILABLE` for what the file system refuses; others unchanged. */
async function ofFile<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if (AgentLoopError.isInstance(cause)) throw cause;
    const message = `The results cannot be kept in ${path} (${messageOf(cause)}); name a file in a folder that exists and that this process may write to, on a disk with room.`;
    throw new AgentLoopError('UNAVAILABLE', message, { cause });
  }
}

/**
 * Removes a torn last line and rows that a later one replaces, and gives what is left. With `anew` always in a new file under the same name: what
 * an owner before has open is then another one.
 */
async function repaired(path: string, anew = false): Promise<ReadonlyMap<string, KnownRow>> {
  const { known, lines, torn, count } = await readRows(path);
  if (anew || count > known.size) await rewrite(path, new Set(lines.values()));
  else if (torn) await mendEnd(path, torn);
  return known;
}

interface ReadRows {
  readonly known: ReadonlyMap<string, KnownRow>;
  /** The line of the last row of each key. */
  readonly lines: ReadonlyMap<string, number>;
  readonly count: number;
  /** A last line without an end: where it begins if it is no row, else undefined. */
  readonly torn: { readonly from: number | undefined } | undefined;
}

async function readRows(path: string): Promise<ReadRows> {
  const known = new Map<string, KnownRow>();
  const lines = new Map<string, number>();
  let count = 0;
  let begin = 0;
  for await (const { text, number, isWhole, end } of textLines(path)) {
    const row = knownRow(text);
    if (!row) {
      if (!isWhole && isTorn(text)) return { known, lines, count, torn: { from: begin } };
      throw new AgentLoopError(
        'INVALID_INPUT',
        `${path}:${number} is not a row of a batch; name a new file, or the results of an earlier start.`,
      );
    }
    count += 1;
    known.set(row.key, row.known);
    lines.set(row.key, number);
    begin = end;
    if (!isWhole) return { known, lines, count, torn: { from: undefined } };
  }
  return { known, lines, count, torn: undefined };
}

const opening = '{"key":"';

/** Whether a line may be the begin of a row: anything else was not written by a batch. */
function isTorn(text: string): boolean {
  return text.startsWith(opening) || opening.startsWith(text);
}

function knownRow(text: string): { readonly key: string; readonly known: KnownRow } | undefined {
  try {
    const row: unknown = JSON.parse(text);
    if (!isRow(row)) return undefined;
    const { key, status, taskId, attempts, input, usage, cost } = row;
    return { key, known: { status, taskId, attempts, input, spent: { usage, cost } } };
  } catch {
    return undefined;
  }
}

const statuses: Readonly<Record<BatchRow['status'], true>> = {
  completed: true,
  failed: true,
  canceled: true,
  suspended: true,
};

function isStatus(value: unknown): value is BatchRow['status'] {
  return typeof value === 'string' && Object.hasOwn(statuses, value);
}

type WrittenRow = Pick<BatchRow, 'key' | 'status' | 'taskId' | 'attempts' | 'input' | 'usage' | 'cost'>;

function isRow(value: unknown): value is WrittenRow {
  if (typeof value !== 'object' || value === null) return false;
  return (
    ['key', 'taskId', 'input'].every((name) => typeof Reflect.get(value, name) === 'string') &&
    isStatus(Reflect.get(value, 'status')) &&
    Number.isSafeInteger(Reflect.get(value, 'attempts')) &&
    isUsage(Reflect.get(value, 'usage')) &&
    ['number', 'undefined'].includes(typeof Reflect.get(value, 'cost'))
  );
}

function isUsage(value: unknown): value is Usage {
  return typeof value === 'object' && value !== null && 'totalTokens' in value && typeof value.totalTokens === 'number';
}

async function mendEnd(path: string, { from }: { readonly from: number | undefined }): Promise<void> {
  const file = await open(path, 'r+');
  try {
    if (from === undefined) {
      const { size } = await file.stat();
      await file.write('\n', size);
    } else await file.truncate(from);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Writes the wanted lines to a file beside it, which takes its place: a process that dies in between leaves the old one. */
async function rewrite(path: string, wanted: ReadonlySet<number>): Promise<void> {
  const beside = `${path}.${process.pid}.tmp`;
  const file = await open(beside, 'w', privateFileMode);
  try {
    let lines = '';
    for await (const { text, number } of textLines(path)) {
      if (wanted.has(number)) lines += `${text}\n`;
      if (lines.length < 65_536) continue;
      await file.appendFile(lines);
      lines = '';
    }
    await file.appendFile(lines);
    await file.sync();
    await file.close();
    await rename(beside, path);
  } catch (error) {
    await file.close().catch(() => {});
    await rm(beside, { force: true });
    throw error;
  }
}

/** What the rows of earlier starts took. */
export function spentInRows(known: ReadonlyMap<string, KnownRow>): Spent {
  let sum = nothingSpent;
  for (const { spent } of known.values()) sum = addSpent(sum, spent);
  return sum;
}
