import type { ToolDefinition, ToolListContext, ToolProvider } from './interfaces.ts';
import { jsonSchemaChecker } from './json-schema.ts';
import { verifyJsonSchema } from './json-schema-engine.ts';

/**
 * A provider whose calls are checked by the JSON Schemas of its definitions before they run. A definition that has its
 * own `checkArguments` keeps it. `getTools` rejects with `INVALID_CONFIG` where a schema is not a JSON Schema.
 */
export function checkedTools(provider: ToolProvider): ToolProvider {
  const name = provider.name ?? provider.constructor.name;
  return {
    name,
    async getTools(context: ToolListContext) {
      const definitions = await provider.getTools(context);
      return Promise.all(definitions.map((definition) => checked(definition, name)));
    },
    executeTool: (call, context) => provider.executeTool(call, context),
  };
}

async function checked(definition: ToolDefinition, providerName: string): Promise<ToolDefinition> {
  if (definition.checkArguments !== undefined) return definition;
  const { name, parameters } = definition.function;
  const owner = `tool "${name}" of ${providerName}`;
  await verifyJsonSchema(parameters, owner);
  return { ...definition, checkArguments: jsonSchemaChecker(parameters, owner) };
}
