import type { Tool } from '@modelcontextprotocol/server';
import type { Agent } from '../../agent/agent.ts';
import type { AgentSettings } from '../../agent/agent-options.ts';
import type { MessageStore } from '../../core/contracts/index.ts';
import type { WaitingTurns } from './waiting-turns.ts';

/** An agent, how it is served, and how many of its turns run. */
export interface ServedAgent {
  readonly agent: Agent;
  readonly toolName: string;
  /** The conversations in memory of an agent without a store of its own. */
  readonly ownMessages: MessageStore | undefined;
  /** Whether turns that nobody answered stay. */
  readonly keepUnanswered: boolean;
  readonly answerTimeoutMs: number;
  /** Signs what clients keep of turns that wait. */
  readonly stateKey: string | Uint8Array;
  readonly waiting: WaitingTurns;
  readonly maxTurns: number;
  turns: number;
}

/** The one tool of a served agent. */
export function toolOf({ agent, toolName }: ServedAgent): Tool {
  const { description = `Asks the agent ${agent.name}.`, output, outputSchema: given } = agent.options;
  const outputSchema = outputJsonSchema(output?.schema ?? given);
  return {
    name: toolName,
    title: agent.name,
    description,
    inputSchema: {
      type: 'object',
      properties: {
        message: { type: 'string', description: 'What to do, with all that is needed to do it.' },
        conversation: {
          type: 'string',
          description:
            'A name of your choice: calls with the same one remember each other. Leave it out for a task of its own.',
        },
      },
      required: ['message'],
    },
    ...(outputSchema && { outputSchema }),
  };
}

interface GivenArguments {
  readonly message: string;
  readonly conversation: string | undefined;
}

/** The arguments of a call; `undefined` if they do not fit the tool. */
export function argumentsOf(given: Readonly<Record<string, unknown>> = {}): GivenArguments | undefined {
  const message = given['message'];
  const conversation = given['conversation'];
  if (typeof message !== 'string' || message.trim() === '') return undefined;
  if (conversation !== undefined && typeof conversation !== 'string') return undefined;
  return { message, conversation };
}

/**
 * The JSON Schema of an agent's values for clients: the schema itself, or that of a Standard Schema's output. Undefined where the agent
 * ends with text, and where the schema cannot tell, or describes no object: values are texts then.
 */
function outputJsonSchema(schema: AgentSettings['outputSchema']): Tool['outputSchema'] {
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
