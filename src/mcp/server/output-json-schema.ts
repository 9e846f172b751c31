import type { Tool } from '@modelcontextprotocol/sdk/types.js';
import type { AgentSettings } from '../../agent/agent-options.ts';

/**
 * The JSON Schema of an agent's values for clients: the schema itself, or that of a Standard Schema's output. Undefined where the agent
 * ends with text, and where the schema cannot tell, or describes no object: values are texts then.
 */
export function outputJsonSchema(schema: AgentSettings['outputSchema']): Tool['outputSchema'] {
  if (schema === undefined) return undefined;
  const described: unknown = '~standard' in schema ? givenOut(schema['~standard']) : schema;
  return isObjectSchema(described) ? described : undefined;
}

function givenOut(standard: unknown): unknown {
  if (typeof standard !== 'object' || standard === null || !('jsonSchema' in standard)) return undefined;
  const { jsonSchema } = standard;
  if (typeof jsonSchema !== 'object' || jsonSchema === null || !('output' in jsonSchema)) return undefined;
  try {
    return typeof jsonSchema.output === 'function' ? jsonSchema.output({ target: 'draft-2020-12' }) : undefined;
  } catch {
    return undefined;
  }
}

function isObjectSchema(value: unknown): value is NonNullable<Tool['outputSchema']> {
  return typeof value === 'object' && value !== null && 'type' in value && value.type === 'object';
}
