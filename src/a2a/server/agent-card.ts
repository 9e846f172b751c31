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
import { invalidConfig, type ToolDefinition } from '../../core/contracts/index.ts';
import { A2AClientTools, agentExtensions } from '../extensions.ts';
import type { Authentication } from './authentication.ts';
import { type CardSigning, signedCard } from './card-signing.ts';

/** What the card says of the agent, where that is not what the agent says of itself. */
export interface CardOptions {
  /** Default: the agent's. */
  readonly name?: string | undefined;
  /** What the agent does, in words for people. Default: that of the agent. */
  readonly description?: string | undefined;
  /** Of the agent. Default `1.0.0`. */
  readonly version?: string | undefined;
  readonly provider?: AgentProvider | undefined;
  /** Where people read about the agent. */
  readonly documentationUrl?: string | undefined;
  /** A picture for it. */
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

interface CardRequest {
  readonly agent: Agent;
  readonly card: CardOptions;
  readonly interfaces: readonly AgentInterface[];
  readonly extensions: readonly AgentExtension[];
  readonly auth: readonly Authentication[];
  readonly pushNotifications: boolean;
}

/** The public card of the agent: what it is, how it is reached, and what callers have to show. */
function agentCard(request: CardRequest): AgentCard {
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
async function extendedAgentCard(card: AgentCard, { agent, card: options }: CardRequest): Promise<AgentCard> {
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
function interfacesAt(
  urls: Readonly<Record<'JSONRPC' | 'HTTP+JSON', string>> & { readonly GRPC?: string },
  versions: readonly string[],
): readonly AgentInterface[] {
  const bindings = Object.entries(urls).flatMap(([protocolBinding, url]) =>
    url === undefined ? [] : [{ protocolBinding, url }],
  );
  return versions.flatMap((protocolVersion) =>
    bindings.map((binding) => ({ ...binding, tenant: '', protocolVersion })),
  );
}

interface AgentCardsOptions {
  readonly agent: Agent;
  readonly auth: readonly Authentication[];
  readonly card?: CardOptions | undefined;
  readonly signing?: CardSigning | undefined;
  readonly push?: object | undefined;
  readonly toolEvents?: boolean | undefined;
  readonly extensionEvents?: readonly string[] | undefined;
  readonly legacy?: boolean | undefined;
}

/** The cards of the agent; they say where it is reached, which is known once it listens. */
export class AgentCards {
  readonly #options: AgentCardsOptions;
  #cards: { readonly card: AgentCard; readonly extended: AgentCard } | undefined;

  constructor(options: AgentCardsOptions) {
    this.#options = options;
  }

  get isOpen(): boolean {
    return this.#cards !== undefined;
  }

  /** Of all callers. */
  get card(): AgentCard {
    return this.#opened().card;
  }

  /** Of callers that are known. */
  get extended(): AgentCard {
    return this.#opened().extended;
  }

  async open(at: { readonly url: string; readonly grpcAddress?: string }): Promise<void> {
    const { agent, auth, card = {}, push, signing, toolEvents = false, extensionEvents, legacy = true } = this.#options;
    const clientTools = agent.toolProviders.some((provider) => provider instanceof A2AClientTools);
    const request: CardRequest = {
      agent,
      card,
      auth,
      pushNotifications: push !== undefined,
      extensions: agentExtensions({ clientTools, toolEvents, extensionEvents }),
      interfaces: interfacesAt(
        {
          JSONRPC: `${at.url}${jsonRpcPath}`,
          'HTTP+JSON': `${at.url}${restPath}`,
          ...(at.grpcAddress !== undefined && { GRPC: at.grpcAddress }),
        },
        legacy ? [A2A_PROTOCOL_VERSION, '0.3'] : [A2A_PROTOCOL_VERSION],
      ),
    };
    const plain = agentCard(request);
    const extended = await extendedAgentCard(plain, request);
    this.#cards = { card: await signedCard(plain, signing), extended: await signedCard(extended, signing) };
  }

  #opened() {
    if (this.#cards === undefined) throw invalidConfig('the server has not been started', 'call listen or start');
    return this.#cards;
  }
}

/** Where the bindings are, below the address of the server. */
export const jsonRpcPath = '/a2a/jsonrpc';
export const restPath = '/a2a/rest';
