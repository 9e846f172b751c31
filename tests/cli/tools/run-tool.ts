import { LocalToolProvider, type Tool, type ToolContext } from 'millrace';
import { toolCall, toolContext } from '../../tools/tool-context.ts';

/** Calls a tool as a model does: with JSON text that is checked by the tool's schema. Gives the text of its result. */
export async function runTool(one: Tool, args: unknown, changes: Partial<ToolContext> = {}): Promise<string> {
  const { content } = await new LocalToolProvider([one]).executeTool(
    toolCall(one.definition.function.name, args),
    toolContext(changes),
  );
  if (typeof content !== 'string') throw new Error('the result is not a text');
  return content;
}
