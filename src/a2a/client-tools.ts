import type { Message as WireMessage } from '@a2a-js/sdk';
import type { Agent } from '../agent/agent.ts';
import {
  AgentLoopError,
  type ToolCall,
  type ToolContext,
  type ToolDefinition,
  type ToolListContext,
  type ToolProvider,
  type ToolResult,
} from '../core/contracts/index.ts';
import { type ClientTool, ClientToolProvider } from '../tools/client-tool-provider.ts';
import { clientToolsExtension } from './extensions.ts';
import { malformed } from './protocol-errors.ts';

/** How many tools a client may bring, and how long their descriptions may be as JSON. */
const maxTools = 50;
const maxLength = 100_000;

/**
 * The tools that a client brings with its message: among the `toolProviders` of an agent it lets clients of A2A do so. They stand in the
 * journal with the turn, so it knows them after a restart. Calls become questions, see `ClientToolProvider`. A tool of the agent's own with
 * the same name fails the turn with `DUPLICATE_TOOL`.
 */
export class A2AClientTools implements ToolProvider {
  readonly name = 'A2AClientTools';

  getTools(context: ToolListContext): readonly ToolDefinition[] | Promise<readonly ToolDefinition[]> {
    const tools = toolsIn(context.metadata);
    return tools.length === 0 ? [] : new ClientToolProvider(tools, { name: this.name }).getTools(context);
  }

  async executeTool(call: ToolCall, context: ToolContext): Promise<ToolResult> {
    const tools = new ClientToolProvider(toolsIn(context.metadata), { name: this.name });
    return tools.executeTool(call, context);
  }
}

/** Whether clients may bring tools. */
export function takesClientTools({ options }: Agent): boolean {
  return (options.toolProviders ?? []).some((provider) => provider instanceof A2AClientTools);
}

/** The metadata of a turn that a message starts; `undefined` where it brings nothing. Errors: RequestMalformed. */
export function metadataForTools(
  { metadata }: WireMessage,
  agent: Agent,
): Readonly<Record<string, unknown>> | undefined {
  const brought: unknown = metadata?.[clientToolsExtension];
  if (brought === undefined || !takesClientTools(agent)) return undefined;
  const tools: unknown =
    typeof brought === 'object' && brought !== null && 'tools' in brought ? brought.tools : undefined;
  if (!Array.isArray(tools)) throw malformed(`The metadata of ${clientToolsExtension} must be { tools: [ … ] }.`);
  if (tools.length > maxTools || JSON.stringify(tools).length > maxLength)
    throw malformed(`A message may bring at most ${maxTools} tools, of ${maxLength} characters together.`);
  checkTools(tools);
  return { [clientToolsExtension]: tools };
}

function checkTools(tools: ClientTool[]): void {
  try {
    new ClientToolProvider(tools);
  } catch (error) {
    if (AgentLoopError.isInstance(error)) throw malformed(error.message);
    throw error;
  }
}

function toolsIn(metadata: Readonly<Record<string, unknown>>): readonly ClientTool[] {
  const tools = metadata[clientToolsExtension];
  return Array.isArray(tools) ? tools : [];
}
