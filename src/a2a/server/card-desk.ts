import type { AgentCard } from '@a2a-js/sdk';
import type { Agent } from '../../agent/agent.ts';
import { invalidConfig } from '../../core/contracts/index.ts';
import { A2AClientTools } from '../client-tools.ts';
import { agentExtensions } from '../extensions.ts';
import { agentCard, type CardRequest, extendedAgentCard, interfacesAt } from './agent-card.ts';
import type { Authentication } from './auth/authentication.ts';
import { signedCard } from './card-signature.ts';
import { jsonRpcPath, restPath } from './http/paths.ts';
import type { A2AServerOptions } from './server-options.ts';

type DeskOptions = Pick<A2AServerOptions, 'card' | 'signing' | 'push' | 'toolEvents' | 'extensionEvents'> & {
  readonly agent: Agent;
  readonly auth: readonly Authentication[];
};

/** The cards of the agent; they say where it is reached, which is known once it listens. */
export class CardDesk {
  readonly #options: DeskOptions;
  #cards: { readonly card: AgentCard; readonly extended: AgentCard } | undefined;

  constructor(options: DeskOptions) {
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
    const { agent, auth, card = {}, push, signing, toolEvents = false, extensionEvents } = this.#options;
    const clientTools = agent.toolProviders.some((provider) => provider instanceof A2AClientTools);
    const request: CardRequest = {
      agent,
      card,
      auth,
      pushNotifications: push !== undefined,
      extensions: agentExtensions({ clientTools, toolEvents, extensionEvents }),
      interfaces: interfacesAt({
        JSONRPC: `${at.url}${jsonRpcPath}`,
        'HTTP+JSON': `${at.url}${restPath}`,
        ...(at.grpcAddress !== undefined && { GRPC: at.grpcAddress }),
      }),
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
