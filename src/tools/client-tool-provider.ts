import { AgentLoopError } from '../core/errors.ts';
import type { ToolCall } from '../core/messages.ts';
import { checkedTools } from './checked-tools.ts';
import type {
  ClientToolAnswer,
  ToolContext,
  ToolDefinition,
  ToolListContext,
  ToolProvider,
  ToolResult,
} from './interfaces.ts';
import { toContent } from './tool-content.ts';

/** What a client says of a tool that it runs itself. */
export type ClientTool = ToolDefinition['function'];

/**
 * Tools that the client of a turn runs: each call becomes a `client-tool` question with the call's arguments as `data`, and what the
 * client answers, `{ result }` or `{ error }`, becomes the call's result. Until then the turn goes on with its other calls, and suspends
 * when there is none. Arguments are checked by the JSON Schemas before the client is asked. Errors: `INVALID_CONFIG` for what is no
 * tool; `getTools` rejects with it where a schema is not one.
 */
export class ClientToolProvider implements ToolProvider {
  readonly name: string;
  readonly #checked: ToolProvider;

  constructor(tools: readonly ClientTool[], { name = 'ClientToolProvider' }: { readonly name?: string } = {}) {
    this.name = name;
    const definitions = tools.map((each) => definitionOf(each, name));
    this.#checked = checkedTools({ name, getTools: () => definitions, executeTool: askClient });
  }

  getTools(context: ToolListContext): readonly ToolDefinition[] | Promise<readonly ToolDefinition[]> {
    return this.#checked.getTools(context);
  }

  executeTool(call: ToolCall, context: ToolContext): ToolResult | Promise<ToolResult> {
    return this.#checked.executeTool(call, context);
  }
}

/** Asking has no effect outside, so a call whose answer was being taken in when the process died does so again. */
function definitionOf(described: ClientTool, provider: string): ToolDefinition {
  if (typeof described?.name !== 'string' || typeof described.parameters !== 'object') {
    const message = `${provider}: a tool of the client is described by { name, description, parameters }.`;
    throw new AgentLoopError('INVALID_CONFIG', message);
  }
  const { name, description, parameters } = described;
  return { type: 'function', function: { name, description, parameters }, readOnly: true, onInDoubt: 'retry' };
}

function askClient(call: ToolCall, context: ToolContext): ToolResult {
  const answer = context.ask({ kind: 'client-tool', data: context.arguments }) as ClientToolAnswer;
  if ('error' in answer) return { toolCallId: call.id, content: '', success: false, error: answer.error };
  return { toolCallId: call.id, content: toContent(answer.result, call.function.name), success: true };
}
