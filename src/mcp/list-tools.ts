import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import type { Tool } from '@modelcontextprotocol/sdk/types.js';
import { AgentLoopError, shownValue } from '../core/contracts/index.ts';
import type { ClientSdk } from './load-sdk.ts';

/** What a server answers where it is asked for its tools. */
export interface ListedTools {
  readonly tools: readonly Tool[];
  /** What stands among them and is no tool of the protocol. */
  readonly flawed: readonly FlawedTool[];
}

export interface FlawedTool {
  /** Undefined where it says none. */
  readonly name: string | undefined;
  /** As the rest of a sentence. */
  readonly why: string;
}

export interface ListToolsOptions {
  readonly types: ClientSdk['types'];
  /** For each page. Milliseconds. */
  readonly timeout: number;
}

const maxPages = 100;

/** All pages of a server's tools. One that the protocol does not allow takes nothing from the others. */
export async function listTools(client: Client, { types, timeout }: ListToolsOptions): Promise<ListedTools> {
  const tools: Tool[] = [];
  const flawed: FlawedTool[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < maxPages; page++) {
    const request = { method: 'tools/list' as const, params: cursor === undefined ? {} : { cursor } };
    const answer = await client.request(request, types.PaginatedResultSchema, { timeout });
    for (const each of listIn(answer, types)) {
      const parsed = types.ToolSchema.safeParse(each);
      if (parsed.success) tools.push(parsed.data);
      else flawed.push(flawOf(each, parsed.error.issues[0]?.path ?? []));
    }
    cursor = answer.nextCursor;
    if (cursor === undefined) return { tools, flawed };
  }
  throw new AgentLoopError('TOOL_FAILED', `gives a list of tools that does not end after ${maxPages} pages`);
}

/** Throws the error of the SDK if the response has no tools. */
function listIn(answer: Readonly<Record<string, unknown>>, types: ClientSdk['types']): readonly unknown[] {
  const { tools } = answer;
  return Array.isArray(tools) ? tools : types.ListToolsResultSchema.parse(answer).tools;
}

function flawOf(tool: unknown, path: readonly PropertyKey[]): FlawedTool {
  if (typeof tool !== 'object' || tool === null) return { name: undefined, why: `it is ${shownValue(tool)}, no tool` };
  const name: unknown = Reflect.get(tool, 'name');
  return {
    name: typeof name === 'string' ? name : undefined,
    why: `the protocol does not allow its ${path.map(String).join('.')}`,
  };
}
