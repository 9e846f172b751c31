import { AgentLoopError } from '../../core/contracts/index.ts';
import { type Tool, tool } from '../../tools/tool.ts';
import { decodeText } from './text-file.ts';
import type { Workspace } from './workspace.ts';

const maxBytes = 32_768;

const parameters = {
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
    parameters,
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
