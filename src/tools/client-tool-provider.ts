import {
  AgentLoopError,
  type ClientToolAnswer,
  type ToolCall,
  type ToolContext,
  type ToolDefinition,
  type ToolListContext,
  type ToolProvider,
  type ToolResult,
} from '../core/contracts/index.ts';
import { toContent } from './tool-content.ts';
import { assertDescription } from './tool-options.ts';
import { checkedTools } from './wrapped-tools.ts';

/** What a client says of a tool that it runs itself. */
export type ClientTool = ToolDefinition['function'];

/**
 * Tools that the client of a turn runs: each call becomes a `client-tool` question with the call's arguments as `data`, and what the
 * client answers, `{ result }` or `{ error }`, becomes the call's result. Until then the turn continues with its other calls, and suspends
 * when there is none. Arguments are checked by the JSON Schemas before the client is asked. Errors: `INVALID_CONFIG`, naming the tool and
 * the cure, for what describes no tool, and `DUPLICATE_TOOL` for two of one name; `getTools` rejects with `INVALID_CONFIG` where a schema
 * is not one.
 */
export class ClientToolProvider implements ToolProvider {
  readonly name: string;
  readonly #checked: ToolProvider;

  constructor(tools: readonly ClientTool[], { name = 'ClientToolProvider' }: { readonly name?: string } = {}) {
    this.name = name;
    if (!Array.isArray(tools)) {
      throw new AgentLoopError('INVALID_CONFIG', `${name} takes a list of tools: [{ name, description, parameters }].`);
    }
    const definitions = tools.map(definitionOf);
    checkUnique(definitions, name);
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
function definitionOf(described: ClientTool): ToolDefinition {
  assertDescription(described);
  const { name, description, parameters } = described;
  return { type: 'function', function: { name, description, parameters }, readOnly: true, onInDoubt: 'retry' };
}

function checkUnique(definitions: readonly ToolDefinition[], provider: string): void {
  const names = definitions.map((each) => each.function.name);
  const twice = names.find((name, index) => names.indexOf(name) < index);
  if (twice === undefined) return;
  throw new AgentLoopError('DUPLICATE_TOOL', `${provider} has two tools "${twice}"; rename one of them.`);
}

function askClient(call: ToolCall, context: ToolContext): ToolResult {
  const answer = context.ask({ kind: 'client-tool', data: context.arguments }) as ClientToolAnswer;
  if ('error' in answer) return { toolCallId: call.id, content: '', success: false, error: answer.error };
  return { toolCallId: call.id, content: toContent(answer.result, call.function.name), success: true };
}
