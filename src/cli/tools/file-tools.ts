import pLimit from 'p-limit';
import { AgentLoopError, type ToolContext } from '../../core/contracts/index.ts';
import { type Tool, tool } from '../../tools/tool.ts';
import { joinPath, type Workspace } from './workspace.ts';

const maxEntries = 500;

const listParameters = {
  type: 'object',
  properties: {
    path: {
      type: 'string',
      description: 'The folder, relative to the working folder. Default: the working folder itself.',
    },
  },
  additionalProperties: false,
} as const;

/** A tool that lists a folder of the workspace, at most 500 entries, a `/` after the names of folders. */
export function listFilesTool(workspace: Workspace): Tool<{ readonly path?: string }> {
  return tool({
    name: 'list_files',
    description: 'Lists the files and folders of a folder in the working folder. Names of folders end with "/".',
    parameters: listParameters,
    readOnly: true,
    onInDoubt: 'retry',
    execute: ({ path = '.' }) => listing(workspace, path),
  });
}

async function listing(workspace: Workspace, path: string): Promise<string> {
  const entries = await workspace.list(path);
  if (entries.length === 0) return 'The folder is empty.';
  const lines = entries.slice(0, maxEntries).map(({ name, kind }) => (kind === 'folder' ? `${name}/` : name));
  const rest = entries.length - lines.length;
  return rest === 0 ? lines.join('\n') : `${lines.join('\n')}\n[${rest} more are left out]`;
}

const maxBytes = 32_768;

const readParameters = {
  type: 'object',
  properties: {
    path: { type: 'string', minLength: 1, description: 'The file, relative to the working folder.' },
    offset: { type: 'integer', minimum: 0, description: 'The byte to start at. Default 0.' },
  },
  required: ['path'],
  additionalProperties: false,
} as const;

/** A tool that reads a text file of the workspace, 32 KiB at a time. A file that is not UTF-8 text is refused. */
export function readFileTool(workspace: Workspace): Tool<{ readonly path: string; readonly offset?: number }> {
  return tool({
    name: 'read_file',
    description:
      'Reads a text file of the working folder. A long file is read in pieces of 32 KiB; the last line has the offset of the next piece.',
    parameters: readParameters,
    readOnly: true,
    onInDoubt: 'retry',
    execute: ({ path, offset = 0 }) => readPiece(workspace, path, offset),
  });
}

async function readPiece(workspace: Workspace, path: string, offset: number): Promise<string> {
  const { bytes, size } = await workspace.read(path, { offset, length: maxBytes });
  if (offset > size) throw failed(`"${path}" has ${size} bytes; offset ${offset} is past its end.`);
  const piece = decodeText(bytes, { start: offset > 0, end: offset + bytes.length < size });
  if (piece === undefined) throw failed(`"${path}" is not a text file; only UTF-8 text can be read.`);
  const start = offset + piece.before;
  const end = offset + bytes.length - piece.after;
  if (end >= size) return piece.text;
  return `${piece.text}\n[bytes ${start} to ${end} of ${size}; continue with offset ${end}]`;
}

function failed(message: string): AgentLoopError {
  return new AgentLoopError('TOOL_FAILED', message);
}

const skippedFolders: ReadonlySet<string> = new Set(['node_modules', 'dist']);
const maxFileBytes = 1_048_576;
const maxFiles = 20_000;
const maxMatches = 100;
const maxLineLength = 200;
const concurrentReads = 8;
const filesPerStep = 64;

const searchParameters = {
  type: 'object',
  properties: {
    query: {
      type: 'string',
      minLength: 1,
      maxLength: 200,
      description: 'The text to look for, in any case; not a pattern.',
    },
    path: {
      type: 'string',
      description: 'The folder or file to search, relative to the working folder. Default: all of it.',
    },
  },
  required: ['query'],
  additionalProperties: false,
} as const;

/**
 * A tool that finds the lines of the workspace's text files that contain a string, ignoring case. Gives
 * `file:line: text` in the order of the names, at most 100 lines of at most 200 characters.
 *
 * Links, binary files, files over 1 MiB, what the workspace keeps private, and the folders `node_modules` and `dist` are left out; at most 20,000
 * files are read, 8 at a time, and how far it has come is shown as progress. Stops when the call's signal is aborted.
 */
export function searchFilesTool(workspace: Workspace): Tool<{ readonly query: string; readonly path?: string }> {
  return tool({
    name: 'search_files',
    description:
      'Searches the text files below the working folder for a string, ignoring case. Returns "file:line: text" for each line that contains it.',
    parameters: searchParameters,
    readOnly: true,
    onInDoubt: 'retry',
    execute: ({ query, path = '.' }, context) => search({ workspace, query, path, context }),
  });
}

interface Search {
  readonly workspace: Workspace;
  readonly query: string;
  readonly path: string;
  readonly context: ToolContext;
}

