import type { ToolContext, ToolPolicy, ToolProvider, ToolResult } from 'millrace';

type Execute = (context: ToolContext) => unknown;

/** A function, or one with how the engine shall treat it. What it returns is the result's text. */
export type PlainTool = Execute | (ToolPolicy & { readonly execute: Execute });

/** A provider of functions that take any arguments; it answers without a promise where the function does. */
export function plainTools(tools: Readonly<Record<string, PlainTool>>): ToolProvider {
  return {
    name: 'plain tools',
    getTools: () =>
      Object.entries(tools).map(([name, tool]) => ({
        ...(typeof tool === 'function' ? {} : tool),
        type: 'function' as const,
        function: { name, description: `Does ${name}.`, parameters: { type: 'object' } },
      })),
    executeTool(call, context) {
      const tool = tools[call.function.name];
      if (tool === undefined) throw new Error(`no tool ${call.function.name}`);
      const answer = typeof tool === 'function' ? tool(context) : tool.execute(context);
      const result = (value: unknown): ToolResult => ({ toolCallId: call.id, content: String(value), success: true });
      return answer instanceof Promise ? answer.then(result) : result(answer);
    },
  };
}

/** A tool that stops when its signal says so, and not before. */
export async function obedient({ signal }: ToolContext): Promise<never> {
  await new Promise((resolve) => signal.addEventListener('abort', resolve));
  throw signal.reason;
}
