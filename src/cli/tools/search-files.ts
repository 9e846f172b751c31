import pLimit from 'p-limit';
import type { ToolContext } from '../../core/contracts/index.ts';
import { type Tool, tool } from '../../tools/tool.ts';
import { decodeText } from './text-file.ts';
import { joinPath, type Workspace } from './workspace.ts';

const skippedFolders: ReadonlySet<string> = new Set(['node_modules', 'dist']);
const maxFileBytes = 1_048_576;
const maxFiles = 20_000;
const maxMatches = 100;
const maxLineLength = 200;
const concurrentReads = 8;
const filesPerStep = 64;

const parameters = {
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
    parameters,
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
