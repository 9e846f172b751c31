import {
  A2A_PROTOCOL_VERSION,
  type AgentCard,
  type AgentExtension,
  type AgentInterface,
  type AgentProvider,
  type AgentSkill,
  type SecurityScheme,
} from '@a2a-js/sdk';
import type { Agent } from '../../agent/agent.ts';
import type { ToolDefinition } from '../../core/contracts/index.ts';
import type { Authentication } from './auth/authentication.ts';

/** What the card says of the agent, where that is not what the agent says of itself. */
export interface CardOptions {
  /** Default: the agent's. */
  readonly name?: string | undefined;
  readonly description?: string | undefined;
  /** Of the agent. Default `1.0.0`. */
  readonly version?: string | undefined;
  readonly provider?: AgentProvider | undefined;
  readonly documentationUrl?: string | undefined;
  readonly iconUrl?: string | undefined;
  /** Media types. Default `text/plain`, `application/json`, `image/*`. */
  readonly inputModes?: readonly string[] | undefined;
  /** Media types. Default `text/plain`, and `application/json`. */
  readonly outputModes?: readonly string[] | undefined;
  /** Default: one, the agent. */
  readonly skills?: readonly AgentSkill[] | undefined;
  /** Of callers that are known. Default: `skills`, and each tool of the agent. */
  readonly extendedSkills?: readonly AgentSkill[] | undefined;
}

export interface CardRequest {
  readonly agent: Agent;
  readonly card: CardOptions;
  readonly interfaces: readonly AgentInterface[];
  readonly extensions: readonly AgentExtension[];
  readonly auth: readonly Authentication[];
  readonly pushNotifications: boolean;
}

/** The public card of the agent: what it is, how it is reached, and what callers have to show. */
export function agentCard(request: CardRequest): AgentCard {
  const { agent, card, auth } = request;
  const { name = agent.name, description = agent.options.description ?? agent.name, version = '1.0.0' } = card;
  const { documentationUrl, iconUrl, inputModes = textModes, outputModes = answerModes } = card;
  return {
    name,
    description,
    version,
    supportedInterfaces: [...request.interfaces],
    provider: card.provider,
    ...(documentationUrl !== undefined && { documentationUrl }),
    ...(iconUrl !== undefined && { iconUrl }),
    capabilities: {
      streaming: true,
      pushNotifications: request.pushNotifications,
      extensions: [...request.extensions],
      extendedAgentCard: auth.length > 0,
    },
    securitySchemes: schemesOf(auth),
    securityRequirements: auth.map((way) => ({ schemes: { [way.name]: { list: [] } } })),
    defaultInputModes: [...inputModes],
    defaultOutputModes: [...outputModes],
    skills: [...(card.skills ?? [skillOf({ id: agent.id, name, description, tags: ['agent'] })])],
    signatures: [],
  };
}

/** What callers that are known read: the public card, and the tools as skills. */
export async function extendedAgentCard(card: AgentCard, { agent, card: options }: CardRequest): Promise<AgentCard> {
  const skills = options.extendedSkills ?? [...card.skills, ...(await toolSkills(agent))];
  return { ...card, skills: [...skills], signatures: [] };
}

const textModes = ['text/plain', 'application/json', 'image/*'];
const answerModes = ['text/plain', 'application/json'];

function schemesOf(auth: readonly Authentication[]): Record<string, SecurityScheme> {
  return Object.fromEntries(auth.map(({ name, scheme }) => [name, scheme]));
}

async function toolSkills(agent: Agent): Promise<readonly AgentSkill[]> {
  const asker = { taskId: '', contextId: '', agentId: agent.id, metadata: {}, authContext: undefined };
  const lists = await Promise.all(agent.toolProviders.map(async (provider) => provider.getTools(asker)));
  return lists.flat().map(toolSkill);
}

function toolSkill({ function: { name, description = '' } }: ToolDefinition): AgentSkill {
  return skillOf({ id: `tool:${name}`, name, description, tags: ['tool'] });
}

function skillOf(skill: Pick<AgentSkill, 'id' | 'name' | 'description' | 'tags'>): AgentSkill {
  return { ...skill, examples: [], inputModes: [], outputModes: [], securityRequirements: [] };
}

/** The same addresses in both versions: newer ones first, since a client takes the first that it knows. */
export function interfacesAt(
  urls: Readonly<Record<'JSONRPC' | 'HTTP+JSON', string>> & { readonly GRPC?: string },
): readonly AgentInterface[] {
  const bindings = Object.entries(urls).flatMap(([protocolBinding, url]) =>
    url === undefined ? [] : [{ protocolBinding, url }],
  );
  return [A2A_PROTOCOL_VERSION, '0.3'].flatMap((protocolVersion) =>
    bindings.map((binding) => ({ ...binding, tenant: '', protocolVersion })),
  );
}
