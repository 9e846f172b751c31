import type { AgentCard } from '@a2a-js/sdk';
import type { ServerCallContext } from '@a2a-js/sdk/server';
import { digestOfNames, ownerGroup } from '../owner-group.ts';
import { malformed, protocolErrors } from './protocol-errors.ts';

/**
 * Names the owner of what a call makes and sees: calls of one scope share their tasks and contexts, those of different scopes know nothing
 * of each other. `undefined` refuses the call.
 */
export type ScopeOf = (context: ServerCallContext) => string | undefined;

/**
 * Names who sent a message, within a scope: an id of a message that two senders chose stands for two messages. Empty: all are of one sender.
 */
export type SenderOf = (context: ServerCallContext) => string;

/** The tenant and the user. Callers without a user share one scope, and are refused where the card declares how to authenticate. */
export function defaultScopeOf(
  card: () => Promise<AgentCard>,
): (context: ServerCallContext) => Promise<string | undefined> {
  return async ({ user, tenant = '' }) => {
    if (user?.isAuthenticated) return ownerOf(tenant, user.userName);
    const { securitySchemes } = await card();
    return Object.keys(securitySchemes).length > 0 ? undefined : ownerOf(tenant);
  };
}

/** Whose contexts to erase: a caller as the default of `scopeOf` names it, or a scope that `scopeOf` of a server or a handler returned. */
export type OwnerOptions = {
  /** The id of the served agent. */
  readonly agentId: string;
} & (
  | { readonly scope: string }
  | {
      /** The authenticated user: the `sub` of a token, the name of an API key. Absent for callers without authentication. */
      readonly user?: string | undefined;
      /** Default: none. */
      readonly tenant?: string | undefined;
    }
);

/**
 * The owners of the contexts of a caller of a served agent, for `erase`: the first over A2A, the second of `millrace/ui`, `millrace/openai` and
 * other routes. The same in every process.
 */
export function ownersOf(options: OwnerOptions): readonly [a2a: string, ui: string] {
  const scope = 'scope' in options ? options.scope : ownerOf(options.tenant ?? '', options.user);
  const { group, routeGroup } = new Scope(options.agentId, scope);
  return [group, routeGroup];
}

/** `user`: absent where nobody is asked who they are. */
export function ownerOf(tenant: string, user?: string): string {
  return JSON.stringify(user === undefined ? [tenant] : [tenant, user]);
}

interface ScopeOptions {
  /** Default: all messages are of one sender. */
  readonly sender?: string;
  /** Default false. */
  readonly isAnonymous?: boolean;
}

/**
 * One owner's part of the stores. The contexts of an owner carry a digest of it in front, which clients never see: so tasks, messages and
 * indexes of two owners are apart whatever ids they choose.
 */
export class Scope {
  /** The group of the owner's contexts; see `TaskQuery`. */
  readonly group: string;
  /** The group of the owner's contexts of handlers that are served beside A2A, which make it of the same names. */
  readonly routeGroup: string;
  /** Tells the messages of senders that share the scope apart; empty where all ids of messages are of one sender. */
  readonly sender: string;

  /** Whether nobody says who they are: the tenants that callers name keep their tasks apart then, and are one owner to the limits. */
  readonly isAnonymous: boolean;

  /** `agentId`: agents that share a store do not share tasks. */
  constructor(agentId: string, owner: string, { sender = '', isAnonymous = false }: ScopeOptions = {}) {
    this.isAnonymous = isAnonymous;
    this.group = ownerGroup('millrace.a2a', agentId, owner);
    this.routeGroup = `ui.${ownerGroup('owner', agentId, owner)}`;
    this.sender = sender && ownerGroup('sender', this.group, sender);
  }

  /** The id of the owner's context in the stores. Errors: RequestMalformed for one that is too long. */
  contextIn(shown: string): string {
    const inner = plain.test(shown) ? shown : `.${Buffer.from(shown).toString('base64url')}`;
    const contextId = `${this.group}:${inner}`;
    if (contextId.length > maxContextLength)
      throw malformed(
        'The contextId is too long; give at most 78 bytes, or 105 letters, digits, "_", ".", ":" and "-".',
      );
    return contextId;
  }

  owns(contextId: string): boolean {
    return contextId.startsWith(`${this.group}:`);
  }

  /** The id of the task that a message of this sender starts: the same whenever the message comes. */
  taskOf(messageId: string): string {
    return this.#idOf('task', messageId);
  }

  /** The id of the push configuration that comes with a message and names none. */
  configOf(messageId: string): string {
    return this.#idOf('push', messageId);
  }

  /** The context of a message that names none. */
  contextOf(messageId: string): string {
    return this.#idOf('context', messageId);
  }

  #idOf(kind: string, messageId: string): string {
    return uuidOf(digestOfNames([kind, this.group, ...(this.sender === '' ? [] : [this.sender]), messageId]));
  }
}

/** Ids that are stored unchanged; others are encoded, with a dot as prefix. */
const plain = /^[\w:-][\w.:-]*$/;

/** What all stores take. */
const maxContextLength = 128;

/** The id of a context as its owner knows it. */
export function shownContext(contextId: string): string {
  const inner = contextId.slice(contextId.indexOf(':') + 1);
  return inner.startsWith('.') ? Buffer.from(inner.slice(1), 'base64url').toString() : inner;
}

const scoped = /^[\w-]{22}:/;

/** Whether a context belongs to an owner of A2A at all. */
export function isScoped(contextId: string): boolean {
  return scoped.test(contextId);
}

/** Whether a context belongs to an owner of a handler that is served beside A2A. */
export function isOfRoute(contextId: string): boolean {
  return /^ui\.[\w-]{22}:/.test(contextId);
}

export function unauthenticated(): Error {
  return new (protocolErrors().A2AError)('Authentication is required.');
}

/** The first 122 bits of a digest as a UUID of version 8. */
function uuidOf(bytes: Buffer): string {
  const hex = [...bytes.toString('hex').slice(0, 32)];
  hex[12] = '8';
  hex[16] = '89ab'[Number.parseInt(hex[16] ?? '0', 16) % 4] ?? '8';
  const at = (from: number, to: number) => hex.slice(from, to).join('');
  return `${at(0, 8)}-${at(8, 12)}-${at(12, 16)}-${at(16, 20)}-${at(20, 32)}`;
}
