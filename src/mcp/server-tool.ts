import { createHash } from 'node:crypto';
import type { ToolContext, ToolDefinition, ToolResult } from '../core/contracts/index.ts';

/** A tool of a server, as the engine sees it. */
export interface ServerTool {
  readonly definition: ToolDefinition;
  readonly execute: (context: ToolContext) => Promise<ToolResult>;
}

const maxLength = 64;

/** Names for the model, in the letters that all vendors take, each once: a name that had to be changed or cut ends in a digest of the original. */
export function exposedName(prefix: string, name: string): string {
  const plain = `${prefix}${name.replaceAll(/[^a-zA-Z0-9_-]/g, '_')}`;
  if (plain === `${prefix}${name}` && plain.length <= maxLength) return plain;
  const digest = createHash('sha256').update(name).digest('hex').slice(0, 8);
  return `${plain.slice(0, maxLength - digest.length - 1)}_${digest}`;
}
