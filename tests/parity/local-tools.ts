import { LocalToolProvider, type ToolContext, type ToolPolicy, tool } from 'millrace';

type Execute = (args: Readonly<Record<string, unknown>>, context: ToolContext) => unknown;

/** A function, or one with how the engine shall treat it. */
export type LocalTool = Execute | (ToolPolicy & { readonly execute: Execute });

/** A local provider of tools that take any object. */
export function localTools(tools: Readonly<Record<string, LocalTool>>): LocalToolProvider {
  return new LocalToolProvider(
    Object.entries(tools).map(([name, given]) => {
      const { execute, ...policy } = typeof given === 'function' ? { execute: given } : given;
      return tool({
        ...policy,
        name,
        description: `Does ${name}.`,
        parameters: { type: 'object' },
        execute: (args, context) => execute({ ...args }, context),
      });
    }),
  );
}