async function search(what: Search): Promise<string> {
  const { signal } = what.context;
  const limit = pLimit(concurrentReads);
  const found: string[] = [];
  let files = 0;
  for await (const paths of inSteps(filesBelow(what.workspace, what.path, signal))) {
    const lines = await Promise.all(paths.map((path) => limit(() => matchingLines(what, path))));
    found.push(...lines.flat());
    files += paths.length;
    what.context.progress({ files, matches: found.length });
    if (found.length > maxMatches || files >= maxFiles) break;
  }
  return report(found, files, what.query);
}

function report(found: readonly string[], files: number, query: string): string {
  const notes = [
    ...(found.length > maxMatches
      ? [`[more than ${maxMatches} lines; search for a longer string, or in one folder]`]
      : []),
    ...(files >= maxFiles ? [`[stopped after ${files} files; search in one folder]`] : []),
  ];
  if (found.length === 0) return [`No line of ${files} files holds ${JSON.stringify(query)}.`, ...notes].join('\n');
  return [...found.slice(0, maxMatches), ...notes].join('\n');
}

/** The files below a folder in the order of their names, folders after the files beside them; a file is itself. */
async function* filesBelow(workspace: Workspace, start: string, signal: AbortSignal): AsyncGenerator<string> {
  if ((await workspace.kind(start)) === 'file') {
    yield joinPath('.', start);
    return;
  }
  const folders = [start];
  for (let folder = folders.shift(); folder !== undefined; folder = folders.shift()) {
    signal.throwIfAborted();
    const entries = await workspace.list(folder);
    for (const { name, kind } of entries) if (kind === 'file') yield joinPath(folder, name);
    const below = entries.filter(({ name, kind }) => kind === 'folder' && !skippedFolders.has(name));
    folders.unshift(...below.map(({ name }) => joinPath(folder ?? '.', name)));
  }
}

async function* inSteps(paths: AsyncIterable<string>): AsyncGenerator<readonly string[]> {
  let step: string[] = [];
  for await (const path of paths) {
    step.push(path);
    if (step.length < filesPerStep) continue;
    yield step;
    step = [];
  }
  if (step.length > 0) yield step;
}

/** A file that cannot be read is no reason to stop: it may have gone meanwhile. */
async function matchingLines({ workspace, query, context }: Search, path: string): Promise<readonly string[]> {
  context.signal.throwIfAborted();
  const wholeFile = { offset: 0, length: maxFileBytes, largest: maxFileBytes };
  const piece = await workspace.read(path, wholeFile).catch(() => undefined);
  const text = piece === undefined ? '' : (decodeText(piece.bytes)?.text ?? '');
  const wanted = query.toLowerCase();
  return text
    .split(/\r?\n/)
    .map((line, index) => ({ line, at: index + 1, column: line.toLowerCase().indexOf(wanted) }))
    .filter(({ column }) => column >= 0)
    .slice(0, maxMatches + 1)
    .map(({ line, at, column }) => `${path}:${at}: ${excerpt(line, column)}`);
}

/** A long line is shown around what was found in it. */
function excerpt(line: string, column: number): string {
  if (line.length <= maxLineLength) return line.trim();
  const start = Math.max(0, column - maxLineLength / 4);
  const shown = line.slice(start, start + maxLineLength).trim();
  return `${start > 0 ? '…' : ''}${shown}${start + maxLineLength < line.length ? '…' : ''}`;
}

/** Text as far as it is text: whole UTF-8 characters, from the first to the last. */
interface TextPiece {
  readonly text: string;
  /** Bytes left out before the text and after it, parts of characters that were cut. */
  readonly before: number;
  readonly after: number;
}

/** Which ends of a piece are not those of the file. */
interface Cuts {
  readonly start: boolean;
  readonly end: boolean;
}

/** The text of a piece of a file, or `undefined` where the piece is not UTF-8 text: a NUL byte, or bytes of no character. */
export function decodeText(bytes: Uint8Array, cuts: Cuts = { start: false, end: false }): TextPiece | undefined {
  if (bytes.includes(0)) return undefined;
  const before = cuts.start ? cutStart(bytes) : 0;
  const after = cuts.end ? cutEnd(bytes.subarray(before)) : 0;
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes.subarray(before, bytes.length - after));
    return { text, before, after };
  } catch {
    return undefined;
  }
}

/** How many bytes at the start continue a character that began before, at most 3. */
function cutStart(bytes: Uint8Array): number {
  let count = 0;
  while (count < 3 && isContinuation(bytes[count])) count += 1;
  return count;
}

/** The number of bytes at the end that begin an incomplete character, at most 3. */
function cutEnd(bytes: Uint8Array): number {
  for (let count = 1; count <= 3; count += 1) {
    const byte = bytes[bytes.length - count];
    if (isContinuation(byte)) continue;
    return byte !== undefined && lengthFrom(byte) > count ? count : 0;
  }
  return 0;
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0b1100_0000) === 0b1000_0000;
}

function lengthFrom(byte: number): number {
  if (byte >= 0b1111_0000) return 4;
  if (byte >= 0b1110_0000) return 3;
  return byte >= 0b1100_0000 ? 2 : 1;
}
