import type { ToolDefinition, ToolListContext, ToolProvider } from '../core/contracts/index.ts';
import { verifyForeignSchema } from './limited-schema.ts';
import { jsonSchemaChecks } from './schema-checks.ts';
import { wrapping } from './wrapped-tools.ts';

/**
 * A provider whose calls are checked by the JSON Schemas of its definitions before they run, as a loop does by itself; here the schemas are
 * looked at when the tools are listed: `getTools` rejects with `INVALID_CONFIG` where one is not a JSON Schema. A definition that has its own
 * `checkArguments` keeps it.
 */
export function checkedTools(provider: ToolProvider): ToolProvider {
  const name = provider.name ?? provider.constructor.name;
  const checking: ToolProvider = {
    name,
    async getTools(context: ToolListContext) {
      const definitions = await provider.getTools(context);
      return Promise.all(definitions.map((definition) => checked(definition, name)));
    },
    executeTool: (call, context) => provider.executeTool(call, context),
  };
  return wrapping(checking, provider);
}

async function checked(definition: ToolDefinition, providerName: string): Promise<ToolDefinition> {
  if (definition.checkArguments !== undefined) return definition;
  const { name, parameters } = definition.function;
  const owner = `tool "${name}" of ${providerName}`;
  await verifyForeignSchema(parameters, owner);
  return { ...definition, checkArguments: jsonSchemaChecks(parameters, owner) };
}
